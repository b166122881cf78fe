// The kernel that projects few rows, with whatever is to be done with their coordinates: centroids, whose short rows it
// writes, and samples. v39_pca_projection introduces it.
#pragma once
#include "../device/warp.cuh"
#include "projection.cuh"

namespace ladder {

/// A row's coordinates, in shared memory.
struct Coordinates {
  const double* value;
  __device__ double operator()(int k) const { return value[k]; }
};

/// Coordinates and squared lengths of a few rows, in the unit of short rows; a whole warp calls finish(i, coordinate,
/// square) for each. With one thread per direction so few rows would leave most of the device idle, so several threads
/// share the features, and a block has 8 rows. A thread has two directions, so that a load of the rows serves two
/// products: the loads take longer than the products.
template <int width>
struct CentroidTile {
  static constexpr int block = width < 96 ? 128 : 256;      // with many directions, more threads share the features
  static constexpr int features = 128;                      // of a step
  static constexpr int threads = width / 2;                 // with the same features
  static constexpr int parts = block / threads;             // of the features, of threads with the same directions
  static constexpr int rows = 8, each = rows * 32 / block;  // rows of a warp
  // Blocks of a multiprocessor, at least: with few directions, those of K = 5000 run in one wave on an H200.
  static constexpr int resident = width < 96 ? 5 : 2;
};

template <int width, class T, class Finish>
__global__ void __launch_bounds__(CentroidTile<width>::block, CentroidTile<width>::resident)
    project_centroids_kernel(const T* __restrict__ x, Frame<T> frame, Directions directions, RowSubset subset, int d,
                             Finish finish) {
  using P = CentroidTile<width>;
  __shared__ __align__(16) double values[P::features][P::rows + 2];  // even: two rows of a feature are read at once
  __shared__ double sums[P::parts][P::rows][width], squares[P::rows];
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * P::each;  // the first row of this warp
  const int part = threadIdx.x / P::threads, direction = threadIdx.x % P::threads * 2;
  const int64_t begin = int64_t(blockIdx.x) * P::rows, any = begin + threadIdx.x % P::rows;
  if (!__syncthreads_or(any >= subset.count || subset.dirty[int(any)])) return;
  const T* from[P::each];
  for (int r = 0; r < P::each; ++r)
    from[r] = begin + warp_row + r < subset.count ? x + subset(int(begin) + warp_row + r) * d : nullptr;
  const double unit = scalbn(1.0, frame.exponent() + short_exponent(d));
  double sum[P::rows][2] = {}, square[P::each] = {};
  for (int first = 0; first < d; first += P::features) {
    __syncthreads();  // the step before is no longer read
#pragma unroll
    for (int e = lane; e < P::features; e += 32) {
      const int f = first + e;
#pragma unroll
      for (int r = 0; r < P::each; ++r) {
        const double value = from[r] && f < d ? (double(from[r][f]) - double(frame.centre[f])) * unit : 0;
        values[e][warp_row + r] = value;
        square[r] += value * value;
      }
    }
    __syncthreads();
    if (part >= P::parts) continue;
    const double* const shares = directions.value + int64_t(first) * max_directions + direction;
    const int features = min(P::features, d - first);
#pragma unroll 4  // loads in flight
    for (int f = part; f < features; f += P::parts) {
      const auto share = *reinterpret_cast<const double2*>(shares + f * max_directions);
      const auto* const both = reinterpret_cast<const double2*>(values[f]);
#pragma unroll
      for (int r = 0; r < P::rows / 2; ++r) {
        sum[2 * r][0] += share.x * both[r].x, sum[2 * r + 1][0] += share.x * both[r].y;
        sum[2 * r][1] += share.y * both[r].x, sum[2 * r + 1][1] += share.y * both[r].y;
      }
    }
  }
  for (int r = 0; part < P::parts && r < P::rows; ++r)
    for (int e = 0; e < 2; ++e) sums[part][r][direction + e] = sum[r][e];
  for (int r = 0; r < P::each; ++r) {
    square[r] = warp_sum(square[r]);
    if (lane == 0) squares[warp_row + r] = square[r];
  }
  __syncthreads();
  for (int r = warp_row; r < warp_row + P::each; ++r) {
    double* const coordinates = sums[0][r];
    for (int k = lane; k < width; k += 32) {
      for (int e = 1; e < P::parts; ++e) coordinates[k] += sums[e][r][k];
    }
    __syncwarp();
    finish(begin + r, Coordinates{coordinates}, squares[r]);
  }
}

template <int width, class T, class Finish>
void project_few(cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                 const RowSubset& subset, int64_t padded, int d, const Finish& finish) {
  using Tile = CentroidTile<width>;
  launch(project_centroids_kernel<width, T, Finish>, blocks(padded, Tile::rows), Tile::block, 0, stream, x, frame,
         directions, subset, d, finish);
}

}  // namespace ladder
