// Kernels of projection.cuh.
//
// for cuda: 90a
#include "../gemm/narrow_mainloop_sm80.cuh"
#include "projection.cuh"

namespace ladder {
namespace {

/// A row's coordinates, in shared memory.
struct Coordinates {
  const double* value;
  __device__ double operator()(int k) const { return value[k]; }
};

/// Coordinates and squared lengths of many rows, in the unit of short rows; a whole warp calls finish(i, coordinate,
/// square) for each. A thread has one direction and `each` rows, so a load of the directions serves all of them.
template <int width>
struct PointTile {
  static constexpr int block = 256, features = 32;  // of a step
  static constexpr int groups = block / width;      // of rows
  static constexpr int each = 16, rows = groups * each;
  static constexpr int pitch = rows + 2;  // doubles of a feature; even, so that two are read at once
  static constexpr int values = features * pitch, coordinates = rows * width, words = std::max(values, coordinates);
};

template <int width, class T, class Finish>
__global__ void __launch_bounds__(256)
    project_points_kernel(const T* __restrict__ x, Frame<T> frame, Directions directions, RowSubset subset, int d,
                          Finish finish) {
  using P = PointTile<width>;
  // features x pitch: the rows' values; at the end rows x width: their coordinates
  __shared__ __align__(16) double values[P::words];
  __shared__ double squares[P::rows];
  static_assert(P::rows <= P::block && P::each % 2 == 0);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, begin = blockIdx.x * P::rows;
  const int group = threadIdx.x / width, direction = threadIdx.x % width;
  const double unit = scalbn(1.0, frame.exponent() + short_exponent(d));
  double sum[P::each] = {}, square = 0;
  for (int first = 0; first < d; first += P::features) {
    __syncthreads();  // the step before is no longer read
#pragma unroll 4
    for (int r = warp; r < P::rows; r += P::block / 32) {
      const int f = first + lane;
      double value = 0;
      if (begin + r < subset.count && f < d)
        value = (double(x[subset(begin + r) * d + f]) - double(frame.centre[f])) * unit;
      values[lane * P::pitch + r] = value;
    }
    __syncthreads();
    const int features = min(P::features, d - first);
    for (int f = 0; threadIdx.x < P::rows && f < features; ++f) {
      const double value = values[f * P::pitch + threadIdx.x];
      square += value * value;
    }
    if (group >= P::groups) continue;
    const double* const shares = directions.value + int64_t(first) * max_directions + direction;
#pragma unroll 8  // loads in flight
    for (int f = 0; f < features; ++f) {
      const double share = shares[f * max_directions];
      const auto* const pair = reinterpret_cast<const double2*>(values + f * P::pitch + group * P::each);
#pragma unroll
      for (int r = 0; r < P::each / 2; ++r) sum[2 * r] += share * pair[r].x, sum[2 * r + 1] += share * pair[r].y;
    }
  }
  __syncthreads();  // the rows' values are no longer read
  if (group < P::groups) {
    for (int r = 0; r < P::each; ++r) values[(group * P::each + r) * width + direction] = sum[r];
  }
  if (threadIdx.x < P::rows) squares[threadIdx.x] = square;
  __syncthreads();
  for (int r = warp; r < P::rows; r += P::block / 32) finish(begin + r, Coordinates{values + r * width}, squares[r]);
}

/// The same for centroids: so few rows would leave most of the device idle with one thread per direction, so several
/// threads share the features, and a block has 8 rows. A thread has two directions, so that a load of the rows serves
/// two products: the loads take longer than the products.
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

/// Stores coordinates as floats, direction by direction, and squared lengths.
struct StoreFloats {
  float *coordinates, *square;
  int count;
  __device__ void operator()(int64_t i, const Coordinates& coordinate, double length) const {
    if (i >= count) return;
    for (int k = threadIdx.x % 32; k < max_directions; k += 32)
      coordinates[int64_t(k) * count + i] = float(coordinate(k));
    if (threadIdx.x % 32 == 0) square[i] = float(length);
  }
};

/// The centroid with the largest bound, or nearly: the last 4 bits of a bound hold a column. Rows are counted by guess,
/// for the counting sort.
template <int width>
__global__ void __launch_bounds__(NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::resident)
    max_bound_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, int* guess, RowOrder order, int n,
                     int k) {
  using Tile = NarrowMainloopSm80<width>;
  const int64_t first_row = int64_t(blockIdx.x) * Tile::rows;
  const Tile tile;
  float greatest[Tile::own_rows];
  int first_column[Tile::own_rows] = {};
  for (float& bound : greatest) bound = -std::numeric_limits<float>::infinity();
  tile.multiply(x, c, k, [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      float best = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e) {
        const unsigned bits = __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
        best = fmaxf(best, __uint_as_float((bits & ~15u) | unsigned(e)));
      }
      if (best > greatest[r]) greatest[r] = best, first_column[r] = first;
    }
  });
  for (int r = 0; r < Tile::own_rows; ++r) {
    const int e = int(__float_as_uint(greatest[r]) & 15u);
    int j = first_column[r] + tile.column(e / 2, e % 2);
    for (int lanes = 1; lanes < 4; lanes *= 2) {  // four lanes share a row
      const float bound = __shfl_xor_sync(0xffffffffu, greatest[r], lanes);
      const int column = __shfl_xor_sync(0xffffffffu, j, lanes);
      if (bound > greatest[r] || (bound == greatest[r] && column < j)) greatest[r] = bound, j = column;
    }
    const int64_t i = first_row + tile.row(r);
    if (tile.lane % 4 == 0 && i < n) count_row(order, guess[i] = min(j, k - 1));
  }
}

}  // namespace

template <class T>
void project_points(int width, cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                    const RowSubset& points, const ShortRows& out, int d) {
  dispatch_width(width, [&]<int width>() {
    using Write = WritePoints<width>;
    launch(project_points_kernel<width, T, Write>, blocks(out.padded, PointTile<width>::rows), PointTile<width>::block,
           0, stream, x, frame, directions, points, d,
           Write{out.rows, out.square, directions.defect, points.count, out.padded, d});
  });
}

template <int width, class T, class Finish>
void project_few(cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                 const RowSubset& subset, int64_t padded, int d, const Finish& finish) {
  using Tile = CentroidTile<width>;
  launch(project_centroids_kernel<width, T, Finish>, blocks(padded, Tile::rows), Tile::block, 0, stream, x, frame,
         directions, subset, d, finish);
}

template <class T>
void project_centroids(int width, ShortRowLayout layout, cudaStream_t stream, const T* c, const Frame<T>& frame,
                       const Directions& directions, const RowSubset& centroids, const ShortRows& out, int d) {
  dispatch_width(width, [&]<int width>() {
    const auto project = [&]<ShortRowLayout layout>() {
      project_few<width>(
          stream, c, frame, directions, centroids, out.padded, d,
          WriteCentroids<width, layout>{out.rows, directions.defect, centroids.count, out.padded, d, out.square});
    };
    layout == ShortRowLayout::rows ? project.template operator()<ShortRowLayout::rows>()
                                   : project.template operator()<ShortRowLayout::tiles>();
  });
}

template <class T>
void project_floats(cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                    const RowSubset& subset, float* coordinates, float* square, int d) {
  project_few<max_directions>(stream, x, frame, directions, subset, subset.count, d,
                              StoreFloats{coordinates, square, subset.count});
}

void max_bound(FilterSm80, int width, cudaStream_t stream, const FilterOperands& o, const RowOrder& order) {
  dispatch_width(width, [&]<int width>() {
    using Tile = NarrowMainloopSm80<width>;
    launch(max_bound_kernel<width>, blocks(o.n, Tile::rows), Tile::block, Tile::bytes, stream, o.x, o.c,
           o.candidates.guess, order, o.n, o.k);
  });
}

void begin_order(cudaStream_t stream, const RowOrder& order, int k) {
  launch(prefix_sum_kernel, 1, prefix_sum_block, 0, stream, order, k);
}

template void project_points<float>(int, cudaStream_t, const float*, const Frame<float>&, const Directions&,
                                    const RowSubset&, const ShortRows&, int);
template void project_centroids<float>(int, ShortRowLayout, cudaStream_t, const float*, const Frame<float>&,
                                       const Directions&, const RowSubset&, const ShortRows&, int);
template void project_floats<float>(cudaStream_t, const float*, const Frame<float>&, const Directions&,
                                    const RowSubset&, float*, float*, int);
template void project_points<double>(int, cudaStream_t, const double*, const Frame<double>&, const Directions&,
                                     const RowSubset&, const ShortRows&, int);
template void project_centroids<double>(int, ShortRowLayout, cudaStream_t, const double*, const Frame<double>&,
                                        const Directions&, const RowSubset&, const ShortRows&, int);
template void project_floats<double>(cudaStream_t, const double*, const Frame<double>&, const Directions&,
                                     const RowSubset&, float*, float*, int);

}  // namespace ladder
