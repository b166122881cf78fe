// The nearest of a point's candidates: in double, and in double-double where its rounding may have exchanged them.
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
  Exact exact_best;
  for (; several != 0; several &= several - 1) {
    const int j = lowest(several);
    const Exact exact{exact_warp_sum(exact_distance(point, c + int64_t(j) * d, d, lane, 32)), j};
    if (nearer<32>(exact, exact_best, point, c, d)) exact_best = exact;
  }
  return exact_best.centroid;
}

}  // namespace ladder
