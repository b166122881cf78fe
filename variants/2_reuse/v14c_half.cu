// v14c: distances are computed from points kept as fp16 (halves), two features of a point in one word. v14 reads 4
// bytes (double: 8) for each coordinate and tile of centroids, here it is 2; where K is small, an iteration is bound by
// those reads. Only the loads are halved: products are added up in the element type and centroids stay in it. Half2
// multiply-adds would be twice as fast as float's, but a sum in fp16 keeps 11 - log2 D bits, none at D = 2048.
// fp16 ends at 65504 and loses bits below 2^-14, so points are scaled by the power of two that brings the largest value
// near the top: exact, and undone in the distance. The update reads the points as they are, so centroids are true
// means; the halves overwrite the uploaded rows, which are not read again after the transposition.
#include <cuda_fp16.h>

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
template <class T, int tile, int points, int limit, int unroll = (limit > 512 && sizeof(T) == 4 ? 1 : 4)>
__global__ void __launch_bounds__(limit)
    assign_kernel(const __half2* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, T factor, int n, int k, int d, int width) {
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
      const int features = min(width, d + d % 2 - from);  // whole pairs, padded with 0
      stage_tile<tile>(centroids, c, first, from, features, k, d);
#pragma unroll unroll
      for (int f = 0; f < features; f += 2) {
        float2 frag[points];
        for (int p = 0; p < points; ++p) frag[p] = __half22float2(x[size_t(from + f) / 2 * n + i[p]]);
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            product[p][t] += frag[p].x * centroids[f * tile_pitch<tile> + t];
            product[p][t] += frag[p].y * centroids[(f + 1) * tile_pitch<tile> + t];
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (first + t >= k) break;
        const T distance = norm[first + t] - factor * product[p][t];  // without |x|^2: may be negative
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
  __half2* halves = nullptr;    // (d + 1) / 2 x n: features f and f + 1 of a point, scaled; 0 beyond the last
  int* max_exponent = nullptr;  // of the values
  T scale = 1;
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_norms(s);
  // A row of one feature takes a whole word as well: 4 bytes, no more than the float it replaces.
  s.ws.halves = reinterpret_cast<__half2*>(s.ws.rows.points);
  s.ws.max_exponent = s.template device<int>(1);
}

/// The exponent of the largest value, by a grid-stride loop and one atomic per warp.
template <class T>
__global__ void max_exponent_kernel(const T* x, int* max_exponent, int64_t count) {
  T largest = 0;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < count; e += threads)
    largest = max(largest, std::abs(x[e]));
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(max_exponent, std::ilogb(largest));
}

/// One thread per point and pair of features. A double is rounded once: directly to fp16.
template <class T>
__global__ void round_kernel(const T* x, __half2* halves, T scale, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t((d + 1) / 2) * n) return;
  const int i = int(e % n), f = int(e / n) * 2;
  const auto rounded = [&](int feature) {
    return __double2half(feature < d ? double(x[size_t(feature) * n + i] * scale) : 0.0);
  };
  halves[e] = __halves2half2(rounded(f), rounded(f + 1));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  const int64_t count = int64_t(s.n) * s.d;
  check(cudaMemsetAsync(s.ws.max_exponent, 0x80, sizeof(int), s.stream), "clearing the exponent");  // far below all
  launch(max_exponent_kernel<T>, int(std::min<int64_t>(blocks(count, 256), 8 * s.device_info.multiprocessors)), 256, 0,
         s.stream, s.x, s.ws.max_exponent, count);
  int exponent = 0;
  check(cudaMemcpyAsync(&exponent, s.ws.max_exponent, sizeof exponent, cudaMemcpyDeviceToHost, s.stream),
        "downloading the exponent");
  check(cudaStreamSynchronize(s.stream), "finding the largest value");
  constexpr int limit = std::numeric_limits<T>::max_exponent - 2;  // 2 / scale must be finite too
  s.ws.scale = std::ldexp(T(1), std::clamp(14 - std::max(exponent, -limit), -limit, limit));
  launch(round_kernel<T>, blocks(int64_t((s.d + 1) / 2) * s.n, 256), 256, 0, s.stream, s.x, s.ws.halves, s.ws.scale,
         s.n, s.d);
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
  const int width = tile_width<tile, T>(s.d + s.d % 2) / 2 * 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    dispatch<256, 384, 512, 1024>(thread_limit(block), [&]<int limit>() {
      if constexpr (points * limit <= max_threads) {
        launch(assign_kernel<T, tile, points, limit>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width),
               s.stream, s.ws.halves, s.c, norms(s), s.label, 2 / s.ws.scale, s.n, s.k, s.d, width);
      }
    });
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v14c_half", .base = "v14_block_size", .idea = "distances from points stored as fp16",
               .expect =
                   "half the bytes per pass: up to twice as fast at K = 10, D = 100, where reading the points is all; "
                   "nothing at K = 5000, where multiply-adds are. Labels differ wherever two centroids are 0.05 % "
                   "apart; the upload takes two more passes. A larger step, for the sake of those: the range of a half "
                   "asks for a scale, and a scale for the largest value",
               .shows = "assign", .counter = "dram_bytes", .source = "000",
               .arithmetic = {.form = Arithmetic::Form::expanded, .input_roundoff = 0x1p-11},
               .axes = {{"points", {1, 2, 4}, 2}, {"block", range(32, 1024, 32), 384}}, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tile", "128 / B"},
                          {"rows", "ceil(N / (block * points)) * (block * points)"},
                          {"pairs", "ceil(D / 2)"},
                          {"multiply_adds", "rows * ceil(K / tile) * tile * 2 * pairs"},
                          {"norm_loads", "rows * K / 32"},
                          {"load_requests",
                           "multiply_adds / 32 * (1 / (2 * tile) + 1 / (block * points)) + norm_loads"},
                          {"sectors_per_load", "(4 * (load_requests - norm_loads) + norm_loads) / load_requests"},
                          {"dram_bytes", "from_dram(N * 4 * pairs, ceil(K / tile))", "kmcuda,blobs30_00"},
                          {"shared_bytes",
                           "reserved + min(2 * pairs, floor(16384 / ((tile + 4) * B) / 2) * 2) * (tile + 4) * B"},
                          {"occupancy_theoretical_percent", "occupancy(block, registers, shared_bytes)"}},
              .ask = "Bytes of the points halve, multiply-adds stay. For which K does the rung gain?",
              .answer =
                  "Where reading is the limit. K multiply-adds are done per coordinate of 2 bytes: at K = 10 "
                  "the bytes decide, at K = 5000 the arithmetic. The arithmetic stays in float, as a sum of "
                  "halves would keep 11 bits less log2 D.")
