// x1: x0 under another name: whatever a comparison says of the two is chance.
#include "soa.cuh"

LADDER_VARIANT(.id = "x1_copy", .base = "x0_base", .idea = "none: an exact copy", .shows = "assign",
               .refuse = ladder::refuse_update_shared, .f32 = ladder::soa_phases<float, 0>,
               .f64 = ladder::soa_phases<double, 0>)
