// Boxes that stay in shared memory for a whole run: what a block reads and writes of a box in each iteration.
// v05f_resident_boxes introduces it.
#pragma once
#include "one_launch.cuh"

namespace ladder {

/// A box in shared memory; `Bounds` are what it is tested by.
template <class T, int d, class Bounds>
struct ResidentBox {
  T x[d * box_points];
  Bounds bounds;
  unsigned long long total[d * FixedPoint::most_words + 1];
  int32_t label[box_points], only;
};

/// Where a box is: in global memory, or in shared memory. Its points are behind `x`, a feature every `pitch`.
template <class T, int d, class Bounds>
struct BoxPlace {
  const T* x;
  int pitch;
  const Bounds* bounds;
  const unsigned long long* total;
  int32_t *label, *only;
  __device__ BoxPlace(const Solve<T, d>& s, const Bounds* all_bounds, int box, int values)
      : x(s.x + int64_t(box) * box_points),
        pitch(s.n),
        bounds(all_bounds + box),
        total(s.total + size_t(box) * (values + 1)),
        label(s.label + int64_t(box) * box_points),
        only(s.box_label + box) {}
  __device__ explicit BoxPlace(ResidentBox<T, d, Bounds>& r)
      : x(r.x), pitch(box_points), bounds(&r.bounds), total(r.total), label(r.label), only(&r.only) {}
};

/// Copies a box of `points` points, by one warp.
template <class T, int d, class Bounds>
__device__ void copy_in(ResidentBox<T, d, Bounds>& to, const BoxPlace<T, d, Bounds>& from, int points, int values) {
  const int lane = threadIdx.x % warp_lanes;
  for (int i = lane; i < points; i += warp_lanes) {
    to.label[i] = from.label[i];
    for (int f = 0; f < d; ++f) to.x[f * box_points + i] = from.x[size_t(f) * from.pitch + i];
  }
  if (lane <= values) to.total[lane] = from.total[lane];
  if (lane == 0) to.bounds = *from.bounds, to.only = *from.only;
}

}  // namespace ladder
