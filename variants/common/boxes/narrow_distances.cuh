// Distances of a box's points in float. Where the two nearest centroids of a point are too near each other to tell,
// the whole warp compares the point with all centroids in double (boxes.cuh). v05m_narrow_distances introduces them.
//
// In the frame of narrow_boxes.cuh a coordinate of a point or a centroid is rounded once, which is off by less than
// 2^-23.9 of it. With m at least the sum of the magnitudes of any of the point's and any of the centroid's, a
// difference is off by less than e = 2^-22.9 m, its own rounding included, and its square by 2 e |difference| + e^2.
// With R the root of the squared distance, at most three differences add up to sqrt(3) R, and three roundings to
// 2^-22.4 R^2, which is below 2^-21.6 R m: a squared distance is off by less than 2^-20.3 R m + 2^-43.2 m^2. This grows
// with R, so a label is certain if the second distance S is larger than the least by more than
//
//     t = 2^-19.3 sqrt(S) m + 2^-42.2 m^2,   and   t^2 < 2^-38.4 S m^2 + 2^-81.2 m^4,
//
// as (a + b)^2 <= 9/8 a^2 + 9 b^2. The test's own roundings are below 2^-20 of its sides. Underflow and overflow, of
// coordinates too, leave a label uncertain.
#pragma once
#include "box_halves.cuh"
#include "narrow_boxes.cuh"
#include "one_launch.cuh"
#include "spatial_order.cuh"

namespace ladder {

/// The points of a box in the registers of a warp, as BoxPoints, but in float.
template <int d>
struct NarrowPoints {
  float x[points_per_lane][d], size;  // size: the largest magnitude of the lane's points
  template <class T>
  __device__ void load(const NarrowFrame<d>& frame, const T* points, int end, int pitch) {
    size = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) {
      const int i = min(q * warp_lanes + int(threadIdx.x % warp_lanes), end - 1);
      for (int f = 0; f < d; ++f) {
        x[q][f] = float((double(points[size_t(f) * pitch + i]) - frame.origin[f]) * frame.scale);
        size = fmaxf(size, fabsf(x[q][f]));
      }
    }
  }
};

/// The two least distances of a point, and whose the first is.
struct NarrowNearest {
  float least = std::numeric_limits<float>::infinity(), second = least;
  int label = 0;
  __device__ void compare(float distance, int j) {
    second = fminf(second, fmaxf(least, distance));
    if (distance < least) least = distance, label = j;
  }
  __device__ bool certain(float m) const {
    const float apart = second - least;
    return apart * apart > 0x1p-38f * m * m * (second + 0x1p-42f * m * m);
  }
};

/// The labels of a lane's points so far.
template <int d>
struct NarrowLabels {
  NarrowNearest nearest[points_per_lane];
  float size = 0;  // the largest magnitude of the centroids
  __device__ void compare(const NarrowPoints<d>& points, const NarrowCentroid<d>& c, int j) {
    size = fmaxf(size, c.size);
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) {
      float distance = 0;
      for (int f = 0; f < d; ++f) {
        const float difference = points.x[q][f] - c.x[f];
        distance = f == 0 ? difference * difference : fmaf(difference, difference, distance);
      }
      nearest[q].compare(distance, j);
    }
  }
  /// A bit for each point whose label is not certain; the points' coordinates are at most `of_points`.
  __device__ unsigned uncertain(float of_points) const {
    unsigned bits = 0;
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) bits |= unsigned(!nearest[q].certain(of_points + size)) << q;
    return bits;
  }
};

/// One warp: as exact_nearest(), a lane for every 32nd centroid.
template <class T, int d>
__device__ int exact_nearest_of_warp(const T (&x)[d], const T* c, int k) {
  const int lane = threadIdx.x % warp_lanes;
  double least = std::numeric_limits<double>::infinity();
#pragma unroll 2
  for (int j = lane; j < k; j += warp_lanes) least = min(least, squared_distance<T, d>(x, c + j * d));
  const double limit = warp_min(least) * (1 + 0x1p-48) + 0x1p-1070;
  int as_near = 0, mine = 0;
#pragma unroll 2
  for (int j = lane; j < k; j += warp_lanes)
    if (squared_distance<T, d>(x, c + j * d) <= limit) ++as_near, mine = j;
  if (warp_add(as_near) == 1) return warp_greatest(mine);
  T copy[d];  // as in exact_nearest()
  for (int f = 0; f < d; ++f) copy[f] = x[f];
  int best = k;
#pragma unroll 1  // seldom: short code, few registers
  for (int j = lane; j < k; j += warp_lanes)
    if (squared_distance<T, d>(copy, c + j * d) <= limit && nearer_to_point(copy, c, k, j, best)) best = j;
#pragma unroll 1
  for (int half = warp_lanes / 2; half > 0; half /= 2) {
    const int other = __shfl_xor_sync(all_lanes, best, half);
    if (other < k && nearer_to_point(copy, c, k, other, best)) best = other;
  }
  return min(__shfl_sync(all_lanes, best, 0), k - 1);  // of one lane: overflow leaves no order
}

/// One warp: decides labels that are not certain, a lane's with a bit in `uncertain`. point(x, i) reads point i of the
/// box; set(q, label) is called on the lane whose point q it is.
template <class T, int d, class Point, class Set>
__device__ void settle(unsigned uncertain, const T* c, int k, const Point& point, const Set& set) {
  const int lane = threadIdx.x % warp_lanes;
  for (unsigned lanes; (lanes = __ballot_sync(all_lanes, uncertain != 0)) != 0;) {
    const int source = __ffs(int(lanes)) - 1;
    const int q = __shfl_sync(all_lanes, __ffs(int(uncertain)) - 1, source);
    T x[d];
    point(x, q * warp_lanes + source);
    const int nearest = exact_nearest_of_warp(x, c, k);
    if (lane == source) set(q, nearest), uncertain &= uncertain - 1;
  }
}

// ---- boxes that are rounded to float once, at upload, as v05l_kept_boxes has them

template <int d>
struct NarrowHalves {
  NarrowBox<d> first, second;
  int split;  ///< 0: `first` is the whole box
  __device__ float size() const { return split ? fmaxf(first.size, second.size) : first.size; }
};

/// A warp per box.
template <class T, int d>
__global__ void narrow_halves_kernel(const T* x, NarrowFrame<d> frame, NarrowHalves<d>* halves, int n) {
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
  const Box<d> first = bounds_of<T, d>(x, begin, cut, n), second = bounds_of<T, d>(x, cut, end, n);
  const bool split = cut < end && sides(first) + sides(second) <= 0.5 * sides(whole);
  const NarrowHalves<d> made{NarrowBox<d>(frame, split ? first : whole), NarrowBox<d>(frame, second), split};
  if (lane == 0) halves[box] = made;
}

template <class T>
struct KeptBoxes {
  Rows<T> rows;
  SpatialOrder order;
  Boxes boxes;
  int* box_label = nullptr;  // boxes
  BoxSums sums;
  OneLaunch one_launch;
  void* halves = nullptr;                         // NarrowHalves<d> of each box
  unsigned long long* last_sum = nullptr;         // what a launch leaves for the next
  unsigned long long range[2 * most_dimensions];  // SpatialOrder::range, on the host
};

// ---- host side. W: a KeptBoxes<T>

/// `entries`: of KeptBoxes::last_sum.
template <class T, class W>
void prepare_kept_boxes(Run<T, W>& s, size_t entries) {
  prepare_pinned(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
  prepare_spatial(s);
  prepare_boxes(s);
  prepare_box_sums(s);
  prepare_one_launch(s);
  dispatch<1, 2, 3>(s.d, [&]<int d>() { s.ws.halves = s.template device<NarrowHalves<d>>(boxes_of(s.n)); });
  s.ws.last_sum = s.template device<unsigned long long>(entries);
  s.ws.box_label = s.template device<int>(boxes_of(s.n));
}

template <class T, class W>
void upload_kept_boxes(Run<T, W>& s) {
  upload_spatial(s);
  find_bounds(s);
  fetch_order_range(s);
  find_totals(s);  // waits for the range, too
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(narrow_halves_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0,
           s.stream, s.x, NarrowFrame<d>(s.ws.range), static_cast<NarrowHalves<d>*>(s.ws.halves), s.n);
  });
}

}  // namespace ladder
