// v08: centroids pass through shared memory, one tile of them at a time, for any K and D. In v06 all threads read all
// centroids from global memory; where K x D words are more than L1 holds, each block fetches them from L2 again for
// every warp. Here a block fetches each tile once, and its threads read it from shared memory: all lanes of a warp read
// the same word, which shared memory broadcasts.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d, int width) {
  T* centroids = dynamic_shared<T>();  // width x tile
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = min(row, n - 1);  // threads without a point take the last one: all must reach the barriers
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int first = 0; first < k; first += tile) {
    T distance[tile] = {};
    for (int from = 0; from < d; from += width) {
      const int features = min(width, d - from);
      stage_tile<tile>(centroids, c, first, from, features, k, d);
      for (int t = 0; t < tile; ++t) {
        for (int f = 0; f < features; ++f) {
          const T diff = x[size_t(from + f) * n + i] - centroids[f * tile_pitch<tile> + t];
          distance[t] += diff * diff;
        }
      }
    }
    for (int t = 0; t < tile; ++t) {
      if (first + t < k && distance[t] < nearest) nearest = distance[t], best = first + t;
    }
  }
  if (row < n) label[row] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  dispatch<4, 8, 16>(s.axis("tile"), [&]<int tile>() {
    const int width = tile_width<tile, T>(s.d);
    set_carveout(assign_kernel<T, tile>, s.axis("carveout"));
    launch(assign_kernel<T, tile>, blocks(s.n, 256), 256, tile_bytes<tile, T>(width), s.stream, s.x, s.c, s.label, s.n,
           s.k, s.d, width);
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_features<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v08_shared_tiles", .base = "v07_choose_update",
               .idea = "centroids tile by tile in shared memory",
               .expect =
                   "Titan X: 48 -> 20 minutes; today L1 and L2 catch most of what shared memory caught then, so a "
                   "gain only where K x D words exceed L1; percent of L1 given to shared memory: little effect, "
                   "for the tile is small",
               .shows = "assign", .counter = "load_requests", .source = "000, 002 r1.2",
               .axes = {{"tile", {4, 8, 16}, 16}, {"carveout", {-1, 0, 25, 50, 75, 100}, -1}}, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"multiply_adds", "ceil(N / 256) * 256 * ceil(K / tile) * tile * D"},
                          {"additions", "multiply_adds"},
                          {"load_requests", "multiply_adds / 32 * (1 + 1 / 256)"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "from_dram(N * D * B, K)"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask =
                  "The centroids' loads all but vanish. Why is the time still that of reading the points 5,000 "
                  "times?",
              .answer =
                  "Per multiply-add one load is left, that of the thread's own coordinate: the loop over "
                  "centroids is the outer one, so each coordinate is read K times, and 490 MB of points fit no "
                  "cache. Device memory is the limit now.")
