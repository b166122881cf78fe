// Labels by one product of halves with bounds, for all points: proven labels are stored, other
// rows go to the list of undecided.cuh. The kernel is in assign_sm80.cu. v24_certified introduces it.
#pragma once
#include "../gemm/accumulator_probe.cuh"
#include "../gemm/mainloop_sm80.cuh"
#include "../lloyd/frame.cuh"
#include "error_bound.cuh"
#include "undecided.cuh"

namespace ladder {
namespace certified {

using Tile = MainloopSm80<1>;

template <class T>
struct Certified {
  Fp16Rows x, c;
  Frame<T> frame;
  PointBound* point = nullptr;        // n, padded to whole tiles
  CentroidBound* centroid = nullptr;  // k, padded to whole tiles
};

/// Where quantize_kernel puts a point.
struct PointRows {
  Fp16Rows halves;
  PointBound* bound;
  template <class Value>
  __device__ void operator()(int64_t row, int, const Value& value, int d) const {
    const QuantizationError error = quantize_row<1>(halves, row, d, value);
    if (threadIdx.x % 32 == 0) bound[row] = point_bound(error, d);
  }
};

/// Where it puts a centroid.
struct CentroidRows {
  Fp16Rows halves;
  CentroidBound* bound;
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    const QuantizationError error = quantize_row<1>(halves, row, d, value);
    if (threadIdx.x % 32 == 0) bound[row] = row < count ? centroid_bound(error, d) : padding_centroid();
  }
};

struct AssignSm80 {
  Fp16Rows x, c;
  const PointBound* point;
  const CentroidBound* centroid;
  int32_t* label;
  UndecidedPair* undecided_pairs;
  RefineCounters* refine_counters;
  int n, k, d;
};
/// Labels of all n rows.
void launch_assign_sm80(const AssignSm80& p, cudaStream_t stream);

}  // namespace certified

// ---- host side

/// Memory for halves and bounds; W::refinement is prepared by the caller.
template <class T, class W>
void prepare_certified_operands(Run<T, W>& s) {
  using namespace certified;
  auto& certified = s.ws.certified;
  const int64_t points = Tile::padded_rows(s.n), centroids = Tile::padded_columns(s.k);
  certified.x = allocate_fp16_rows(s, 1, points, s.d);
  certified.c = allocate_fp16_rows(s, 1, centroids, s.d);
  certified.frame = {s.template device<T>(s.d), s.template device<int>(1)};
  certified.point = s.template device<PointBound>(points);
  certified.centroid = s.template device<CentroidBound>(centroids);
}
/// The same, and what refine.cuh needs.
template <class T, class W>
void prepare_certified(Run<T, W>& s) {
  prepare_refinement(s);
  prepare_certified_operands(s);
}

/// Requires these of the points, Rows::points, on the device, and the frame.
template <class T, class W>
void quantize_rows(Run<T, W>& s, const RowRange& range) {
  using namespace certified;
  const auto& certified = s.ws.certified;
  Fp16Rows halves = certified.x;
  halves.part[0] += size_t(range.first) * halves.pitch;
  quantize(s.ws.rows.points + size_t(range.first) * s.d, certified.frame,
           PointRows{halves, certified.point + range.first}, nullptr, range.count,
           range.padded(Tile::padded_rows(s.n), s.n), s.d, s.stream);
}

/// Requires the points, Rows::points, on the device.
template <class T, class W>
void quantize_points(Run<T, W>& s) {
  fit_frame(s, s.ws.rows.points, s.ws.certified.frame, s.n, s.d);
  quantize_rows(s, all_rows(s));
}

/// `length`: of the list of rows that need them; null: all rows do.
template <class T, class W>
void quantize_centroids(Run<T, W>& s, const int* length = nullptr) {
  using namespace certified;
  const auto& certified = s.ws.certified;
  quantize(s.c, certified.frame, CentroidRows{certified.c, certified.centroid}, length, s.k, Tile::padded_columns(s.k),
           s.d, s.stream);
}

template <class T, class W>
certified::AssignSm80 assign_sm80_arguments(Run<T, W>& s, RefineCounters* refine_counters) {
  const auto& certified = s.ws.certified;
  return {certified.x,
          certified.c,
          certified.point,
          certified.centroid,
          s.label,
          s.ws.refinement.undecided_pairs,
          refine_counters,
          s.n,
          s.k,
          s.d};
}

/// Labels of the rows that the bounds prove; the others are in the list that the result counts.
template <class T, class W>
const RefineCounters* assign_proven(Run<T, W>& s) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  quantize_centroids(s);
  certified::launch_assign_sm80(assign_sm80_arguments(s, refine_counters), s.stream);
  return refine_counters;
}

/// Labels of all rows. Needs refine.cuh.
template <class T, class W>
void assign_certified(Run<T, W>& s) {
  refine(s, assign_proven(s));
}

inline std::string refuse_certified(const Shape& p, const Device& device) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  const std::string why = refuse_tensor_tiles<1>(device);
  return why.empty() ? refuse_accumulator(device) : why;
}

}  // namespace ladder
