// Memory, gathering and download of drawn initial centroids, for i1, i2 and i3.
#pragma once
#include "../../../harness/contract/draw.hpp"
#include "../lloyd/feature_major.cuh"

namespace ladder {

template <class T, class W>
void prepare_draw(Run<T, W>& s) {
  prepare_features(s);
  s.chosen = s.template device<int32_t>(s.k);
}

/// Copies the points of chosen[first .. first + count - 1] to the centroids. One thread per entry.
template <class T>
__global__ void gather_kernel(const T* x, const int32_t* chosen, T* c, int first, int count, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(count) * d) return;
  const int j = first + int(e / d), f = int(e % d);
  c[size_t(j) * d + f] = x[size_t(f) * n + chosen[j]];
}

template <class T>
void gather(State<T>& s, int first, int count) {
  launch(gather_kernel<T>, blocks(int64_t(count) * s.d, 256), 256, 0, s.stream, s.x, s.chosen, s.c, first, count, s.n,
         s.d);
}

/// Downloads the drawn centroids; there are no labels.
template <class T>
void download_drawn(State<T>& s) {
  check(cudaMemcpyAsync(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToHost, s.stream),
        "downloading the centroids");
  check(cudaStreamSynchronize(s.stream), "downloading the centroids");
}

}  // namespace ladder
