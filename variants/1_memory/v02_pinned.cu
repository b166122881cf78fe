// v02: page-locked host buffers. The copy engine cannot touch pageable memory: v01's driver first copies each block
// into a page-locked buffer of its own and sends it on from there. Here points, labels and centroids live in
// page-locked memory (prepare_pinned), and every copy is one transfer at the speed of the bus.
#include "../common/lloyd/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
constexpr Phases<T> phases{.prepare = prepare_pinned<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign_points<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v02_pinned", .base = "v01_global", .idea = "page-locked host buffers",
               .expect = "copies 2 to 8 times faster; assign unchanged", .shows = "end_to_end", .source = "002 r1.1",
               .f32 = phases<float>, .f64 = phases<double>)
