// v11: the loop over features is unrolled by a stated factor. In v10 the compiler decides. Too little, and a compare, a
// branch and an address computation come with every few multiply-adds; too much, and the code no longer fits the
// instruction cache, or the loads moved forward no longer fit the registers. 1 forbids unrolling, so the axis shows the
// whole curve.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile, int points, int unroll>
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
#pragma unroll unroll
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
    dispatch<1, 2, 4, 8, 16>(s.axis("unroll"), [&]<int unroll>() {
      const int width = tile_width<tile, T>(s.d);
      launch(assign_kernel<T, tile, points, unroll>, blocks(s.n, 256 * points), 256, tile_bytes<tile, T>(width),
             s.stream, s.x, s.c, s.label, s.n, s.k, s.d, width);
    });
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

LADDER_VARIANT(.id = "v11_unroll", .base = "v10_points_per_thread",
               .idea = "the loop over features unrolled by 1 to 16",
               .expect =
                   "Titan X: 20 -> 17 minutes, 4 was best; here a step already holds up to 128 multiply-adds "
                   "(points x tile), so little is left to save, and 16 may overflow the instruction cache",
               .shows = "assign", .counter = "instructions_per_cycle", .source = "000",
               .axes = {{"points", {1, 2, 4}, 2}, {"unroll", {1, 2, 4, 8, 16}, 8, {4}}}, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (256 * points)) * (256 * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"additions", "multiply_adds"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (256 * points))"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask = "No count of loads or multiply-adds changes. What does unrolling buy, then?",
              .answer =
                  "Several features' loads are issued before the first is used, so that their latencies "
                  "overlap: a warp waits once instead of 8 times. With 8 warps per multiprocessor nobody else "
                  "would have filled that time.")
