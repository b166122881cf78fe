// Exact labels of points that lanes share: a label is proven where the second distance is above the first by more than
// the rounding of both explains; else a warp compares all centroids that may be nearest in double-double.
// v03g_exact_labels introduces it. Source of the bounds: Higham, Accuracy and Stability of Numerical Algorithms, 2nd
// ed., section 3.1.
#pragma once
#include "../device/exact_order.cuh"
#include "../device/warp.cuh"

namespace ladder {

/// What a squared distance of d features, summed up in any order, is off by at most: a share of itself, twice (the
/// difference, its square, d additions: d + 2 roundings), and where squares underflow, `least`.
template <class T>
struct Rounding {
  T share, least;
  __device__ explicit Rounding(int d)
      : share(T(4) * (d + 8) * (std::numeric_limits<T>::epsilon() / 2)),
        least(T(2) * d * std::numeric_limits<T>::denorm_min()) {}
  /// Whether the exact distance of which `far` was computed is above the exact one of which `near` was computed. An
  /// infinite `far` stands for a distance that rounding alone may have taken beyond the largest value.
  __device__ bool above(T far, T near) const {
    return min(far, std::numeric_limits<T>::max()) * (1 - share) > near + least;
  }
};

template <class T>
struct NearestAndSecond {
  T distance = std::numeric_limits<T>::infinity();
  int centroid = 0;
  T second = std::numeric_limits<T>::infinity();  // the distance of another centroid; none is nearer

  __device__ void insert(T other, int j) {
    if (other < distance)  // <, not <=: on a tie the lowest index stays
      second = distance, distance = other, centroid = j;
    else
      second = min(second, other);
  }
};

/// The nearest of what `lanes` neighbouring lanes have found, in each of them.
template <class T>
__device__ NearestAndSecond<T> nearest_of_lanes(NearestAndSecond<T> nearest, int lanes) {
  for (int step = 1; step < lanes; step *= 2) {
    const T distance = __shfl_xor_sync(all_lanes, nearest.distance, step);
    const T second = __shfl_xor_sync(all_lanes, nearest.second, step);
    const int centroid = __shfl_xor_sync(all_lanes, nearest.centroid, step);
    if (distance < nearest.distance || (distance == nearest.distance && centroid < nearest.centroid))
      nearest = {distance, centroid, min(nearest.distance, second)};
    else
      nearest.second = min(nearest.second, distance);
  }
  return nearest;
}

/// All centroids: centroid j begins at first + j pitch.
template <class T>
struct Centroids {
  const T* first;
  int pitch;
  __device__ const T* operator[](int j) const { return first + size_t(j) * pitch; }
};

/// The nearest centroid of a point, by a warp; no computed distance is below `least`.
template <class T>
__attribute__((noinline)) __device__ int nearest_exactly(const T* point, T least, Centroids<T> c, int k, int d) {
  const int lane = threadIdx.x % warp_lanes;
  const Rounding<T> rounding(d);
  Exact best;
  for (int first = 0; first < k; first += warp_lanes) {
    T distance = 0;
    for (int f = 0; f < d && first + lane < k; ++f) {
      const T diff = point[f] - c[first + lane][f];
      distance += diff * diff;
    }
    unsigned open = __ballot_sync(all_lanes, first + lane < k && !rounding.above(distance, least));
    for (; open != 0; open &= open - 1) {
      const int j = first + __ffs(int(open)) - 1;
      const Exact exact{exact_warp_sum(exact_distance(point, c[j], d, lane, warp_lanes)), j};
      const auto order = [&](int a, int b) { return exact_order<warp_lanes>(point, c[a], c[b], d); };
      if (nearer(exact, best, d, order)) best = exact;
    }
  }
  return best.centroid;
}

/// The nearest centroid of point i, of which `lanes` neighbouring lanes hold `found`; all lanes of the warp, each with
/// its own point: points.row(i) are its points.d features.
template <class Points, class T>
__device__ int settle(const NearestAndSecond<T>& found, const Points& points, int i, int lanes, const Centroids<T>& c,
                      int k) {
  const int lane = threadIdx.x % warp_lanes;
  int nearest = found.centroid;
  const bool proven = Rounding<T>(points.d).above(found.second, found.distance);
  for (unsigned open = __ballot_sync(all_lanes, !proven && lane % lanes == 0); open != 0; open &= open - 1) {
    const int source = __ffs(int(open)) - 1;
    const int j = nearest_exactly(points.row(__shfl_sync(all_lanes, i, source)),
                                  __shfl_sync(all_lanes, found.distance, source), c, k, points.d);
    if (lane / lanes == source / lanes) nearest = j;
  }
  return nearest;
}

}  // namespace ladder
