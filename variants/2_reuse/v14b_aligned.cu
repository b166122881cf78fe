// v14b: D is padded with zeros to a multiple of 32, so that every tile has the same 32 features: no remainder, and a
// loop of known length. v14's last tile has another width, whose bounds it computes. Zeros change no product; they cost
// memory (see peak_device_bytes) and time, at D = 2 sixteenfold.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

constexpr int max_threads = 1024;  // of a block, times the points of a thread

/// The block size that a kernel is compiled for: the lowest of four limits that a block of `block` threads fits.
constexpr int thread_limit(int block) { return block <= 256 ? 256 : block <= 384 ? 384 : block <= 512 ? 512 : 1024; }

constexpr int width = 32;  // features per tile, and what D is padded to a multiple of

size_t padded(int d) { return size_t(blocks(d, width)) * width; }

template <class T>
struct Workspace {
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_sums(s);
  s.ws.rows.points = s.x;  // where the points arrive, n x d
  s.x = s.template device<T>(padded(s.d) * s.n);
  s.ws.norms.c = s.template device<T>(s.k);
}

template <class T>
void upload_padded(Run<T, Workspace<T>>& s) {
  upload_features(s);
  check(cudaMemsetAsync(s.x + size_t(s.d) * s.n, 0, (padded(s.d) - s.d) * s.n * sizeof(T), s.stream),
        "padding the points");
}

// 1,024 threads have 64 registers each: too few to load many features ahead.
template <class T, int tile, int points, int limit, int unroll = (limit > 512 ? 1 : 8)>
__global__ void __launch_bounds__(limit)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int d) {
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
      stage_tile<tile>(centroids, c, first, from, width, k, d);
#pragma unroll unroll
      for (int f = 0; f < width; ++f) {
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
void assign(Run<T, Workspace<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // 2 points: 64 of a thread's registers hold distances
  compute_norms(s);
  const int block = s.axis("block");
  int points = s.axis("points");
  while (block * points > max_threads) points /= 2;
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < block * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    dispatch<256, 384, 512, 1024>(thread_limit(block), [&]<int limit>() {
      if constexpr (points * limit <= max_threads) {
        launch(assign_kernel<T, tile, points, limit>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width),
               s.stream, s.x, s.c, norms(s), s.label, s.n, s.k, s.d);
      }
    });
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_padded<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v14b_aligned", .base = "v14_block_size", .idea = "D padded with zeros to a multiple of 32",
               .expect =
                   "the article left it out to save memory; 2 % more of it at D = 408, 16 times as much at D = 2; "
                   "points stored by features are aligned anyway, so only the remainder's bounds are saved",
               .shows = "assign", .counter = "sectors_per_load", .source = "000 (named, not done)",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {1, 2, 4}, 2}, {"block", range(32, 1024, 32), 384}}, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (block * points)) * (block * points)"},
                          {"padded", "ceil(D / 32) * 32"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * padded"},
                          {"norm_loads", "rows * K / 32"},
                          {"load_requests",
                           "multiply_adds / 32 * (1 / tile + D / padded / (block * points)) + norm_loads"},
                          {"sectors_per_load", "(B * (load_requests - norm_loads) + norm_loads) / load_requests",
                           "kmcuda"},
                          {"additions", "2 * rows * K"},
                          {"dram_bytes", "from_dram(N * padded * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + 32 * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(block, registers, shared_bytes)"}},
              .ask = "What share of the multiply-adds is of zeros at D = 408, and at D = 2?",
              .answer =
                  "408 is padded to 416: 8 of 416, 1.9 %. 2 is padded to 32: 30 of 32, so the rung does 16 "
                  "times the work.")
