// Boxes of neighbouring points, and the exact nearest centroids of a box's points: centroids that are nearest to no
// place in the box are skipped for all of them at once. v05b_box_pruning introduces it.
//
// A centroid c is compared with z, one that is near the box's centre. The squared distances of a place v differ by
//
//     |v - c|^2 - |v - z|^2 = sum over f of (z_f - c_f) (2 v_f - z_f - c_f),
//
// which is linear in v. It is least at the corner furthest along c - z; where it is positive there, z is nearer than c
// to each point of the box. In double a difference is off by 2^-53 of itself, so a term is off by less than
// 2^-50 |z_f - c_f| (|v_f - z_f| + |v_f - c_f|), and the sum of three terms by that for each.
//
// A point's distance to a centroid in double is off by at most 7 roundings, 2^-50 of itself: two of the squared
// difference's input, one of the square, two of the sum, and what fused operations leave out. Where the second nearest
// is within 2^-20 of the nearest, the centroids within 2^-48 of it are compared in whole numbers
// (device/exact_order.cuh). Underflow takes less than 2^-1070.
#pragma once
#include "../device/exact_order.cuh"
#include "../device/warp_argmin.cuh"

namespace ladder {

constexpr int points_per_lane = 4;
constexpr int box_points = points_per_lane * warp_lanes;
constexpr int warps_per_block = 8;

inline int boxes_of(int n) { return blocks(n, box_points); }

template <int d>
struct Box {
  double low[d], high[d];
};

/// The points of a box in the registers of a warp: a lane holds every 32nd. Behind the last one it is repeated.
template <class T, int d>
struct BoxPoints {
  T x[points_per_lane][d];
  __device__ void load(const T* points, int begin, int end, int n) {
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q)
      for (int f = 0; f < d; ++f)
        x[q][f] = points[size_t(f) * n + min(begin + q * warp_lanes + int(threadIdx.x % warp_lanes), end - 1)];
  }
};

/// One warp: the bounds of the points begin .. end - 1.
template <class T, int d>
__device__ Box<d> bounds_of(const T* x, int begin, int end, int n) {
  Box<d> box;
  for (int f = 0; f < d; ++f) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (int i = begin + int(threadIdx.x % warp_lanes); i < end; i += warp_lanes)
      low = min(low, double(x[size_t(f) * n + i])), high = max(high, double(x[size_t(f) * n + i]));
    box.low[f] = warp_min(low), box.high[f] = warp_max(high);
  }
  return box;
}

/// A warp per box.
template <class T, int d>
__global__ void bounds_kernel(const T* x, Box<d>* bounds, int n) {
  const int box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes, begin = box * box_points;
  if (begin >= n) return;
  const Box<d> found = bounds_of<T, d>(x, begin, min(begin + box_points, n), n);
  if (threadIdx.x % warp_lanes == 0) bounds[box] = found;
}

template <class T, int d>
__device__ double squared_distance(const T* x, const T* c) {
  double sum = 0;
#pragma unroll
  for (int f = 0; f < d; ++f) {
    const double difference = double(x[f]) - double(c[f]);
    sum += difference * difference;
  }
  return sum;
}

/// The tests of a box against all centroids, k x d.
template <class T, int d>
struct BoxTests {
  Box<d> box;
  const T* c;
  int z = 0;
  /// One warp, first: finds a centroid near the box's centre. Which one is a matter of speed only.
  __device__ void find_near(int k) {
    double nearest = std::numeric_limits<double>::infinity();
    for (int j = threadIdx.x % warp_lanes; j < k; j += warp_lanes) {
      double distance = 0;
      for (int f = 0; f < d; ++f) {
        const double difference = 0.5 * box.low[f] + 0.5 * box.high[f] - double(c[j * d + f]);
        distance += difference * difference;
      }
      if (distance < nearest) nearest = distance, z = j;
    }
    warp_argmin(nearest, z);
  }
  /// Whether centroid j may be nearest to a point of the box: z is not nearer to each of them.
  __device__ bool keeps(int j) const {
    constexpr double term_error = 0x1p-50, underflow = 0x1p-1000;
    double sum = 0, margin = underflow;
#pragma unroll
    for (int f = 0; f < d; ++f) {
      const double from = double(c[z * d + f]), to = double(c[j * d + f]), apart = from - to;
      const double v = apart < 0 ? box.high[f] : box.low[f];
      const double to_z = v - from, to_c = v - to;
      sum += apart * (to_z + to_c);
      margin += term_error * fabs(apart) * (fabs(to_z) + fabs(to_c));
    }
    return !(sum > margin);  // also where the sum is NaN; z keeps itself: the sum is 0
  }
};

constexpr int no_centroid = -1, several_centroids = -2;

/// One warp. Returns the only centroid that may be nearest to a point of the box. If there are several: calls load(),
/// then compare(j) for each, in ascending order, and returns several_centroids.
template <class Tests, class Load, class Compare>
__device__ int for_survivors(Tests& tests, int k, const Load& load, const Compare& compare) {
  const int lane = threadIdx.x % warp_lanes;
  int only = no_centroid;
  tests.find_near(k);
  for (int first = 0; first < k; first += warp_lanes) {
    const int mine = first + lane;
    const bool survives = mine < k && tests.keeps(mine);
    for (unsigned rest = __ballot_sync(all_lanes, survives); rest != 0; rest &= rest - 1) {
      const int j = first + __ffs(int(rest)) - 1;
      if (only == no_centroid) {
        only = j;
        continue;
      }
      if (only >= 0) load(), compare(only), only = several_centroids;
      compare(j);
    }
  }
  return only;
}

/// The upper half of a distance: sign, exponent and 20 bits of the mantissa, in the order of the values.
__device__ inline int upper_half(double distance) { return int(__double_as_longlong(distance) >> 32); }

/// The least distance of a point, and the upper half of the second.
struct TwoNearest {
  double least = std::numeric_limits<double>::infinity();
  int second = std::numeric_limits<int>::max(), label = 0;
  __device__ void compare(double distance, int j) {
    const bool nearer = distance < least;
    second = min(second, upper_half(nearer ? least : distance));
    if (nearer) least = distance, label = j;
  }
  /// The second is larger by more than the last bit of a half: 2^-21 of it.
  __device__ bool certain() const { return second > upper_half(least) + 1; }
};

/// Whether centroid i is nearer to x (d values in memory) than j, or as near and i < j; j = k stands for no centroid.
/// At once in whole numbers: features are few, and most pairs that double leaves open are as near.
template <class T, int d>
__device__ bool nearer_to_point(const T (&x)[d], const T* c, int k, int i, int j) {
  if (j >= k) return true;
  const int sign = exact_order<1>(x, c + i * d, c + j * d, d);
  return sign < 0 || (sign == 0 && i < j);
}

/// The nearest of all centroids, the lowest index on a tie, by exact comparisons among those that may be as near as
/// centroid `found`, which is nearest in double.
template <class T, int d>
__device__ int exact_nearest(const T (&x)[d], const T* c, int k, int found) {
  const double limit = squared_distance<T, d>(x, c + found * d) * (1 + 0x1p-48) + 0x1p-1070;
  T copy[d];  // x is in registers: only a copy has an address
  for (int f = 0; f < d; ++f) copy[f] = x[f];
  int best = k;
  for (int j = 0; j < k; ++j)
    if (squared_distance<T, d>(copy, c + j * d) <= limit && nearer_to_point(copy, c, k, j, best)) best = j;
  return min(best, k - 1);
}

/// One warp: the labels of a box's points. Returns the label of all, or several_centroids; then the points are loaded,
/// by load(), and label[q] is that of the lane's point q.
template <class T, int d, class Tests, class Load>
__device__ int assign_box(Tests& tests, const BoxPoints<T, d>& points, const T* c, int k, int (&label)[points_per_lane],
                          const Load& load) {
  TwoNearest nearest[points_per_lane];
  const int only = for_survivors(tests, k, load, [&](int j) {
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q) nearest[q].compare(squared_distance<T, d>(points.x[q], c + j * d), j);
  });
  if (only >= 0) return only;
  unsigned uncertain = 0;
#pragma unroll
  for (int q = 0; q < points_per_lane; ++q) {
    label[q] = nearest[q].label;
    uncertain |= unsigned(!nearest[q].certain()) << q;
  }
  for (; uncertain != 0; uncertain &= uncertain - 1) {
    const int which = __ffs(int(uncertain)) - 1;
    T x[d] = {};
    int found = 0;
#pragma unroll  // no dynamic index: the points stay in registers
    for (int q = 0; q < points_per_lane; ++q) {
      if (q != which) continue;
      for (int f = 0; f < d; ++f) x[f] = points.x[q][f];
      found = label[q];
    }
    found = exact_nearest(x, c, k, found);
#pragma unroll
    for (int q = 0; q < points_per_lane; ++q)
      if (q == which) label[q] = found;
  }
  return several_centroids;
}

// ---- phases; W::boxes

struct Boxes {
  void* bounds = nullptr;  // Box<d> of each
};

template <class T, class W>
void prepare_boxes(Run<T, W>& s) {
  s.ws.boxes.bounds = s.template device<double>(size_t(boxes_of(s.n)) * 2 * s.d);
}

template <class T, class W>
void find_bounds(Run<T, W>& s) {
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(bounds_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream, s.x,
           static_cast<Box<d>*>(s.ws.boxes.bounds), s.n);
  });
}

}  // namespace ladder
