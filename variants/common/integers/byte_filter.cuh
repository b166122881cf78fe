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
  int width = 0;               // of a row, in halves: what the filter's counters tell
  uint4* x = nullptr;          // a_fragment_offset(); n, padded
  BytePoint* point = nullptr;  // n, padded
  double* square = nullptr;    // n: squared lengths in the frame
  float* threshold = nullptr;  // n
  unsigned char* c = nullptr;  // tile by tile: b_smem_offset(), then a ByteCentroid per column
};

using ByteMainloop = MainloopSm90<byte_columns, ByteCentroid, int>;

/// Of points in registers as a whole: the last step of 7 and of 8 stages is not multiplied.
constexpr bool odd_steps(int k_block) { return k_block >= 7; }

/// The shape of the mainloop for rows of d bytes, in stages of 64 of them: in registers as a whole, or streamed in
/// k-blocks of 4 stages where these pad less.
constexpr MainloopPlan plan_bytes(int d) {
  const int steps = (d + byte_step_depth - 1) / byte_step_depth;
  for (const int k_block : {2, 4, 7, 8}) {
    if (steps <= k_block * stage_steps - odd_steps(k_block))
      return {byte_columns, k_block, false, k_block * stage_steps};
  }
  constexpr int k_block = 4, whole = k_block * stage_steps;
  return {byte_columns, k_block, true, (steps + whole - 1) / whole * whole};
}

/// The ByteCentroids of a tile.
__host__ __device__ inline ByteCentroid* facts_of_tile(unsigned char* tiles, int tile, int steps) {
  return reinterpret_cast<ByteCentroid*>(tiles + (tile + 1) * ByteMainloop::tile_bytes(steps)) - byte_columns;
}
__host__ __device__ inline uint32_t* words_of_tile(unsigned char* tiles, int tile, int steps) {
  return reinterpret_cast<uint32_t*>(tiles + tile * ByteMainloop::tile_bytes(steps));
}

/// Where quantize() puts a point.
struct PutBytePoint {
  ByteRows to;
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    const auto place = [&](int word) -> uint32_t& {
      return reinterpret_cast<uint32_t*>(to.x)[a_fragment_offset(row, word, to.steps)];
    };
    const ByteSize size = byte_size(d, value);
    const float inverse_scale = byte_inverse_scale(size.largest);
    const ByteError error = write_bytes(place, to.steps * step_words, d, 1 / double(inverse_scale), value);
    if (threadIdx.x % 32 != 0) return;
    to.point[row] = byte_point(size, error, inverse_scale);
    if (row < count) to.square[row] = size.whole;
  }
};

/// Where it puts a centroid.
struct PutByteCentroid {
  ByteRows to;
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    const int tile = int(row / byte_columns), column = int(row % byte_columns);
    const auto place = [&](int word) -> uint32_t& {
      return words_of_tile(to.c, tile, to.steps)[b_smem_offset<byte_columns>(column, word)];
    };
    const ByteSize size = byte_size(d, value);
    const bool keeps = keeps_bytes(size);
    const float scale = byte_scale(keeps ? size.largest : 0);
    const ByteError error =
        write_bytes(place, to.steps * step_words, d, scale, [&](int f) { return keeps ? value(f) : 0.0; });
    if (threadIdx.x % 32 != 0) return;
    facts_of_tile(to.c, tile, to.steps)[column] = row < count ? byte_centroid(size, error, scale) : padding_bytes();
  }
};

/// What the kernels read and write.
struct ByteOperands {
  ByteRows rows;
  FilterLists lists;
  int n, k, d, multiprocessors;
};

// ---- launchers (byte_filter.cu)

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

constexpr int where_useless = -1;  // axis "bytes": where the pilot finds no width of short rows; 0: never, 1: always

/// Whether the axis has bytes in the place of short rows, once the pilot has chosen their width.
template <class T, class W>
bool prefers_bytes(const Run<T, W>& s) {
  const int wanted = s.axis("bytes");
  return wanted == 1 || (wanted == where_useless && s.ws.filter.width == 0);
}

template <class T, class W>
void prepare_bytes(Run<T, W>& s) {
  auto& b = s.ws.bytes;
  b.steps = plan_bytes(s.d).steps, b.width = b.steps * mma_depth;
  const size_t points = ByteMainloop::padded_rows(s.n);
  b.x = s.template device<uint4>(points * b.steps * step_words / 4);
  b.point = s.template device<BytePoint>(points);
  b.square = s.template device<double>(s.n);
  b.threshold = s.template device<float>(s.n);
  b.c = s.template device<unsigned char>(blocks(s.k, byte_columns) * ByteMainloop::tile_bytes(b.steps));
}

/// Bytes of the points, which are on the device with their frame.
template <class T, class W>
void write_byte_points(Run<T, W>& s) {
  quantize(s.ws.rows.points, frame_of(s), PutBytePoint{s.ws.bytes}, nullptr, s.n, ByteMainloop::padded_rows(s.n), s.d,
           s.stream);
}

/// Labels of all rows. The first assignment, which has no labels to guess from, multiplies halves in all features:
/// bytes would be multiplied twice.
template <class T, class W>
void assign_by_bytes(Run<T, W>& s) {
  if (s.ws.sums.done == 0) return assign_full_dimension(s), count_all_overflow(s);
  RefineCounters* const refine_counters = next_refine_counters(s);
  FilterCounters* const counters = filter_counters(s);
  const ByteOperands o{s.ws.bytes, filter_lists(s, counters), s.n, s.k, s.d, s.device_info.multiprocessors};
  quantize(s.c, frame_of(s), PutByteCentroid{s.ws.bytes}, nullptr, s.k, ByteMainloop::padded_columns(s.k), s.d,
           s.stream);
  launch(set_byte_threshold_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, s.ws.rows.points, s.c,
         frame_of(s), s.ws.bytes, o.lists.candidates.guess, counters, s.n, s.d);
  filter_rows(
      s, counters, refine_counters, [&](FilterCounters*) { filter_by_bytes(s.stream, o); }, StoreLabel{s.label});
}

}  // namespace ladder
