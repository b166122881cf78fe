// Where points are looked at from, and in which unit. The nearest centroid is the same from anywhere; from the middle
// of the points their coordinates are smallest, and so is what rounding takes. v19_refine introduces it.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

template <class T>
struct Frame {
  T* centre = nullptr;  // d
  int* top = nullptr;   // the exponent of the largest coordinate, from the centre

  /// The exponent of the unit: coordinates are seen times this power of two. Points that are all at the centre have no
  /// top.
  __device__ int exponent() const { return -1 - max(*top, -1000); }
  /// A coordinate as it is seen: below 1 for every point.
  __device__ double operator()(const T* rows, int64_t row, int f, int d) const {
    return (double(rows[row * d + f]) - double(centre[f])) * scalbn(1.0, exponent());
  }
};

constexpr int exact_distances = 1024;  // points: any centre is right, theirs is good enough

/// One thread per feature: the mean of points that are `apart` rows apart, in their order.
template <class T>
__global__ void centre_kernel(const T* rows, T* centre, int count, int apart, int d) {
  const int f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= d) return;
  double sum = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) sum += double(rows[int64_t(i) * apart * d + f]);
  centre[f] = T(sum / count);
}

template <class T>
__global__ void max_exponent_kernel(const T* rows, Frame<T> view, int64_t count, int d) {
  double largest = 0;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x, begin = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int step = int(threads % d);
  int f = int(begin % d);  // the feature of element e: nothing is divided in the loop
#pragma unroll 4
  for (int64_t e = begin; e < count; e += threads) {
    largest = max(largest, fabs(double(rows[e]) - double(view.centre[f])));
    f += step;
    if (f >= d) f -= d;
  }
  for (int half = 16; half > 0; half /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, half));
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(view.top, ilogb(largest));
}

inline void clear_max_exponent(Resources& s, int* top) {
  check(cudaMemsetAsync(top, 0x80, sizeof *top, s.stream), "clearing the exponent");  // far below all
}

/// The view's top is not below that of these n points.
template <class T>
void update_max_exponent(Resources& s, const T* rows, const Frame<T>& view, int n, int d) {
  const int64_t values = int64_t(n) * d;
  launch(max_exponent_kernel<T>, int(std::min<int64_t>(blocks(values, 256), 8 * s.device_info.multiprocessors)), 256, 0,
         s.stream, rows, view, values, d);
}

/// Finds centre and unit of n points, row-major on the device.
template <class T>
void look(Resources& s, const T* rows, const Frame<T>& view, int n, int d) {
  const int count = std::min(n, exact_distances);
  launch(centre_kernel<T>, blocks(d, 64), 64, 0, s.stream, rows, view.centre, count, n / count, d);
  clear_max_exponent(s, view.top);
  update_max_exponent(s, rows, view, n, d);
}

}  // namespace ladder
