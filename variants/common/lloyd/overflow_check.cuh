// Rejects points whose squares overflow their type. Where |c|^2 - 2 x.c overflows it is infinite or NaN, and the argmin
// of such distances is arbitrary, beyond any rounding bound. Rungs that expand the square refuse such points, by row
// and column. First used by v18_register_tile.
#pragma once
#include <cmath>
#include <cstdio>

#include "feature_major.cuh"

namespace ladder {

/// The largest value that points of d features may have, and so their means: then |c|^2 + 2 |x.c| is at most 3/4 of the
/// type's maximum, which leaves room for roundings.
template <class T>
T largest_squared(int d) {
  return std::sqrt(std::numeric_limits<T>::max() / T(d) / 4);
}

/// The index of the first value that is larger than `largest` in magnitude, or NaN.
template <class T>
__global__ void first_overflow_kernel(const T* x, T largest, unsigned long long* first, int64_t count) {
  unsigned long long found = ~0ull;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < count; e += threads) {
    if (!(fabs(x[e]) <= largest)) found = min(found, static_cast<unsigned long long>(e));
  }
  if (found != ~0ull) atomicMin(first, found);
}

struct OverflowCheck {
  unsigned long long* first = nullptr;  // 1
};

template <class T, class W>
void prepare_square_range(Run<T, W>& s) {
  s.ws.overflow.first = s.template device<unsigned long long>(1);
}

/// Checks the uploaded points (Rows::points). Throws Refusal with row, column and value of the first that is too large.
/// An initial centroid beyond that limit has an infinite distance, so it is not the nearest.
template <class T, class W>
void refuse_square_range(Run<T, W>& s) {
  unsigned long long* const first = s.ws.overflow.first;
  const int64_t values = int64_t(s.n) * s.d;
  const T largest = largest_squared<T>(s.d);
  check(cudaMemsetAsync(first, 0xff, sizeof *first, s.stream), "clearing the index of a value");
  launch(first_overflow_kernel<T>, int(std::min<int64_t>(blocks(values, 256), 16 * s.device_info.multiprocessors)), 256,
         0, s.stream, s.ws.rows.points, largest, first, values);
  unsigned long long index = 0;
  check(cudaMemcpyAsync(&index, first, sizeof index, cudaMemcpyDeviceToHost, s.stream), "downloading an index");
  check(cudaStreamSynchronize(s.stream), "finding values whose squares overflow");
  if (index == ~0ull) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "row %lld, column %lld holds %.9g: squared distances over %d features, as this variant adds them up, "
                "overflow beyond %.9g; scale the points, or leave the row out",
                static_cast<long long>(index) / s.d, static_cast<long long>(index) % s.d, double(s.points[index]), s.d,
                double(largest));
  throw Refusal(text);
}

}  // namespace ladder
