// Points whose squares their type cannot hold. Where |c|^2 - 2 x.c overflows it is infinite, or no number, and a label
// chosen among such distances is any: no rounding explains it. Who works distances out this way refuses such points, by
// row and column. v20_register_tile introduces it.
#pragma once
#include <cmath>
#include <cstdio>

#include "features.cuh"

namespace ladder {

/// The largest value that d features of points may have, and so of their means: then |c|^2 + 2 |x.c| is at most 3/4 of
/// what the type holds, which leaves room for roundings.
template <class T>
T largest_squared(int d) {
  return std::sqrt(std::numeric_limits<T>::max() / T(d) / 4);
}

/// The place of the first value that is larger, or no number.
template <class T>
__global__ void beyond_kernel(const T* x, T largest, unsigned long long* first, int64_t count) {
  unsigned long long own = ~0ull;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < count; e += threads) {
    if (!(fabs(x[e]) <= largest)) own = min(own, static_cast<unsigned long long>(e));
  }
  if (own != ~0ull) atomicMin(first, own);
}

struct Beyond {
  unsigned long long* first = nullptr;  // 1
};

template <class T, class Own>
void prepare_square_range(Run<T, Own>& s) {
  s.own.overflow.first = s.template device<unsigned long long>(1);
}

/// The points, Rows::points, are there. Throws Error, naming row, column and value, where one is too large. A centroid
/// that begins farther away than that has an infinite distance: it is not the nearest.
template <class T, class Own>
void refuse_square_range(Run<T, Own>& s) {
  unsigned long long* const first = s.own.overflow.first;
  const int64_t values = int64_t(s.n) * s.d;
  const T largest = largest_squared<T>(s.d);
  check(cudaMemsetAsync(first, 0xff, sizeof *first, s.stream), "clearing the place of a value");
  launch(beyond_kernel<T>, int(std::min<int64_t>(blocks(values, 256), 16 * s.device_info.multiprocessors)), 256, 0,
         s.stream, s.own.rows.points, largest, first, values);
  unsigned long long place = 0;
  check(cudaMemcpyAsync(&place, first, sizeof place, cudaMemcpyDeviceToHost, s.stream), "downloading a place");
  check(cudaStreamSynchronize(s.stream), "looking for values whose squares overflow");
  if (place == ~0ull) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "row %lld, column %lld holds %.9g: squared distances over %d features, as this variant adds them up, "
                "overflow beyond %.9g; scale the points, or leave the row out",
                static_cast<long long>(place) / s.d, static_cast<long long>(place) % s.d, double(s.points[place]), s.d,
                double(largest));
  throw Error(text);
}

}  // namespace ladder
