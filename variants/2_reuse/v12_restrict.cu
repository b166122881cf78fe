// v12: pointers are declared const __restrict__: nothing that is written overlaps what is read. In v11 the compiler
// must assume that writing a label, or the tile, could change a coordinate: it may neither move a load above a write
// nor use the read-only path of the cache (ld.global.nc). (unroll: 8 from here on.)
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile, int points>
__global__ void assign_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label, int n,
                              int k, int d, int width) {
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
#pragma unroll 8
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

LADDER_VARIANT(.id = "v12_restrict", .base = "v11_unroll", .idea = "const __restrict__ pointers",
               .expect =
                   "Titan X: 17 -> 13 minutes, through the texture cache; since Volta all global loads share one L1, "
                   "so nothing but earlier loads is left to gain: equal within the noise",
               .shows = "assign", .counter = "registers", .source = "000", .axes = {{"points", {1, 2, 4}, 2}},
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
              .ask = "The loads become ld.global.nc. Why is that worth 4 minutes of 17 in 2016 and nothing today?",
              .answer =
                  "Then it was a path of its own, through the texture cache, while other global loads bypassed "
                  "L1. Since Volta both go through the same L1, and as no store lies between the loads, the "
                  "compiler moved them already.")
