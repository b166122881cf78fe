// The distance matrix of m1 and m2, and three of their four kernels: clear, argmin and sum, divide. Each rung has its
// own distance kernel.
#pragma once
#include <cstdio>

#include "phases.cuh"

namespace ladder {

template <class T>
struct Matrix {
  T* distance = nullptr;  // k x n: neighbouring threads have neighbouring points
};

template <class T, class W>
void prepare_matrix(Run<T, W>& s) {
  prepare_sums(s);
  s.ws.matrix.distance = s.template device<T>(size_t(s.k) * s.n);
}

inline std::string refuse_matrix(const Shape& p, const Device& device) {
  const double pairs = double(p.k) * p.n, values = double(p.n + p.k) * p.d;
  const double bytes = (pairs + values) * p.element_bytes + 8.0 * p.k * p.d + 4.0 * p.n;
  if (bytes <= double(device.memory_bytes)) return "";
  char text[160];
  std::snprintf(text, sizeof text, "the K x N matrix needs %.0f bytes, all arrays together %.0f, the device has %zu",
                pairs * p.element_bytes, bytes, device.memory_bytes);
  return text;
}

/// Clears the sums: one thread per cluster.
__global__ void clear_clusters_kernel(double* sum, int* count, int k, int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= k) return;
  for (int f = 0; f < d; ++f) sum[size_t(j) * d + f] = 0;
  count[j] = 0;
}

/// Argmin of a column of the matrix and sum of its point: one thread per point.
template <class T>
__global__ void sum_nearest_kernel(const T* x, const T* distance, int32_t* label, double* sum, int* count, int n, int k,
                                   int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    if (distance[size_t(j) * n + i] < nearest) nearest = distance[size_t(j) * n + i], best = j;
  }
  label[i] = best;
  for (int f = 0; f < d; ++f) atomicAdd(&sum[size_t(best) * d + f], double(x[size_t(i) * d + f]));
  atomicAdd(&count[best], 1);
}

/// Sums become means: one thread per cluster.
template <class T>
__global__ void mean_kernel(const double* sum, const int* count, T* c, int k, int d) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= k || count[j] == 0) return;  // a centroid without points stays
  for (int f = 0; f < d; ++f) c[size_t(j) * d + f] = T(sum[size_t(j) * d + f] / count[j]);
}

}  // namespace ladder
