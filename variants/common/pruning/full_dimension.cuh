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

/// The device memory of a frame with its counts, and that of prepare_refinement.
inline size_t frame_bytes(const Shape& p) { return p.d * p.element_bytes + (1 + exponent_count) * sizeof(int); }
inline size_t refinement_bytes(const Shape& p, const Device& device) {
  const size_t block = brute_force_rows * sizeof(PartialNearest) + sizeof(int);
  return p.n * sizeof(UndecidedPair) + counted * sizeof(RefineCounters) +
         refine_blocks_per_sm * device.multiprocessors * block;
}

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
/// Operands and scratch memory alone.
template <class T, class W>
void prepare_operands(Run<T, W>& s) {
  prepare_sm90<T, EpilogueBoundColumns>(s);
}
/// The device memory that prepare_operands takes.
inline size_t operand_bytes(const Shape& p, const Device& device) {
  const OperandShape shape = EpilogueBoundColumns::shape(p.k, p.d);
  const size_t point = size_t(shape.steps) * mma_depth / 8 * sizeof(uint4);
  return padded_points(p.n) * point + blocks(p.k, shape.columns) * EpilogueBoundColumns::tile_bytes(shape) +
         (most_candidates + 3) * sizeof(int) * p.n + frame_bytes(p) + refinement_bytes(p, device);
}
/// fp16 operands of the points, which are on the device.
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  quantize_in_common_unit(s);
}
/// The same in a frame that is there.
template <class T, class W>
void quantize_in_frame(Run<T, W>& s) {
  quantize_rows_sm90<EpilogueBoundColumns>(s, all_rows(s));
}
/// The labels of all rows.
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_bound_columns(s);
}
/// Probes the products of all features, of either width, and those of the filter (filter/filter_sm90.cuh).
inline std::string refuse_full_dimension(const Shape& p, const Device& device) {
  return refuse_sm90<128, 168, 64>(p, device);
}
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
void prepare_operands(Run<T, W>& s) {
  prepare_certified(s);
  s.ws.certified.frame.exponent_counts = allocate_exponent_counts(s);
}
inline size_t operand_bytes(const Shape& p, const Device& device) {
  using namespace certified;
  const size_t halves = fp16_pitch(p.d) * sizeof(uint4);
  return Tile::padded_rows(p.n) * (halves + sizeof(PointBound)) +
         Tile::padded_columns(p.k) * (halves + sizeof(CentroidBound)) + frame_bytes(p) + refinement_bytes(p, device);
}
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s) {
  fit_common_frame<T>(s, s.ws.rows.points, frame_of(s), s.n, s.d);
  quantize_rows(s, all_rows(s));
}
template <class T, class W>
void quantize_in_frame(Run<T, W>& s) {
  quantize_rows(s, all_rows(s));
}
template <class T, class W>
void assign_full_dimension(Run<T, W>& s) {
  assign_certified(s);
}
inline std::string refuse_full_dimension(const Shape& p, const Device& device) { return refuse_certified(p, device); }
#endif

/// All of it for points that are on the device as they are in host memory, row-major.
template <class T, class W>
void prepare_full_dimension(Run<T, W>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_operands(s);
}

}  // namespace ladder
