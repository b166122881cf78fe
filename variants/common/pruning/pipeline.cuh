// The phases of v27_projection_filter, for the rungs above it. The CPU device has no warpgroups: there warps multiply,
// as in v27_projection_filter_sm80, so that what those rungs add to them can be run and read anywhere.
// v28_distance_bounds introduces it.
#pragma once
#include "../certified/assign_sm80.cuh"
#include "../certified/bound_columns.cuh"
#include "filter.cuh"
#include "filter_sm90.cuh"

namespace ladder {

/// The state of such a rung.
template <class T>
struct FilteredState {
  Rows<T> rows;
#ifdef __CUDACC__
  WarpgroupOperands<T> warpgroup;
  CandidateRows undecided;
  Gathered gathered;
#else
  certified::Certified<T> certified;
#endif
  Refinement refinement;
  IncrementalSums incremental;
  ProjectionFilter filter;
};

#ifdef __CUDACC__
template <int width>
using DeviceFilter = FilterSm90<width>;

template <class T, class W>
const Frame<T>& view_of(Run<T, W>& s) {
  return s.ws.warpgroup.view;
}
template <class T, class W>
void prepare_all_features(Run<T, W>& s) {
  prepare_sm90<T, EpilogueBoundColumns>(s);
  prepare_gathered(s, wants_filter(s));
}
template <class T, class W>
void upload_all_features(Run<T, W>& s) {
  quantize_points_sm90<EpilogueBoundColumns>(s);
}
/// The same of some of the rows, where the view is chosen.
template <class T, class W>
void upload_all_features(Run<T, W>& s, const RowRange& range) {
  quantize_rows_sm90<EpilogueBoundColumns>(s, range);
}
/// `part` is of these rows alone: what it needs of what was uploaded.
template <class T, class W>
void share_all_features(Run<T, W>& s, const RowRange& range, Run<T, W>& part) {
  auto& own = part.ws.warpgroup;
  own = s.ws.warpgroup;
  own.rows = own.rows.from(range.first);
  part.ws.gathered = s.ws.gathered;
  part.ws.undecided = s.ws.undecided;
}
/// Labels of all rows, by all features.
template <class T, class W>
void assign_by_all(Run<T, W>& s) {
  assign_all(s);
}
/// Labels of those rows that the contest left.
template <class T, class W>
void assign_overflow(Run<T, W>& s, const FilterCounters* contest, RefineCounters* refine_counters) {
  assign_gathered(s, s.ws.filter.left, &contest->listed, refine_counters);
}
inline std::string refuse_all_features(const Shape& p, const Device& device) { return refuse_sm90(p, device); }
#else
template <int width>
using DeviceFilter = FilterSm80<width>;

template <class T, class W>
const Frame<T>& view_of(Run<T, W>& s) {
  return s.ws.certified.view;
}
template <class T, class W>
void prepare_all_features(Run<T, W>& s) {
  prepare_certified(s);
}
template <class T, class W>
void upload_all_features(Run<T, W>& s) {
  quantize_points(s);
}
template <class T, class W>
void upload_all_features(Run<T, W>& s, const RowRange& range) {
  quantize_rows(s, range);
}
template <class T, class W>
void share_all_features(Run<T, W>& s, const RowRange& range, Run<T, W>& part) {
  auto& own = part.ws.certified;
  own = s.ws.certified;
  own.x.part[0] += size_t(range.first) * own.x.pitch;
  own.point += range.first;
}
template <class T, class W>
void assign_by_all(Run<T, W>& s) {
  assign_certified(s);
}
template <class T, class W>
void assign_overflow(Run<T, W>& s, const FilterCounters* contest, RefineCounters* refine_counters) {
  assign_listed(s, s.ws.filter.left, &contest->listed, refine_counters);
}
inline std::string refuse_all_features(const Shape& p, const Device& device) { return refuse_certified(p, device); }
#endif

template <class T, class W>
void prepare_filtered(Run<T, W>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_all_features(s);
  prepare_incremental(s);
  if (wants_filter(s)) prepare_filter(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T, class W>
void upload_filtered(Run<T, W>& s) {
  upload_rows(s);
  upload_all_features(s);
  if (s.ws.filter.directions.at) project_points(s, view_of(s), s.axis("width"));
  choose_format(s, s.x);
}

inline std::string refuse_filtered(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_all_features(p, device) : why;
}

}  // namespace ladder
