// A box in two halves, cut between the two neighbours on the curve that are furthest apart, where that halves its
// sides: a centroid is kept if one of the halves keeps it. v05i_box_halves introduces it.
#pragma once
#include "../device/warp_argmin.cuh"
#include "narrow_tests.cuh"

namespace ladder {

template <int d>
struct Halves {
  Box<d> first, second;
  int split;  ///< 0: `first` is the whole box
};

template <int d>
struct HalvesTests {
  NarrowTests<d> first, second;
  bool split;
  __device__ void find_near(int k) {
    first.find_near(k);
    if (split) second.find_near(k);
  }
  __device__ bool keeps(int j) const { return first.keeps(j) || (split && second.keeps(j)); }
};

template <int d>
__device__ double sides(const Box<d>& box) {
  double sum = 0;
  for (int f = 0; f < d; ++f) sum += box.high[f] - box.low[f];
  return sum;
}

/// A warp per box.
template <class T, int d>
__global__ void halves_kernel(const T* x, Halves<d>* halves, int n) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  if (begin >= n) return;
  double gap = 0;
  int cut = end;
  for (int i = begin + 1 + lane; i < end; i += warp_lanes) {
    double apart = 0;
    for (int f = 0; f < d; ++f) apart += fabs(double(x[size_t(f) * n + i]) - double(x[size_t(f) * n + i - 1]));
    if (apart > gap) gap = apart, cut = i;
  }
  warp_argmax(gap, cut);
  const Box<d> whole = bounds_of<T, d>(x, begin, end, n);
  Halves<d> made{bounds_of<T, d>(x, begin, cut, n), bounds_of<T, d>(x, cut, end, n), 0};
  made.split = cut < end && sides(made.first) + sides(made.second) <= 0.5 * sides(whole);
  if (!made.split) made.first = whole;
  if (lane == 0) halves[box] = made;
}

}  // namespace ladder
