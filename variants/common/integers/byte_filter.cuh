// Labels by products of bytes in all features: thresholds from exact distances to the guesses, candidates from what
// byte_excess() says of each pair, and the exact comparison of the filter (filter/filter.cuh). On a GPU by wgmma, on
// the CPU device, which has no warpgroups, by plain integers of the same bytes in the same places: the products are
// equal. The kernels are in byte_filter.cu. v38a_integers introduces it.
#pragma once
#include "../filter/filter_sm80.cuh"
#include "../gemm/mainloop_sm90.cuh"
#include "byte_rows.cuh"

namespace ladder {

struct ByteRows {
  int steps = 0;               // of 32 features, padded to whole k-blocks
  uint4* x = nullptr;          // a_fragment_offset(); n, padded
  BytePoint* point = nullptr;  // n, padded
  double* square = nullptr;    // n: squared lengths in the frame
  float* threshold = nullptr;  // n
  unsigned char* c = nullptr;  // tile by tile: b_smem_offset(), then a ByteCentroid per column
};

using ByteMainloop = MainloopSm90<byte_columns, ByteCentroid, int>;

/// Of points in registers as a whole: only 13 steps of these stages are multiplied, up to 416 features.
constexpr bool odd_steps(int k_block) { return k_block == 7; }

/// The shape of the mainloop for rows of d bytes, in stages of 64 of them: in registers as a whole, or streamed in
/// k-blocks where these pad less.
constexpr MainloopPlan plan_bytes(int d) {
  const int steps = (d + byte_step_depth - 1) / byte_step_depth, stages = (steps + stage_steps - 1) / stage_steps;
  MainloopPlan plan{.columns = byte_columns, .k_block = 0, .streamed = false, .steps = 0};
  int least = std::numeric_limits<int>::max();
  const auto take = [&](int k_block, int padded, bool streamed) {
    if (padded < least) plan.k_block = k_block, plan.streamed = streamed, least = padded;
  };
  for (const int k_block : {2, 4, 7, 8, 13}) {
    if (steps <= k_block * stage_steps - odd_steps(k_block)) take(k_block, k_block, false);
  }
  for (const int k_block : {5, 4}) take(k_block, (stages + k_block - 1) / k_block * k_block, true);
  plan.steps = least * stage_steps;
  return plan;
}

/// What the kernels read and write.
struct ByteOperands {
  ByteRows rows;
  FilterLists lists;
  int n, k, d, multiprocessors;
};

// ---- launchers (byte_filter.cu)

/// Bytes of the points, from row-major ones on the device; of the centroids.
template <class T>
void write_byte_points(cudaStream_t stream, const T* x, const Frame<T>& frame, const ByteRows& to, int n, int d);
template <class T>
void write_byte_centroids(cudaStream_t stream, const T* c, const Frame<T>& frame, const ByteRows& to, int k, int d);
/// The centroid with the largest bound of each row, or nearly: lists.candidates.guess.
void guess_by_bytes(cudaStream_t stream, const ByteOperands& o);
/// Labels of rows without candidates, lists of candidates and of overflow rows.
void filter_by_bytes(cudaStream_t stream, const ByteOperands& o);

/// Thresholds from exact distances to the guesses, a warp per row.
template <class T>
__global__ void set_byte_threshold_kernel(const T* __restrict__ x, const T* __restrict__ c, Frame<T> frame,
                                          ByteRows rows, const int* guess, FilterCounters* counters, int n, int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= n) return;  // a whole warp at a time
  double distance[1];
  warp_distances(x + i * d, {c + int64_t(guess[i]) * d}, d, distance);
  if (threadIdx.x % 32 != 0) return;
  if (i == 0) counters->exact_distances = n;
  rows.threshold[i] =
      byte_threshold(rows.square[i], scalbn(distance[0], 2 * frame.exponent()), rows.point[i].inverse_scale);
}

// ---- phases; W::bytes is a ByteRows

template <class T, class W>
void prepare_bytes(Run<T, W>& s) {
  auto& b = s.ws.bytes;
  b.steps = plan_bytes(s.d).steps;
  const size_t points = ByteMainloop::padded_rows(s.n);
  b.x = s.template device<uint4>(points * b.steps * step_words / 4);
  b.point = s.template device<BytePoint>(points);
  b.square = s.template device<double>(s.n);
  b.threshold = s.template device<float>(s.n);
  b.c = s.template device<unsigned char>(blocks(s.k, byte_columns) * ByteMainloop::tile_bytes(b.steps));
}

/// The filter is on, and counts: two bytes take the place of a half of a short row.
template <class T, class W>
void count_by_bytes(Run<T, W>& s) {
  s.ws.filter.width = s.ws.bytes.steps * mma_depth;
}

/// Bytes of the points, which are on the device with their frame.
template <class T, class W>
void write_byte_points(Run<T, W>& s) {
  write_byte_points<T>(s.stream, s.ws.rows.points, frame_of(s), s.ws.bytes, s.n, s.d);
}

/// Labels of all rows. keep(row, label, squared distance) is called for rows that are compared.
template <class T, class Keep, class W>
void assign_by_bytes(Run<T, W>& s, const Keep& keep) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  const ByteOperands o{s.ws.bytes, filter_lists(s, counters), s.n, s.k, s.d, s.device_info.multiprocessors};
  write_byte_centroids<T>(s.stream, s.c, frame_of(s), s.ws.bytes, s.k, s.d);
  if (s.ws.sums.done == 0) guess_by_bytes(s.stream, o);  // later the guesses are the previous labels
  launch(set_byte_threshold_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.ws.rows.points, s.c,
         frame_of(s), s.ws.bytes, o.lists.candidates.guess, counters, s.n, s.d);
  filter_rows(
      s, counters, refine_counters, [&](FilterCounters*) { filter_by_bytes(s.stream, o); }, keep);
}

}  // namespace ladder
