// The exact assignment in all D features: v31's on a GPU, the mma.sync form on the CPU device, which has no warpgroups.
// This is the one place where the two differ; later rungs call these functions for the rows that their filter cannot
// decide. v33_incremental_update introduces it.
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
};

template <class T, class W>
const Frame<T>& frame_of(Run<T, W>& s) {
  return s.ws.warpgroup.frame;
}
template <class T, class W>
void prepare_full_dimension(Run<T, W>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_sm90<T, EpilogueBoundColumns>(s);
}
/// fp16 operands of the points, which are on the device.
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  quantize_points_sm90<EpilogueBoundColumns>(s);
}
/// The labels of all rows.
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_bound_columns(s);
}
inline std::string refuse_full_dimension(const Shape& p, const Device& device) { return refuse_sm90<168>(p, device); }
#else
template <class T>
struct FullDimension {
  Rows<T> rows;
  Refinement refinement;
  certified::Certified<T> certified;
  int* exponent_counts = nullptr;
};

template <class T, class W>
const Frame<T>& frame_of(Run<T, W>& s) {
  return s.ws.certified.frame;
}
template <class T, class W>
void prepare_full_dimension(Run<T, W>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_certified(s);
  s.ws.exponent_counts = allocate_exponent_counts(s);
}
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  fit_common_frame(s, s.ws.rows.points, frame_of(s), s.ws.exponent_counts, s.n, s.d);
  quantize_rows(s, all_rows(s));
}
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_certified(s);
}
inline std::string refuse_full_dimension(const Shape& p, const Device& device) { return refuse_certified(p, device); }
#endif

}  // namespace ladder
