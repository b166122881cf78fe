// Boxes and centroids in float, in a frame in which the points' range is about 1: relative to the middle of the range,
// and scaled by a power of two. v05g_narrow_centres introduces them.
#pragma once
#include <cmath>

#include "boxes.cuh"
#include "spatial_order.cuh"

namespace ladder {

template <int d>
struct NarrowCentroid {
  float x[d], size;  // size: the largest magnitude
};

template <int d>
struct NarrowFrame {
  double origin[d], scale;
  /// On the host: a kernel's arguments need no registers. `range`: of SpatialOrder.
  explicit NarrowFrame(const unsigned long long* range) {
    // Smaller points become zeros, and nothing is skipped: their distances in double are zeros, too, and all are ties.
    constexpr int most = 400;
    double longest = 0;  // side, halved
    for (int f = 0; f < d; ++f) {
      const double low = half_of_ordered(range[f]), high = half_of_ordered(range[d + f]);
      origin[f] = low + high, longest = std::max(longest, high - low);
    }
    scale = longest > 0 ? std::ldexp(1.0, std::clamp(-std::ilogb(longest), -most, most)) : 1;
  }
  template <class T>
  __device__ NarrowCentroid<d> operator()(const T* c) const {
    NarrowCentroid<d> narrow{{}, 0};
    for (int f = 0; f < d; ++f) {
      narrow.x[f] = float((double(c[f]) - origin[f]) * scale);
      narrow.size = fmaxf(narrow.size, fabsf(narrow.x[f]));
    }
    return narrow;
  }
};

/// Rounded outwards, so that it holds all points.
template <int d>
struct NarrowBox {
  float low[d], high[d], size = 0, sides = 0;
  __device__ NarrowBox(const NarrowFrame<d>& frame, const Box<d>& box) {
    constexpr float outwards = 0x1p-22f;
    for (int f = 0; f < d; ++f) {
      low[f] = float((box.low[f] - frame.origin[f]) * frame.scale), low[f] -= outwards * fabsf(low[f]);
      high[f] = float((box.high[f] - frame.origin[f]) * frame.scale), high[f] += outwards * fabsf(high[f]);
      size = fmaxf(size, fmaxf(fabsf(low[f]), fabsf(high[f]))), sides += high[f] - low[f];
    }
  }
};

/// One warp: a centroid near the box's centre.
template <int d>
__device__ int near_centre(const NarrowBox<d>& box, const NarrowCentroid<d>* c, int k) {
  unsigned nearest = ~0u;  // the bits of a distance: positive floats are in the order of their bits
  int best = 0;
#pragma unroll 2  // registers
  for (int j = threadIdx.x % warp_lanes; j < k; j += warp_lanes) {
    float distance = 0;
    for (int f = 0; f < d; ++f) {
      const float difference = 0.5f * (box.low[f] + box.high[f]) - c[j].x[f];
      distance += difference * difference;
    }
    if (__float_as_uint(distance) < nearest) nearest = __float_as_uint(distance), best = j;
  }
  const unsigned holders = __ballot_sync(all_lanes, nearest == warp_least(nearest));
  return __shfl_sync(all_lanes, best, __ffs(int(holders)) - 1);
}

/// Tests in double against a centroid found in float.
template <class T, int d>
struct NarrowCentreTests : BoxTests<T, d> {
  NarrowBox<d> narrow;
  const NarrowCentroid<d>* narrow_c;
  __device__ void find_near(int k) { this->z = near_centre(narrow, narrow_c, k); }
};

/// Keeps the range of the points on the host, for the frame. W::range
template <class T, class W>
void fetch_order_range(Run<T, W>& s) {
  check(cudaMemcpyAsync(s.ws.range, s.ws.order.range, 2 * s.d * sizeof *s.ws.range, cudaMemcpyDeviceToHost, s.stream),
        "downloading the range of the points");
}

}  // namespace ladder
