// Kernels of exact_sums.cuh.
#include "exact_sums.cuh"

namespace ladder {
namespace {

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
void divide_exact(cudaStream_t stream, const ExactSums& m, T* c, int k, int d) {
  launch(exact_means_kernel<T>, blocks(int64_t(k) * d, 256), 256, 0, stream, m.sum, m.count, c, m.format, k, d);
}

template void find_range<float>(cudaStream_t, const float*, int64_t, int64_t, Extremes*, int);
template void divide_exact<float>(cudaStream_t, const ExactSums&, float*, int, int);
template void find_range<double>(cudaStream_t, const double*, int64_t, int64_t, Extremes*, int);
template void divide_exact<double>(cudaStream_t, const ExactSums&, double*, int, int);

}  // namespace ladder
