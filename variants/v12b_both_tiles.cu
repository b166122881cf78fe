// v12b: a tile of points in shared memory beside the tile of centroids. In v12 a thread waits for its coordinates from
// global memory, and reads them once for every 32 centroids. Here a block computes 128 x 128 products and each thread
// 8 x 8 of them: 16 numbers from shared memory serve 64 multiply-adds, and a coordinate is read once for every 128
// centroids. While 8 features are multiplied, the next 8 are on their way: loaded to registers before the
// multiplications, stored to the other of two buffers after them.
#include "parts/features.cuh"
#include "parts/norms.cuh"
#include "parts/update_lanes.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/assign_both_tiles.cuh"

namespace {
using namespace ladder;

template <class T>
constexpr Phases<T> phases{.prepare = prepare_norms<T>,
                           .upload = upload_features<T>,
                           .restart = restart_rows<T>,
                           .assign = assign_both_tiles<T>,
                           .update = update_any<T, Layout::features>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v12b_both_tiles", .base = "v12_block_size",
               .idea = "points staged in shared memory too, 8 x 8 products per thread",
               .expect =
                   "how matrix products are written; v12's wait for coordinates goes, and with it half the time or "
                   "more where K and D are large; where K or D is small, much of each tile is empty. "
                   "A larger step: to share two tiles, each thread needs other points and other centroids",
               .shows = "assign", .counter = "dram_bytes",
               .source = "V. Volkov and J. Demmel, Benchmarking GPUs to tune dense linear algebra, SC08",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .f32 = phases<float>, .f64 = phases<double>)
