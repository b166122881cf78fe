// v14a: spherical k-means: near means a small angle. Only the directions of points count, so upload scales each of them
// to unit length, once; then 1 - cos = 1 - x.c / |c|, and the nearest centroid has the largest x.c / |c|. v14's kernel
// stays, with -x.c / |c| in place of |c|^2 - 2 x.c. The new centroid is the sum of its points' directions, scaled to
// unit length; one without points keeps its place, and so does one whose points' directions cancel.
#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp.cuh"
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
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ inverse,
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
        const T distance = -product[p][t] * inverse[first + t];  // (1 - cos) - 1
        if (distance < nearest[p]) nearest[p] = distance, best[p] = first + t;
      }
    }
  }
  for (int p = 0; p < points; ++p) {
    if (row + p * int(blockDim.x) < n) label[i[p]] = best[p];
  }
}

// ---- points and centroids of length 1

template <class T>
struct Workspace {
  T* previous = nullptr;  // k x d: the centroids before the update
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_norms(s);
  s.ws.previous = s.template device<T>(size_t(s.k) * s.d);
}

/// One thread per point. The length is a double, so that the direction is rounded once.
template <class T>
__global__ void direction_kernel(T* x, int n, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double square = 0;
  for (int f = 0; f < d; ++f) square += double(x[size_t(f) * n + i]) * double(x[size_t(f) * n + i]);
  const double length = sqrt(square);
  for (int f = 0; f < d; ++f) x[size_t(f) * n + i] = T(double(x[size_t(f) * n + i]) / length);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  launch(direction_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.n, s.d);
}

/// One warp per centroid: 1 / |c|. The initial ones are not unit length.
template <class T>
__global__ void inverse_kernel(const T* c, T* inverse, int k, int d) {
  const int j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= k) return;  // a whole warp at a time
  double square = 0;
  for (int f = lane; f < d; f += 32) square += double(c[size_t(j) * d + f]) * double(c[size_t(j) * d + f]);
  square = warp_sum(square);
  if (lane == 0) inverse[j] = T(1 / sqrt(square));
}

/// One warp per centroid: from the sum of its points' directions to a direction.
template <class T>
__global__ void unit_kernel(const double* sum, const int* count, const T* previous, T* c, int k, int d) {
  const int j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= k || count[j] == 0) return;  // a whole warp at a time
  double square = 0;
  for (int f = lane; f < d; f += 32) square += sum[size_t(j) * d + f] * sum[size_t(j) * d + f];
  square = warp_sum(square);
  const double length = sqrt(square);
  for (int f = lane; f < d; f += 32) {
    const size_t e = size_t(j) * d + f;
    c[e] = length > 0 ? T(sum[e] / length) : previous[e];
  }
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const Sums& sums = s.ws.sums;
  T* const previous = s.ws.previous;
  check(cudaMemcpyAsync(previous, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToDevice, s.stream),
        "keeping the centroids");
  update_any<T, Layout::features>(s);
  launch(unit_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, sums.sum, sums.count, previous, s.c, s.k,
         s.d);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // 2 points: 64 of a thread's registers hold distances
  launch(inverse_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, s.c, norms(s), s.k, s.d);
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
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v14a_angular", .base = "v14_block_size", .idea = "spherical k-means: near is a small angle",
               .expect =
                   "an iteration takes as long as v14's: one more factor per distance, and K x D more divisions in the "
                   "update; the upload reads the points twice more. The distances differ, hence a metric of its own",
               .shows = "iteration", .source = "000; Dhillon and Modha, Machine Learning 42, 2001",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {1, 2, 4}, 2}, {"block", range(32, 1024, 32), 384}}, .metrics = {Metric::cosine},
               .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (block * points)) * (block * points)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * D"},
                          {"norm_loads", "rows * K / 32"},
                          {"load_requests", "multiply_adds / 32 * (1 / tile + 1 / (block * points)) + norm_loads"},
                          {"sectors_per_load", "(B * (load_requests - norm_loads) + norm_loads) / load_requests"},
                          {"dram_bytes", "from_dram(N * D * B, ceil(K / tile))"},
                          {"shared_bytes", "reserved + min(D, floor(16384 / ((tile + 4) * B))) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(block, registers, shared_bytes)"}},
              .ask =
                  "Another metric, and all counts are v14's. What does the assignment do in the place of |c|^2 "
                  "- 2 x.c?",
              .answer =
                  "-x.c / |c|: one factor per centroid instead of one norm, a multiplication instead of a "
                  "multiply-add per distance. The D multiply-adds before are the same.")
