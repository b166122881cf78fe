// v01: the first port to the GPU. One thread labels one point (assign_rows.cuh); points, centroids and labels lie in
// global memory; the host still computes the new centroids, so labels and centroids cross the bus in every iteration,
// from and to ordinary pageable memory. A root of the ladder: everything after it removes one of these costs.
#include "../common/lloyd/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign_points<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v01_global", .base = "", .idea = "one thread per point, everything in global memory",
               .expect = "assign parallel over points; update and copies on the host dominate where K is small",
               .shows = "iteration", .source = "000, 001, 002 r1.0", .f32 = phases<float>, .f64 = phases<double>)
