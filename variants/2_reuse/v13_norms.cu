// v13: |x - c|^2 = |x|^2 + |c|^2 - 2 x.c. |x|^2 is the same for all centroids, so the nearest one has the lowest
// |c|^2 - 2 x.c; with |c|^2 computed once per iteration, one fused multiply-add per feature remains, where v12 also
// subtracts. The price is cancellation: the error is relative to (|x| + |c|)^2, no longer to the distance.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

template <class T, int tile, int points>
__global__ void assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                              int32_t* __restrict__ label, int n, int k, int d, int width) {
  T* centroids = dynamic_shared<T>();                              // width x tile
  const int row = blockIdx.x * blockDim.x * points + threadIdx.x;  // its points: row, row + blockDim.x, ...
  int i[points], best[points] = {};
  T nearest[points];
  // A thread without a point takes the last one: all threads must reach the barriers.
  for (int p = 0; p < points; ++p) i[p] = min(row + p * int(blockDim.x), n - 1);
  for (int p = 0; p < points; ++p) nearest[p] = std::numeric_limits<T>::infinity();
  for (int first = 0; first < k; first += tile) {
    T product[points][tile] = {};
    for (int from = 0; from < d; from += width) {
      const int features = min(width, d - from);
      stage_tile<tile>(centroids, c, first, from, features, k, d);
#pragma unroll 8
      for (int f = 0; f < features; ++f) {
        T frag[points];
        for (int p = 0; p < points; ++p) frag[p] = x[size_t(from + f) * n + i[p]];
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            product[p][t] += frag[p] * centroids[f * tile_pitch<tile> + t];
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (first + t >= k) break;
        const T distance = norm[first + t] - 2 * product[p][t];  // without |x|^2: may be negative
        if (distance < nearest[p]) nearest[p] = distance, best[p] = first + t;
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

LADDER_VARIANT(.id = "v13_norms", .base = "v12_restrict", .idea = "norms once, one multiply-add per feature",
               .expect =
                   "Titan X: 13 -> 12 minutes, bound by memory; with coordinates in registers arithmetic is the "
                   "limit, and half of it goes: up to twice as fast where D is large",
               .shows = "assign", .counter = "fadd", .source = "000, 001",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .axes = {{"points", {1, 2, 4}, 2}},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (256 * points)) * (256 * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"norm_loads", "rows * K / 32"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (256 * points)) + norm_loads"},
                          {"sectors_per_load", "(B * (load_requests - norm_loads) + norm_loads) / load_requests"},
                          {"additions", "2 * rows * K"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(256, registers, shared_bytes)"}},
              .ask = "Half of the arithmetic goes. Why is the gain far below two?",
              .answer =
                  "Subtraction and multiply-add become one multiply-add: D instead of 2 D instructions per "
                  "distance. But the warps waited for loads more than for arithmetic, and of loads there are as "
                  "many as before, plus one norm per distance.")
