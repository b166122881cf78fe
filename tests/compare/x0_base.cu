// x0: what the copy and the slower one are compared with.
#include "soa.cuh"

LADDER_VARIANT(.id = "x0_base", .base = "", .idea = "points stored feature by feature", .shows = "assign",
               .refuse = ladder::refuse_update_shared, .f32 = ladder::soa_phases<float, 0>,
               .f64 = ladder::soa_phases<double, 0>)
