// v10: a thread works on several points; their distances to all centroids of a tile of 32 (double: 16) stay in its
// registers. In v09 each number read from shared memory serves one multiply-add; here it serves `points` of them, and a
// coordinate serves the larger tile. The price is registers: on sm_90, 64 a thread for 1 point, 107 for 2, 187 for 4,
// and at 187 a multiprocessor holds one block of 256 threads instead of two.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile, int points>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d, int width) {
  T* centroids = dynamic_shared<T>();                              // width x tile
  const int row = blockIdx.x * blockDim.x * points + threadIdx.x;  // its points: row, row + blockDim.x, ...
  int i[points], best[points] = {};
  T nearest[points];
  // A thread without a point takes the last one: all threads must reach the barriers.
  for (int p = 0; p < points; ++p) i[p] = min(row + p * int(blockDim.x), n - 1);
  for (int p = 0; p < points; ++p) nearest[p] = std::numeric_limits<T>::infinity();
  for (int first = 0; first < k; first += tile) {
    T distance[points][tile] = {};
    for (int from = 0; from < d; from += width) {
      const int features = min(width, d - from);
      stage_tile<tile>(centroids, c, first, from, features, k, d);
      for (int f = 0; f < features; ++f) {
        T frag[points];
        for (int p = 0; p < points; ++p) frag[p] = x[size_t(from + f) * n + i[p]];
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            const T diff = frag[p] - centroids[f * tile_pitch<tile> + t];
            distance[p][t] += diff * diff;
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (first + t < k && distance[p][t] < nearest[p]) nearest[p] = distance[p][t], best[p] = first + t;
      }
    }
  }
  for (int p = 0; p < points; ++p) {
    if (row + p * int(blockDim.x) < n) label[i[p]] = best[p];
  }
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  constexpr int tile = 128 / sizeof(T);  // 2 points: 64 of a thread's registers hold distances
  int points = s.axis("points");
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < 256 * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    const int width = tile_width<tile, T>(s.d);
    launch(assign_kernel<T, tile, points>, blocks(s.n, 256 * points), 256, tile_bytes<tile, T>(width), s.stream, s.x,
           s.c, s.label, s.n, s.k, s.d, width);
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

LADDER_VARIANT(.id = "v10_points_per_thread", .base = "v09_register_reuse",
               .idea = "several points per thread, their distances in registers",
               .expect =
                   "C2075: +1.5 %, for want of registers; with 255 per thread, loads per multiply-add fall from 1 to "
                   "1/4 in shared memory and from 1/16 to 1/32 in global memory: up to 4 times faster where K x D is "
                   "large",
               .shows = "assign", .counter = "load_requests", .source = "002 r1.3", .axes = {{"points", {1, 2, 4}, 2}},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (256 * points)) * (256 * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"additions", "multiply_adds"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (256 * points))"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask =
                  "Loads halve again, but with 4 points per thread the time rises. Which number of the table "
                  "says why?",
              .answer =
                  "Occupancy: four points' distances to 32 centroids are 128 registers, 187 in all, and 65,536 "
                  "/ 187 are 350 threads: one block of 256, 8 warps of 64. Too few to cover the latency of the "
                  "loads that are left. Two points fit two blocks.")
