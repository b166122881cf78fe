// Kernels of exact_sums.cuh.
#include "exact_sums.cuh"

namespace ladder {
namespace {

/// A thread per point and feature adds the value to the sum of the point's cluster.
template <class T>
__global__ void add_exact_kernel(const T* x, const int32_t* label, ExactSums sums, int n, int k, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(n) * d) return;
  const int64_t j = label[e / d], f = e % d;
  if (f == 0) atomicAdd(&sums.count[j], 1);
  for_digits(double(x[e]), sums.format, [&](int w, long long digit) {
    atomicAdd(sums.sum + (int64_t(w) * k + j) * d + f, static_cast<unsigned long long>(digit));
  });
}

template <class T>
__global__ void exact_means_kernel(const unsigned long long* sum, const int* count, T* c, FixedPoint format, int k,
                                   int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(k) * d || count[e / d] == 0) return;  // a centroid without points stays
  c[e] = mean_of<T>(SumWords(sum + e, size_t(k) * d, format), count[e / d], format);
}

}  // namespace

template <class T>
void find_range(cudaStream_t stream, const T* x, int64_t begin, int64_t end, Extremes* range, int multiprocessors) {
  const int grid = std::min(blocks(end - begin, 256), 16 * multiprocessors);
  launch(extremes_kernel<T>, grid, 256, 0, stream, x, range, begin, end);
}

template <class T>
void add_exact(cudaStream_t stream, const T* x, const int32_t* label, const ExactSums& sums, int n, int k, int d) {
  launch(add_exact_kernel<T>, blocks(int64_t(n) * d, 256), 256, 0, stream, x, label, sums, n, k, d);
}

template <class T>
void divide_exact(cudaStream_t stream, const ExactSums& m, T* c, int k, int d) {
  launch(exact_means_kernel<T>, blocks(int64_t(k) * d, 256), 256, 0, stream, m.sum, m.count, c, m.format, k, d);
}

template void find_range<float>(cudaStream_t, const float*, int64_t, int64_t, Extremes*, int);
template void add_exact<float>(cudaStream_t, const float*, const int32_t*, const ExactSums&, int, int, int);
template void divide_exact<float>(cudaStream_t, const ExactSums&, float*, int, int);
template void find_range<double>(cudaStream_t, const double*, int64_t, int64_t, Extremes*, int);
template void add_exact<double>(cudaStream_t, const double*, const int32_t*, const ExactSums&, int, int, int);
template void divide_exact<double>(cudaStream_t, const ExactSums&, double*, int, int);

}  // namespace ladder
