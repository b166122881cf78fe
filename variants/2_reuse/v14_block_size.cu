// v14: the block size is a tuning axis; v13 fixes 256 threads. A block waits at two barriers per tile: with one large
// block on a multiprocessor all warps wait at once, with several small ones the others go on; but each block stages the
// tile for itself, so smaller ones copy more. Registers are the other side of it: a multiprocessor has 65,536, and a
// kernel is compiled for the largest block that it may be launched with. So each of four limits has its own kernel, and
// no launch has fewer registers per thread than its block size allows: up to 256 threads can hold the distances of 4
// points each, up to 512 of 2, beyond that of 1.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

constexpr int max_threads = 1024;  // of a block, times the points of a thread

/// The block size that a kernel is compiled for: the lowest of four limits that a block of `block` threads fits.
constexpr int thread_limit(int block) { return block <= 256 ? 256 : block <= 384 ? 384 : block <= 512 ? 512 : 1024; }

// 1,024 threads have 64 registers each: too few to load many features ahead.
template <class T, int tile, int points, int limit, int unroll = (limit > 512 ? 4 : 8)>
__global__ void __launch_bounds__(limit)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
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
#pragma unroll unroll
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
  const int block = s.axis("block");
  int points = s.axis("points");
  while (block * points > max_threads) points /= 2;
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < block * points * s.device_info.multiprocessors) points /= 2;
  const int width = tile_width<tile, T>(s.d);
  dispatch<1, 2, 4>(points, [&]<int points>() {
    dispatch<256, 384, 512, 1024>(thread_limit(block), [&]<int limit>() {
      if constexpr (points * limit <= max_threads) {
        launch(assign_kernel<T, tile, points, limit>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width),
               s.stream, s.x, s.c, norms(s), s.label, s.n, s.k, s.d, width);
      }
    });
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

LADDER_VARIANT(.id = "v14_block_size", .base = "v13_norms", .idea = "the block size is a tuning axis",
               .expect =
                   "Titan X: 12 -> 7.3 minutes, from blocks of 1024 to 256 or 512; with some 200 registers per "
                   "thread, 64 to 128 should be best, and beyond 256 fewer points per thread cost more loads",
               .shows = "assign", .counter = "occupancy_achieved_percent", .source = "000",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {1, 2, 4}, 2}, {"block", range(32, 1024, 32), 384, {256, 512}}},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (block * points)) * (block * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"norm_loads", "rows * K / 32"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (block * points)) + norm_loads"},
                          {"sectors_per_load", "(B * (load_requests - norm_loads) + norm_loads) / load_requests"},
                          {"additions", "2 * rows * K"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(block, registers, shared_bytes)"}},
              .ask =
                  "At 212 registers per thread, how many warps does a multiprocessor hold in blocks of 128 and "
                  "of 256 threads?",
              .answer =
                  "Eight in both cases: registers go to warps in units of 256, so a warp takes 6,912 of the "
                  "65,536, nine warps would fit, and they are given out four at a time. Two blocks of 4 warps "
                  "or one of 8. With two, one works while the other waits at a barrier.")
