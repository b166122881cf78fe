// Exact labels from rounded distances: a label is proven where the second distance is farther from the first than the
// rounding of both can explain. Otherwise a warp computes the row's distances to all centroids in double-double, a lane
// per centroid, and compares them exactly. v04g_exact introduces it. Source of the bounds: Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd ed., section 3.1.
#pragma once
#include "../device/exact_order.cuh"
#include "../device/warp.cuh"

namespace ladder {

template <class T>
struct TwoNearest {
  T nearest = std::numeric_limits<T>::infinity(), second = nearest;
  int best = 0;
  __device__ void insert(T distance, int j) {
    second = min(second, max(nearest, distance));
    if (distance < nearest) nearest = distance, best = j;
  }
};

/// More than the difference of two distances can be off by, where each is a sum that takes at most `roundings`
/// roundings and whose terms add up to `magnitude` in absolute value. 2.1: two distances, and what rounds in the bound
/// itself, as long as roundings x unit roundoff stays below 1/100. Products that underflow lose less than the smallest
/// normal number each. Infinite where a distance may overflow; then nothing is proven.
template <class T>
__device__ T rounding_error(int roundings, T magnitude) {
  constexpr T unit = std::numeric_limits<T>::epsilon() / 2;
  return T(2.1) * T(roundings) * (unit * magnitude + std::numeric_limits<T>::min());
}

/// exact_order() of a row whose entries for_entries(use) gives, by one lane.
template <class T, class ForEntries>
__attribute__((noinline)) __device__ int exact_order_of_entries(const ForEntries& for_entries, const T* a, const T* b,
                                                                int d) {
  WholeSum<T> sum;
#pragma unroll 1
  for (int f = 0; f < d; ++f) sum.add_squares(a[f], b[f]);
  for_entries([&](int column, T x) {
    if (x != 0) sum.add_products(x, a[column], b[column]);
  });
  return sum.template sign<1>();
}

/// The nearest of k centroids (row-major), by a whole warp; ties go to the lowest index. for_entries(use) calls
/// use(column, value) for the row's entries, columns ascending, the same in all lanes; entries of value 0 are left out.
template <class T, class ForEntries>
__device__ int exact_nearest(const ForEntries& for_entries, const T* c, int k, int d) {
  const auto order = [&](int i, int j) {
    return exact_order_of_entries(for_entries, c + size_t(i) * d, c + size_t(j) * d, d);
  };
  Exact best;
  for (int j = threadIdx.x % warp_lanes; j < k; j += warp_lanes) {
    const T* const centroid = c + size_t(j) * d;
    DoubleDouble sum;
    int next = 0;  // the first feature that is not in the sum
    const auto add_up_to = [&](int column) {
      for (; next < column; ++next) sum = add(sum, square({double(centroid[next]), 0}));
    };
    for_entries([&](int column, T x) {
      if (x == 0) return;
      add_up_to(column);
      sum = add(sum, square(two_sum(double(x), -double(centroid[column]))));
      next = column + 1;
    });
    add_up_to(d);
    if (const Exact candidate{sum, j}; nearer(candidate, best, d, order)) best = candidate;
  }
  for (int half = warp_lanes / 2; half > 0; half /= 2) {
    const Exact other{
        {__shfl_xor_sync(all_lanes, best.distance.high, half), __shfl_xor_sync(all_lanes, best.distance.low, half)},
        __shfl_xor_sync(all_lanes, best.centroid, half)};
    if (other.centroid < k && nearer(other, best, d, order)) best = other;
  }
  return best.centroid;
}

/// The exact label of each lane's row, whose label is `best` where that is `proven`. exact(lane) computes that of a
/// lane, by the whole warp.
template <class ExactLabel>
__device__ int settle(bool proven, int best, const ExactLabel& exact) {
  for (unsigned open = __ballot_sync(all_lanes, !proven); open != 0; open &= open - 1) {
    const int lane = __ffs(int(open)) - 1, label = exact(lane);
    if (int(threadIdx.x % warp_lanes) == lane) best = label;
  }
  return best;
}

/// Labels of dense points, a lane per point.
template <class T>
__global__ void exact_points_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, first = i / warp_lanes * warp_lanes;
  TwoNearest<T> two;
  for (int j = 0; j < k && i < n; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[i * d + f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    two.insert(distance, j);
  }
  const bool proven = i >= n || two.second - two.nearest > rounding_error(d + 4, two.second) || k == 1;
  const int best = settle(proven, two.best, [&](int lane) {
    const T* const row = x + (first + lane) * d;
    return exact_nearest(
        [&](auto use) {
          for (int f = 0; f < d; ++f) use(f, row[f]);
        },
        c, k, d);
  });
  if (i < n) label[i] = best;
}

}  // namespace ladder
