// Kernels of feature_selection.cuh.
//
// for cuda: 90a
#include "feature_selection.cuh"

namespace ladder {
namespace {

constexpr int sampled_rows = 4096;

/// One thread per feature: its variance in a sample, without coordinates of outlier rows.
template <class T>
__global__ void variance_kernel(const T* x, Frame<T> frame, float* variances, int count, int apart, int d) {
  const int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= d) return;
  double sum = 0, square = 0;
  for (int i = 0; i < count; ++i) {
    const double exact = frame(x, int64_t(i) * apart, f, d), value = fabs(exact) < 1 ? exact : 0;
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

}  // namespace

template <class T>
void select_features(cudaStream_t stream, const T* x, const Frame<T>& frame, float* variances, int* features, int width,
                     int n, int d) {
  const int count = std::min(n, sampled_rows);
  launch(variance_kernel<T>, blocks(d, 64), 64, 0, stream, x, frame, variances, count, n / count, d);
  launch(rank_kernel, blocks(d, 64), 64, 0, stream, variances, features, width - bound_columns, d);
}

template void select_features<float>(cudaStream_t, const float*, const Frame<float>&, float*, int*, int, int, int);
template void select_features<double>(cudaStream_t, const double*, const Frame<double>&, float*, int*, int, int, int);

}  // namespace ladder
