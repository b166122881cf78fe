// The nearest of a point's candidates: in double, and exactly where its rounding may have exchanged them.
// v25e_double_first introduces it.
#pragma once
#include "../device/exact_order.cuh"
#include "fragment_bounds.cuh"

namespace ladder {

/// Of `several` centroids, a bit each, the one that is nearest to a point. By a warp.
template <class T, class Mask>
__attribute__((noinline)) __device__ int exact_nearest(Mask several, const T* point, const T* c, int d) {
  const int lane = threadIdx.x % 32;
  double nearest = std::numeric_limits<double>::infinity(), second = nearest;
  int best = 0;
  for (Mask rest = several; rest != 0; rest &= rest - 1) {
    const int j = lowest(rest);
    double distance = 0;
#pragma unroll 1  // rare, and registers are few
    for (int f = lane; f < d; f += 32) {
      const double diff = double(point[f]) - double(c[int64_t(j) * d + f]);
      distance += diff * diff;
    }
    distance = warp_sum(distance);
    second = min(second, max(nearest, distance));
    if (distance < nearest) nearest = distance, best = j;
  }
  // Each is off by less than (d + 8) 2^-53 of itself, beside squares that underflow.
  if (second * (1 - (d + 8) * 0x1p-51) > nearest + 0x1p-1000) return best;
  best = lowest(several);
  while ((several &= several - 1) != 0) {
    const int j = lowest(several);
    if (nearer<32>(j, best, point, c, d)) best = j;
  }
  return best;
}

}  // namespace ladder
