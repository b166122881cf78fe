// Bounds of a row's distance to its centroid, without reading the row. First, the last exact distance plus or minus the
// path of the centroid since (triangle inequality). Second, the interval that both short rows give. Where upper and
// lower bound are close, the upper bound serves as the row's threshold. Upper bounds are rounded upwards, so they stay
// bounds (docs/certificate.md). v42_distance_bounds introduces it. Source: C. Elkan, "Using the triangle inequality to
// accelerate k-means", 2003: an upper bound that drifts.
#pragma once
#include "../filter/filter_sm90.cuh"

namespace ladder {

/// Of a row, when its distance was last exact.
struct DistanceBound {
  double distance;   ///< not less than that to its centroid
  double travelled;  ///< the length of the centroid's path by then
  int centroid;      ///< -1: none
};

struct DistanceBounds {
  DistanceBound* cached = nullptr;  // n
  double* travelled = nullptr;      // k: the length of each centroid's path since the restart
};

/// Not less than the root of an exact squared distance whose sum in double was `squared`; nor than that of the nearest
/// candidate where `squared` is the least of their sums (compare_kernel), which that exceeds by (d + 8) 2^-51 at most.
__device__ inline double distance_above(double squared) {
  static_assert((max_projected_features + 8) * 0x1p-51 <= 4 * of_doubles, "half of the square's share");
  return sqrt(squared) * (1 + 4 * of_doubles);
}

/// Lower and upper bound of a squared distance.
struct Interval {
  double low, high;
};

/// From the short rows of a point and a centroid and their squared lengths: (4) of docs/certificate.md holds for either
/// sign. halves(e): halves 8 e to 8 e + 7 of the centroid's row.
template <int width, class Halves>
__device__ Interval distance_interval(const uint4* point, double point_square, const Halves& halves,
                                      double centroid_square) {
  double product = 0, loss = 0;
#pragma unroll
  for (int e = 0; e < width / 8; ++e) {
    const uint4 lhs = point[e], rhs = halves(e);
    __half a[8], b[8];
    std::memcpy(a, &lhs, sizeof a), std::memcpy(b, &rhs, sizeof b);
#pragma unroll
    for (int f = 0; f < 8; ++f) {
      const int column = e * 8 + f;
      const double both = double(__half2float(a[f]) * __half2float(b[f]));  // exact
      if (column < width - bound_columns) product += both;
      if (column >= width - bound_columns && column < width - bound_columns + loss_columns) loss += both;
    }
  }
  if (is_outlier(point_square) || !(centroid_square < far_length * far_length))
    return {0, std::numeric_limits<double>::infinity()};
  const double squares = point_square + centroid_square, unknown = 2 * loss + 0x1p-36 * squares;
  return {max(squares - 2 * product - unknown, 0.0), squares - 2 * product + unknown};
}

/// Stores the label of a compared row, and the distance to it.
struct StoreBound {
  int32_t* label;
  DistanceBounds bounds;
  __device__ void operator()(int64_t row, int nearest, double squared) const {
    label[row] = nearest;
    bounds.cached[row] = {distance_above(squared), bounds.travelled[nearest], nearest};
  }
};

// ---- launchers (distance_bounds.cu)

/// Thresholds of all rows, from bounds where the upper one exceeds the lower by at most `slack`, relative, else from
/// exact distances. `list` (n) is working memory.
template <class T>
void set_bounded_thresholds(ShortRowLayout layout, cudaStream_t stream, const T* x, const T* c, const Frame<T>& frame,
                            const ProjectionFilter& filter, const int* guess, const RowOrder& order,
                            const DistanceBounds& bounds, double slack, int* list, FilterCounters* counters,
                            const DirtyClusters& dirty, int multiprocessors, int n, int d);
/// c = sum / count of dirty clusters; adds the length of each step to the centroid's path.
template <class T>
void step_to_means(cudaStream_t stream, const IncrementalSums& sums, T* c, double* travelled, int k, int d);

// ---- phases

template <class T>
struct BoundedState : RankedState<T> {
  DistanceBounds bounds;
};

template <class T, class W>
void prepare_bounds(Run<T, W>& s, size_t behind) {
  prepare_ranked(s, behind);
  s.ws.filter.centroid_square = s.template device<double>(s.k);
  s.ws.bounds = {s.template device<DistanceBound>(s.n), s.template device<double>(s.k)};
}
template <class T, class W>
void prepare_bounds(Run<T, W>& s) {
  prepare_bounds(s, 0);
}

/// No row has a cached distance, and no centroid has moved.
template <class T, class W>
void clear_bounds(Run<T, W>& s, const DistanceBounds& bounds) {
  check(cudaMemsetAsync(bounds.cached, -1, s.n * sizeof *bounds.cached, s.stream), "clearing the bounds of the rows");
  check(cudaMemsetAsync(bounds.travelled, 0, s.k * sizeof *bounds.travelled, s.stream),
        "clearing the paths of the centroids");
}
template <class T, class W>
void reset_bounds(Run<T, W>& s) {
  reset_filter(s);
  clear_bounds(s, s.ws.bounds);
}
template <class T, class W>
void restart_bounds(Run<T, W>& s) {
  restart_rows(s);
  reset_bounds(s);
}

/// The assignment with bounds; multiply(counters) is the filter's product.
template <class T, class W, class Multiply>
void assign_with_bounds(Run<T, W>& s, const Multiply& multiply) {
  const auto& f = s.ws.filter;
  if (f.width == 0) return assign_full_dimension(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  compute_guesses<DeviceFilter>(s);
  int* const list = f.candidate_rows;  // free until the filter
  set_bounded_thresholds(DeviceFilter::layout, s.stream, s.x, s.c, frame_of(s), f, current_candidates(s).guess,
                         current_order(s), s.ws.bounds, s.axis("slack_permille") / 1000.0, list, counters,
                         s.ws.sums.dirty, s.device_info.multiprocessors, s.n, s.d);
  filter_rows(s, counters, refine_counters, multiply, StoreBound{s.label, s.ws.bounds});
}
template <class T, class W>
void assign_with_bounds(Run<T, W>& s) {
  assign_with_bounds(s, [&](FilterCounters* counters) {
    DeviceFilter::filter(s.ws.filter.width, s.stream, filter_operands(s, counters), FilterPart{});
  });
}

template <class T, class W>
void step_to_means(Run<T, W>& s) {
  step_to_means(s.stream, s.ws.sums, s.c, s.ws.bounds.travelled, s.k, s.d);
}

template <class T, class W>
void update_with_bounds(Run<T, W>& s) {
  move_points(s, s.x, list_and_sort(s), FullUpdate{.order = s.ws.order.rows.row});
  step_to_means(s);
}

}  // namespace ladder
