// Short rows along any directions. Coordinates are products in double, on the CUDA cores. v39_pca_projection introduces
// it.
#pragma once
#include "../filter/first_guess.cuh"

namespace ladder {

constexpr int max_directions = 128;

struct Directions {
  double* value = nullptr;   // d x max_directions: feature f of direction k is value[f * max_directions + k]; a
                             // direction that is not there is 0
  double* defect = nullptr;  // 1: not less than |P P^T - I|, of the directions that are not 0
};

/// Rows first, first + apart, ..., `count` of them; of centroids, those that are not dirty may be left out.
struct RowSubset {
  int64_t first = 0, apart = 1;
  int count = 0;
  DirtyClusters dirty = {};
  __host__ __device__ int64_t operator()(int i) const { return first + i * apart; }
};

/// Where short rows go: `padded` rows of halves and `count` squared lengths, in the unit of short rows.
struct ShortRows {
  uint4* rows;
  double* square;  // null: not wanted
  int64_t padded;
};

// ---- launchers (projection.cu)

/// Short rows of many points.
template <class T>
void project_points(int width, cudaStream_t stream, const T* x, const Frame<T>& frame, const Directions& directions,
                    const RowSubset& points, const ShortRows& out, int d);
/// Short rows of centroids.
template <class T>
void project_centroids(int width, ShortRowLayout layout, cudaStream_t stream, const T* c, const Frame<T>& frame,
                       const Directions& directions, const RowSubset& centroids, const ShortRows& out, int d);
// ---- phases

inline Directions allocate_directions(Resources& s, int d) {
  return {s.device<double>(size_t(d) * max_directions), s.device<double>(1)};
}

/// State of a rung whose short rows are projections.
template <class T>
struct ProjectionState : FilterState<T> {
  Directions directions;
};

/// Short rows of these of the points, Rows::points.
template <class T, class W>
void project_rows(Run<T, W>& s, const RowRange& range) {
  const auto& f = s.ws.filter;
  if (f.width == 0) return;
  const ShortRows out{f.x + size_t(range.first) * (f.width / 8), f.square + range.first,
                      range.padded(padded_short_rows(s.n), s.n)};
  project_points(f.width, s.stream, s.ws.rows.points, frame_of(s), s.ws.directions,
                 {.first = range.first, .count = range.count}, out, s.d);
}

/// Short rows of the centroids, and the rows' guesses.
template <class Form, class T, class W>
void compute_guesses(Run<T, W>& s) {
  const auto& f = s.ws.filter;
  if (!f.centroids_ready)
    project_centroids(f.width, Form::layout, s.stream, s.c, frame_of(s), s.ws.directions,
                      {.count = s.k, .dirty = s.ws.sums.dirty}, {f.c, f.centroid_square, padded_short_rows(s.k)}, s.d);
  make_first_guesses<Form>(s);
}

/// The whole assignment.
template <class Form, class T, class W>
void assign_filtered(Run<T, W>& s) {
  if (s.ws.filter.width == 0) return assign_full_dimension(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  compute_guesses<Form>(s);
  set_exact_thresholds(s);
  filter_all_rows<Form>(s, counters, refine_counters, StoreLabel{s.label});
}

}  // namespace ladder
