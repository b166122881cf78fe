// |c|^2 of every centroid, once per iteration. v11_norms introduces it; later revisions keep it.
#pragma once
#include "features.cuh"

namespace ladder {

template <class T>
struct Norms {
  T* c = nullptr;  // k
};

template <class T>
void prepare_norms(State<T>& s) {
  prepare_features(s);
  s.template own<Norms<T>>().c = s.template device<T>(s.k);
}

/// One warp per centroid: its lanes take every 32nd feature.
template <class T>
__global__ void norms_kernel(const T* c, T* norm, int k, int d) {
  const int j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= k) return;  // a whole warp at a time
  T sum = 0;
  for (int f = lane; f < d; f += 32) sum += c[size_t(j) * d + f] * c[size_t(j) * d + f];
  for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);
  if (lane == 0) norm[j] = sum;
}

template <class T>
T* norms(State<T>& s) {
  return s.template own<Norms<T>>().c;
}

template <class T>
void compute_norms(State<T>& s) {
  launch(norms_kernel<T>, blocks(int64_t(s.k) * 32, 256), 256, 0, s.stream, s.c, norms(s), s.k, s.d);
}

}  // namespace ladder
