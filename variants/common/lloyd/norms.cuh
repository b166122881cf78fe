// |c|^2 of every centroid, once per iteration. First used by v13_norms.
#pragma once
#include "../device/warp.cuh"
#include "feature_major.cuh"

namespace ladder {

template <class T>
struct Norms {
  T* c = nullptr;  // k
};

template <class T, class W>
void prepare_norms(Run<T, W>& s) {
  prepare_features(s);
  s.ws.norms.c = s.template device<T>(s.k);
}

/// One warp per centroid: each lane adds every 32nd feature.
template <class T>
__global__ void norms_kernel(const T* c, T* norm, int k, int d) {
  const int j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= k) return;  // a whole warp at a time
  T sum = 0;
  for (int f = lane; f < d; f += 32) sum += c[size_t(j) * d + f] * c[size_t(j) * d + f];
  sum = warp_sum(sum);
  if (lane == 0) norm[j] = sum;
}

template <class T, class W>
T* norms(Run<T, W>& s) {
  return s.ws.norms.c;
}

template <class T, class W>
void compute_norms(Run<T, W>& s) {
  launch(norms_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, s.c, norms(s), s.k, s.d);
}

}  // namespace ladder
