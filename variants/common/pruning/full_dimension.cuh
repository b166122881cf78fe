// The exact assignment in all D features: v24's on a GPU, the mma.sync form on the CPU device, which has no warpgroups.
// This is the one place where the two differ; later rungs call these functions for the rows that their filter cannot
// decide. v25_incremental_update introduces it.
#pragma once
#include "../certified/assign_sm80.cuh"
#include "../certified/bound_columns.cuh"
#ifndef __CUDACC__
#include "assign_listed_sm80.cuh"
#endif

namespace ladder {

#ifdef __CUDACC__
template <class T>
struct FullDimension {
  Rows<T> rows;
  Refinement refinement;
  WarpgroupOperands<T> warpgroup;
  CandidateRows undecided;
  Gathered gathered;
};

template <class T, class W>
const Frame<T>& frame_of(Run<T, W>& s) {
  return s.ws.warpgroup.frame;
}
/// `overflow`: assign_overflow() will be called.
template <class T, class W>
void prepare_full_dimension(Run<T, W>& s, bool overflow = false) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_sm90<T, EpilogueBoundColumns>(s);
  prepare_gathered(s, overflow);
}
/// fp16 operands of the points, which are on the device.
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  quantize_points_sm90<EpilogueBoundColumns>(s);
}
/// The same of some of the rows, once the frame is chosen.
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s, const RowRange& range) {
  quantize_rows_sm90<EpilogueBoundColumns>(s, range);
}
/// The labels of all rows.
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_bound_columns(s);
}
/// The labels of the rows list[0 .. *length), and of those that refine_counters already counts.
template <class T, class W>
void assign_overflow(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  assign_gathered(s, list, length, refine_counters);
}
/// Makes `chunk`, a run of these rows alone, share what was prepared and quantized for all of them.
template <class T, class W>
void slice_full_dimension(Run<T, W>& s, const RowRange& range, Run<T, W>& chunk) {
  chunk.ws.rows.points = s.ws.rows.points + size_t(range.first) * s.d;
  chunk.ws.refinement = s.ws.refinement;
  chunk.ws.warpgroup = s.ws.warpgroup;
  chunk.ws.warpgroup.rows = s.ws.warpgroup.rows.from(range.first);
  chunk.ws.gathered = s.ws.gathered;
  chunk.ws.undecided = s.ws.undecided;
}
inline std::string refuse_full_dimension(const Shape& p, const Device& device) { return refuse_sm90(p, device); }
#else
template <class T>
struct FullDimension {
  Rows<T> rows;
  Refinement refinement;
  certified::Certified<T> certified;
};

template <class T, class W>
const Frame<T>& frame_of(Run<T, W>& s) {
  return s.ws.certified.frame;
}
template <class T, class W>
void prepare_full_dimension(Run<T, W>& s, bool = false) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_certified(s);
}
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  quantize_points(s);
}
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s, const RowRange& range) {
  quantize_rows(s, range);
}
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_certified(s);
}
template <class T, class W>
void assign_overflow(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  assign_listed(s, list, length, refine_counters);
}
template <class T, class W>
void slice_full_dimension(Run<T, W>& s, const RowRange& range, Run<T, W>& chunk) {
  chunk.ws.rows.points = s.ws.rows.points + size_t(range.first) * s.d;
  chunk.ws.refinement = s.ws.refinement;
  auto& operands = chunk.ws.certified = s.ws.certified;
  operands.x.part[0] += size_t(range.first) * operands.x.pitch;
  operands.point += range.first;
}
inline std::string refuse_full_dimension(const Shape& p, const Device& device) { return refuse_certified(p, device); }
#endif

}  // namespace ladder
