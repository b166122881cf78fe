// The phases of v26b_warpgroups, for the rungs above it. The CPU device has no warpgroups: there warps multiply, as in
// v26_projected, so that what those rungs add to them can be run and read anywhere. v27_row_bounds introduces it.
#pragma once
#include "assign_certified.cuh"
#include "contest.cuh"
#include "gathered_rows.cuh"
#include "warpgroup_contest.cuh"

namespace ladder {

/// The state of such a rung.
template <class T>
struct Contested {
  Rows<T> rows;
#ifdef __CUDACC__
  CertifiedInGroups<T> warpgroup;
  Undecided undecided;
  Gathered gathered;
#else
  certified::Certified<T> certified;
#endif
  Recheck refinement;
  MovedSums incremental;
  Few filter;
};

#ifdef __CUDACC__
template <int width>
using Contestants = ByWarpgroups<width>;

template <class T, class Own>
const View<T>& view_of(Run<T, Own>& s) {
  return s.own.warpgroup.view;
}
template <class T, class Own>
void prepare_all_features(Run<T, Own>& s) {
  prepare_in_groups<T, ByBoundColumns>(s);
  prepare_gathered(s, wants_few(s));
}
template <class T, class Own>
void upload_all_features(Run<T, Own>& s) {
  halve_points_in_groups<ByBoundColumns>(s);
  upload_gathered(s);
}
/// The same of some of the rows, where the view is chosen.
template <class T, class Own>
void upload_all_features(Run<T, Own>& s, const RowRange& range) {
  halve_rows_in_groups<ByBoundColumns>(s, range);
  if (range.first == 0) upload_gathered(s);
}
/// `part` is of these rows alone: what it needs of what was uploaded.
template <class T, class Own>
void share_all_features(Run<T, Own>& s, const RowRange& range, Run<T, Own>& part) {
  auto& own = part.own.warpgroup;
  own = s.own.warpgroup;
  own.rows = own.rows.from(range.first);
  part.own.gathered = s.own.gathered;
  part.own.undecided = s.own.undecided;
}
/// Labels of all rows, by all features.
template <class T, class Own>
void assign_by_all(Run<T, Own>& s) {
  assign_all(s);
}
/// Labels of those rows that the contest left.
template <class T, class Own>
void assign_left(Run<T, Own>& s, const Contest* contest, Doubts* doubts) {
  assign_gathered(s, s.own.filter.left, &contest->listed, doubts);
}
inline std::string refuse_all_features(const Shape& p, const Device& device) { return refuse_in_groups(p, device); }
#else
template <int width>
using Contestants = ByWarps<width>;

template <class T, class Own>
const View<T>& view_of(Run<T, Own>& s) {
  return s.own.certified.view;
}
template <class T, class Own>
void prepare_all_features(Run<T, Own>& s) {
  prepare_certified(s);
}
template <class T, class Own>
void upload_all_features(Run<T, Own>& s) {
  halve_points(s);
}
template <class T, class Own>
void upload_all_features(Run<T, Own>& s, const RowRange& range) {
  halve_rows(s, range);
}
template <class T, class Own>
void share_all_features(Run<T, Own>& s, const RowRange& range, Run<T, Own>& part) {
  auto& own = part.own.certified;
  own = s.own.certified;
  own.x.part[0] += size_t(range.first) * own.x.pitch;
  own.point += range.first;
}
template <class T, class Own>
void assign_by_all(Run<T, Own>& s) {
  assign_certified(s);
}
template <class T, class Own>
void assign_left(Run<T, Own>& s, const Contest* contest, Doubts* doubts) {
  assign_listed(s, s.own.filter.left, &contest->listed, doubts);
}
inline std::string refuse_all_features(const Shape& p, const Device& device) { return refuse_certified(p, device); }
#endif

template <class T, class Own>
void prepare_contested(Run<T, Own>& s) {
  prepare_pinned(s);
  s.own.rows.points = s.x;
  prepare_all_features(s);
  prepare_moved(s);
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
}

template <class T, class Own>
void upload_contested(Run<T, Own>& s) {
  upload_rows(s);
  upload_all_features(s);
  if (s.own.filter.directions.at) project_points(s, view_of(s), s.axis("width"));
  choose_format(s, s.x);
}

inline std::string refuse_contested(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_all_features(p, device) : why;
}

}  // namespace ladder
