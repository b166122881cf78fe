// Update with sums per block (privatisation): a block adds up its points in shared memory, then issues one atomic per
// cluster and feature to global memory. First used by v04_shared_update.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

/// How points lie in device memory: point by point (N x D), or feature by feature (D x N).
enum class Layout { rows, features };

template <Layout layout>
__device__ size_t element(int i, int f, int n, int d) {
  return layout == Layout::rows ? size_t(i) * d + f : size_t(f) * n + i;
}

/// Block (bx, by) adds up `points` points from bx * points on, for the features [by * width, by * width + width).
template <class T, Layout layout>
__global__ void sum_shared_kernel(const T* x, const int32_t* label, double* sum, int* count, int n, int k, int d,
                                  int points, int width) {
  double* block_sum = dynamic_shared<double>();                              // k x width
  int* block_count = reinterpret_cast<int*>(block_sum + size_t(k) * width);  // k
  const int first = blockIdx.y * width, features = min(width, d - first);
  for (int e = threadIdx.x; e < k * width; e += blockDim.x) block_sum[e] = 0;
  for (int j = threadIdx.x; j < k; j += blockDim.x) block_count[j] = 0;
  __syncthreads();
  const int64_t end = min(int64_t(n), (int64_t(blockIdx.x) + 1) * points);
  for (int64_t i = int64_t(blockIdx.x) * points + threadIdx.x; i < end; i += blockDim.x) {
    const int j = label[i];
    for (int f = 0; f < features; ++f)
      atomicAdd(&block_sum[j * width + f], double(x[element<layout>(i, first + f, n, d)]));
    if (blockIdx.y == 0) atomicAdd(&block_count[j], 1);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < k * width; e += blockDim.x) {
    if (block_sum[e] != 0) atomicAdd(&sum[size_t(e / width) * d + first + e % width], block_sum[e]);
  }
  if (blockIdx.y > 0) return;
  for (int j = threadIdx.x; j < k; j += blockDim.x) {
    if (block_count[j] != 0) atomicAdd(&count[j], block_count[j]);
  }
}

/// Bytes of shared memory per cluster for `width` features: their sums and the count.
inline size_t shared_bytes_per_cluster(int width) { return width * sizeof(double) + sizeof(int); }

/// Features that a block sums at a time: as many as fit the shared memory that a block has by default or, if not even
/// one does, the opt-in maximum. 0: K is too large for either.
inline int features_per_block(int k, int d, const Device& device) {
  const size_t bytes =
      k * shared_bytes_per_cluster(1) <= device.shared_bytes ? device.shared_bytes : device.shared_bytes_optin;
  if (k * shared_bytes_per_cluster(1) > bytes) return 0;
  return int(std::min<size_t>(d, (bytes / k - sizeof(int)) / sizeof(double)));
}

inline std::string refuse_update_shared(const Shape& p, const Device& device, const Axes&) {
  if (features_per_block(p.k, p.d, device) > 0) return "";
  return "the sums of K = " + std::to_string(p.k) + " clusters need " +
         std::to_string(p.k * shared_bytes_per_cluster(1)) + " bytes of shared memory per feature, a block has " +
         std::to_string(device.shared_bytes_optin);
}

/// Points per block: its K x width atomics in global memory are worth it only for many more of them.
inline int points_per_block(int k) { return std::max(256, 4 * k); }

template <class T, Layout layout, class W>
void update_shared(Run<T, W>& s) {
  const Sums& sums = s.ws.sums;
  const int width = features_per_block(s.k, s.d, s.device_info);
  const int points = points_per_block(s.k);
  clear_sums(s);
  launch(sum_shared_kernel<T, layout>, dim3(blocks(s.n, points), blocks(s.d, width)), 256,
         s.k * shared_bytes_per_cluster(width), s.stream, s.x, s.label, sums.sum, sums.count, s.n, s.k, s.d, points,
         width);
  divide(s);
}

}  // namespace ladder
