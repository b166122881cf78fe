// Bounds as columns of the operands. Everything that an upper bound adds to the product of two rows is itself a sum of
// products of a term of the point and a term of the centroid. So it becomes a few more columns of the rows, and what
// the tensor core adds up is not below the score: the epilogue reads nothing but products. All rows must be in one unit
// for that (common_unit.cuh), in which no point is longer than 4096. docs/certificate.md has the proof, by these names.
// The kernels are in bound_columns.cu. v31_bound_columns introduces it.
//
// Rows of D features, with k = accumulation(of all steps that are multiplied):
//   point:    y_1 .. y_D, lost,                kept,                                4096,  4096
//   centroid: z_1 .. z_D, whole (1 + 1.1 k),   lost (1 + 1.1 k) + 1.1 k kept,       high,  low
// with whole >= |z|, lost >= the length of the halves' rounding error, kept >= the halves' nominal length, and
// 4096 (high + low) >= -|z|^2 / 2 (1 - 1.1 k) + 8 k. Behind them, zeros.
#pragma once
#include "../gemm/argmax_sm90.cuh"
#include "../gemm/mainloop_sm90.cuh"
#include "common_unit.cuh"

namespace ladder {

constexpr int wide_columns = 4;  // the columns of a bound
constexpr double score_unit = 0x1p12;

/// Lengths of a row, of its halves and of its rounding error, not below the true ones.
struct WideLengths {
  double whole, kept, lost;
};
__host__ __device__ inline WideLengths wide_lengths(const QuantizationError& row, int features) {
  const double whole = sqrt(row.whole) * (1 + of_doubles);
  return {whole, sqrt(row.kept) * (1 + of_doubles) + nominal_excess(features),
          sqrt(row.lost) * (1 + of_doubles) + of_doubles * whole};
}

/// The bound columns of a row. An outlier row is the only point whose second column is 0.
struct WideColumns {
  __half of[wide_columns];
};
__host__ __device__ inline WideColumns columns_of_point(const WideLengths& y) {
  const __half unit = __double2half(score_unit);
  if (is_outlier(y.whole * y.whole)) return {__half(), __half(), unit, unit};
  return {half_up(y.lost), half_up(y.kept), unit, unit};
}
/// `k`: the accumulation.
__host__ __device__ inline WideColumns columns_of_centroid(const WideLengths& z, double k) {
  const bool far = !(z.whole < far_length);
  const double score = (far ? far_score : -z.whole * z.whole / 2 * (1 - 1.1 * k) * (1 - 4 * of_doubles) + 8 * k);
  const __half high = __hneg(half_up(-score / score_unit));
  const __half low = half_up(score / score_unit - double(__half2float(high)));
  if (far) return {__half(), __half(), high, low};
  return {half_up(z.whole * (1 + 1.1 * k)), half_up(z.lost * (1 + 1.1 * k) + 1.1 * k * z.kept), high, low};
}
/// Pads the last tile: below all centroids, whose scores are above -1.6 * 2^27.
__host__ __device__ inline WideColumns columns_of_padding() {
  const __half lowest = __double2half(-65504);
  return {__half(), __half(), lowest, lowest};
}

/// Not above the score of a pair whose product, its upper bound, is at least `upper`; y, z: the bound columns of both
/// rows. A far centroid and an outlier row, the only ones whose second column is 0, have no such bound.
__host__ __device__ inline float lower_of_columns(float upper, const WideColumns& y, const WideColumns& z, float k) {
  const auto product = [&](int e) { return __half2float(y.of[e]) * __half2float(z.of[e]); };  // exact
  if (__half2float(y.of[1]) == 0 || __half2float(z.of[1]) == 0) return -std::numeric_limits<float>::infinity();
  const float loss = product(0) + product(1), score = fabsf(product(2) + product(3));
  const float width = fmaf(2.03f, loss, fmaf(4 * k + 0x1p-18f, score, 16 * k + 0x1p-11f));
  return upper - fmaf(0x1p-22f, fabsf(upper), width);
}

/// The rows rows[0 .. *length) of the points; `rows` null: the first *length; both null: all.
struct RowList {
  const int *rows = nullptr, *length = nullptr;
};

struct AssignBoundColumns {
  WarpgroupData operands;
  RowList list;
  int32_t* label;
  CandidateRows undecided;
  RefineCounters* refine_counters;
  int n, k, d, multiprocessors;
};

/// Labels of the rows in the list, whose operands lie side by side; rows that are not proven go to `undecided`.
void launch_assign_bound_columns(const AssignBoundColumns& arguments, cudaStream_t stream);

// ---- host side

/// Operands whose bounds are columns of the rows.
struct EpilogueBoundColumns {
  static constexpr bool separate = false;
  template <class T, class W>
  static void prepare(Run<T, W>& s) {
    prepare_candidate_rows(s);
    s.ws.warpgroup.frame.exponent_counts = allocate_exponent_counts(s);
  }
  static OperandShape shape(int k, int d) {
    const MainloopPlan plan = plan_mainloop(k, d + wide_columns);
    return {plan.columns, plan.steps};
  }
  static size_t tile_bytes(const OperandShape& shape) {
    return size_t(shape.steps) * (shape.columns == 128 ? step_bytes<128> : step_bytes<168>);
  }
  // T: float or double
  template <class T>
  static void quantize_points(const T* points, const Frame<T>& frame, const WarpgroupData& rows, int count,
                              int64_t padded, int d, cudaStream_t stream);
  template <class T>
  static void quantize_centroids(const T* c, const Frame<T>& frame, const WarpgroupData& rows, const int* length, int k,
                                 int d, cudaStream_t stream);
};

/// Requires the points, Rows::points, on the device.
template <class T, class W>
void quantize_in_common_unit(Run<T, W>& s) {
  fit_common_frame<T>(s, s.ws.rows.points, s.ws.warpgroup.frame, s.n, s.d);
  quantize_rows_sm90<EpilogueBoundColumns>(s, all_rows(s));
}

/// Labels of the rows in the list, whose operands are `rows`, and of those that refine_counters counts already.
template <class T, class W>
void multiply_sm90(Run<T, W>& s, const WarpgroupData& rows, const RowList& list, RefineCounters* refine_counters) {
  quantize_centroids_sm90<EpilogueBoundColumns>(s, list.length);
  launch_assign_bound_columns(
      {rows, list, s.label, s.ws.undecided, refine_counters, s.n, s.k, s.d, s.device_info.multiprocessors}, s.stream);
  refine_candidates(s, refine_counters);
}

/// Labels of all rows.
template <class T, class W>
void assign_bound_columns(Run<T, W>& s) {
  multiply_sm90(s, s.ws.warpgroup.rows, {}, next_refine_counters(s));
}

}  // namespace ladder
