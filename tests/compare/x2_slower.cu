// x2: x0 with 3 % more distances to compute, and the same result.
#include "soa.cuh"

LADDER_VARIANT(.id = "x2_slower", .base = "x0_base", .idea = "3 % of the centroids looked at twice", .shows = "assign",
               .refuse = ladder::refuse_update_shared, .f32 = ladder::soa_phases<float, 3>,
               .f64 = ladder::soa_phases<double, 3>)
