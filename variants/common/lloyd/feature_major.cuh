// Points stored feature by feature (structure of arrays): D x N on the device, transposed there once per upload. First
// used by v05_soa.
#pragma once
#include "phases.cuh"

namespace ladder {

template <class T>
struct Rows {
  T* points = nullptr;  // n x d: the points as uploaded
};

template <class T, class W>
void prepare_features(Run<T, W>& s) {
  prepare_sums(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
}

template <class T>
__global__ void transpose_kernel(const T* rows, T* features, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e < int64_t(n) * d) features[e] = rows[e % n * d + e / n];
}

template <class T, class W>
void upload_features(Run<T, W>& s) {
  T* rows = s.ws.rows.points;
  to_device(s, rows, s.points, size_t(s.n) * s.d, "uploading the points");
  launch(transpose_kernel<T>, blocks(int64_t(s.n) * s.d, 256), 256, 0, s.stream, rows, s.x, s.n, s.d);
}

}  // namespace ladder
