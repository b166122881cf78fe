// v13d: the norm is where the sum begins. In v13 each product of a point and a centroid is turned into a distance, one
// multiply-add and one load of a norm per distance. Here the sum of products begins at -|c|^2 / 2, so that it ends at
// x.c - |c|^2 / 2, and the nearest centroid is the one with the largest sum.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile, int points>
__global__ void assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int d, int width) {
  constexpr T limit = std::numeric_limits<T>::infinity();
  T* centroids = dynamic_shared<T>();                              // width x tile
  const int row = blockIdx.x * blockDim.x * points + threadIdx.x;  // its points: row, row + blockDim.x, ...
  int i[points], best[points] = {};
  T largest[points];
  // A thread without a point takes the last one: all threads must reach the barriers.
  for (int p = 0; p < points; ++p) i[p] = min(row + p * int(blockDim.x), n - 1);
  for (int p = 0; p < points; ++p) largest[p] = -limit;
  for (int first = 0; first < k; first += tile) {
    T score[points][tile];  // x.c - |c|^2 / 2
    for (int t = 0; t < tile; ++t) {
      for (int p = 0; p < points; ++p) score[p][t] = first + t < k ? -norm[first + t] / 2 : -limit;
    }
    for (int from = 0; from < d; from += width) {
      const int features = min(width, d - from);
      stage_tile<tile>(centroids, c, first, from, features, k, d);
#pragma unroll 8
      for (int f = 0; f < features; ++f) {
        T frag[points];
        for (int p = 0; p < points; ++p) frag[p] = x[size_t(from + f) * n + i[p]];
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            score[p][t] += frag[p] * centroids[f * tile_pitch<tile> + t];
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (score[p][t] > largest[p]) largest[p] = score[p][t], best[p] = first + t;
      }
    }
  }
  for (int p = 0; p < points; ++p) {
    if (row + p * int(blockDim.x) < n) label[i[p]] = best[p];
  }
}

template <class T>
struct Workspace {
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // 2 points: 64 of a thread's registers hold distances
  compute_norms(s);
  int points = s.axis("points");
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < 256 * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    const int width = tile_width<tile, T>(s.d);
    launch(assign_kernel<T, tile, points>, blocks(s.n, 256 * points), 256, tile_bytes<tile, T>(width), s.stream, s.x,
           s.c, norms(s), s.label, s.n, s.k, s.d, width);
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_norms<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v13d_folded_norms", .base = "v13_norms", .idea = "sums of products begin at -|c|^2 / 2",
               .expect =
                   "one of D + 1 multiply-adds per distance goes: nothing at D = 408, up to a third at D = 2, where "
                   "loads and comparisons take more than the rest",
               .shows = "assign", .counter = "instructions_per_cycle", .source = "this project",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .axes = {{"points", {1, 2, 4}, 2}},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (256 * points)) * (256 * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"norm_loads", "rows * K / (32 * points)"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (256 * points)) + norm_loads",
                           "kmcuda"},
                          {"sectors_per_load", "(B * (load_requests - norm_loads) + norm_loads) / load_requests",
                           "kmcuda"},
                          {"additions", "0"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask = "One of D + 1 multiply-adds goes. From which D on is that less than one per cent?",
              .answer =
                  "1 / (D + 1) < 0.01 from D = 100 on. At D = 2 it is a third of the multiply-adds; at D = 408, "
                  "a quarter of a per cent: the rung is for small D.")
