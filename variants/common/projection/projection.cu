// Kernels of projection.cuh.
//
// for cuda: 90a
#include "project_few.cuh"

namespace ladder {
namespace {

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

template <class T>
void project_centroids(int width, ShortRowLayout layout, cudaStream_t stream, const T* c, const Frame<T>& frame,
                       const Directions& directions, const RowSubset& centroids, const ShortRows& out, int d) {
  dispatch_width(width, [&]<int width>() {
    const auto project = [&]<ShortRowLayout layout>() {
      project_few<width>(stream, c, frame, directions, centroids, out.padded, d,
                         WriteCentroids<width, ShortRowOffset<width, layout>>{
                             out.rows, directions.defect, centroids.count, out.padded, d, out.square});
    };
    dispatch_layout(layout, project);
  });
}

template void project_points<float>(int, cudaStream_t, const float*, const Frame<float>&, const Directions&,
                                    const RowSubset&, const ShortRows&, int);
template void project_centroids<float>(int, ShortRowLayout, cudaStream_t, const float*, const Frame<float>&,
                                       const Directions&, const RowSubset&, const ShortRows&, int);
template void project_points<double>(int, cudaStream_t, const double*, const Frame<double>&, const Directions&,
                                     const RowSubset&, const ShortRows&, int);
template void project_centroids<double>(int, ShortRowLayout, cudaStream_t, const double*, const Frame<double>&,
                                        const Directions&, const RowSubset&, const ShortRows&, int);

}  // namespace ladder
