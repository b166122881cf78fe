// v01's kernel and its launch, for code that needs a plain assignment beside its own: one thread per point, points
// row-major, everything read from global memory. v04a_csr is the first to use it; v01 to v06 hold the kernel
// themselves.
#pragma once
#include "phases.cuh"

namespace ladder {

template <class T>
__global__ void assign_points_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
}

template <class T>
void assign_points(State<T>& s) {
  launch(assign_points_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

}  // namespace ladder
