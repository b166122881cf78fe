// Kernels of feature_selection.cuh.
//
// for cuda: 90a
#include "feature_selection.cuh"

namespace ladder {
namespace {

constexpr int sampled_rows = 4096;

/// One thread per feature: its variance in a sample.
template <class T>
__global__ void variance_kernel(const T* x, float* variances, int count, int apart, int d) {
  const int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= d) return;
  double sum = 0, square = 0;
  const double origin = double(x[f]);  // one of the values: less cancellation
  for (int i = 0; i < count; ++i) {
    const double value = double(x[int64_t(i) * apart * d + f]) - origin;
    sum += value, square += value * value;
  }
  variances[f] = float(square - sum * sum / count);
}

/// One thread per feature: its rank among all, ties by number; the first `count` ranks are selected.
__global__ void rank_kernel(const float* variances, int* features, int count, int d) {
  const int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= d) return;
  int rank = 0;
  for (int other = 0; other < d; ++other)
    rank += variances[other] > variances[f] || (variances[other] == variances[f] && other < f);
  if (rank < count) features[rank] = f;
}

/// A warp per row: its squared length, and the selected features as coordinates.
template <class T, class Write>
__global__ void gather_kernel(const T* x, Frame<T> frame, const int* features, int directions, int n, int64_t padded,
                              int d, Write write) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const double unit = scalbn(1.0, frame.exponent() + short_exponent(d));
  const auto value = [&](int f) { return i < n ? (double(x[i * d + f]) - double(frame.centre[f])) * unit : 0.0; };
  double square = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) square += value(f) * value(f);
  write(
      i, [&](int k) { return k < directions ? value(features[k]) : 0.0; }, warp_sum(square));
}

}  // namespace

template <class T>
void select_features(cudaStream_t stream, const T* x, float* variances, int* features, int width, int n, int d) {
  const int count = std::min(n, sampled_rows);
  launch(variance_kernel<T>, blocks(d, 64), 64, 0, stream, x, variances, count, n / count, d);
  launch(rank_kernel, blocks(d, 64), 64, 0, stream, variances, features, width - bound_columns, d);
}

template <class T>
void gather_features(int width, bool centroids, cudaStream_t stream, const T* x, const Frame<T>& frame,
                     const int* features, uint4* rows, double* square, const double* defect, int n, int64_t padded,
                     int d) {
  dispatch_width(width, [&]<int width>() {
    const auto gather = [&](const auto& write) {
      launch(gather_kernel<T, std::remove_cvref_t<decltype(write)>>, blocks(padded * 32, 256), 256, 0, stream, x, frame,
             features, std::min(width - bound_columns, d), n, padded, d, write);
    };
    if (centroids)
      gather(WriteCentroids<width, ShortRowLayout::rows>{rows, defect, n, padded, d, square});
    else
      gather(WritePoints<width>{rows, square, defect, n, padded, d});
  });
}

template void select_features<float>(cudaStream_t, const float*, float*, int*, int, int, int);
template void gather_features<float>(int, bool, cudaStream_t, const float*, const Frame<float>&, const int*, uint4*,
                                     double*, const double*, int, int64_t, int);
template void select_features<double>(cudaStream_t, const double*, float*, int*, int, int, int);
template void gather_features<double>(int, bool, cudaStream_t, const double*, const Frame<double>&, const int*, uint4*,
                                      double*, const double*, int, int64_t, int);

}  // namespace ladder
