// Kernels of byte_filter.cuh.
//
// for cuda: 90a
#include "../filter/finish_rows.cuh"
#include "byte_filter.cuh"

namespace ladder {
namespace {

#ifdef __CUDACC__
/// A threshold that no centroid reaches: of rows that pad, and of those that have too many candidates.
constexpr float out_of_reach = 0x1p126f;

/// What the epilogue knows of a row.
struct alignas(16) ByteRow {
  BytePoint point;
  float threshold;
  int guess;
};
constexpr int own_columns = byte_columns / 4;  // a thread has products of two rows with them
/// The element of the first row with the thread's column `column`; that of the second row is 2 further.
__device__ constexpr int element(int column) { return column / 2 * 4 + column % 2; }

// A bit for each column of a thread, in two words: both columns of a pair are in one word, one in its bytes 0 and 2,
// the other in 1 and 3.
__device__ constexpr unsigned pair_bits(int pair) { return 0x0101u << (pair % 8 + pair / 8 % 2 * 16); }
__device__ inline int column_of(int bit) { return bit / 16 * 16 + bit % 8 * 2 + bit / 8 % 2; }
/// The signs of a and b as 8 equal bits: a's in the bytes 0 and 2, b's in 1 and 3.
__device__ inline unsigned sign_bytes(int a, int b) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, 0xfbfb;" : "=r"(bytes) : "r"(a), "r"(b));
  return bytes;
}

/// A row that reaches columns of a thread's: a bit for each of them, the tile's first column, and 2 x lane + 1 for the
/// second row.
struct alignas(16) Hit {
  uint64_t columns;
  int first, place;
};
/// What a warp has in shared memory beside the ring: its 16 rows, and hits that are not candidates yet. A thread has
/// rows lane / 4 and lane / 4 + 8.
struct WarpRows {
  static constexpr int most_hits = 128;  // a third is usual: one for each guess, and one or two more
  Hit hits[most_hits];
  ByteRow known[16];
  int found[16];

  /// The first `count` hits become candidates. `row`: the first of the 16.
  __device__ void list_candidates(int count, int64_t row, const Candidates& candidates, int k) {
    __syncwarp();  // the hits are stored
    for (int h = threadIdx.x % 32; h < count; h += 32) {
      const Hit hit = hits[h];
      const int thread = hit.place / 2, line = thread / 4 + hit.place % 2 * 8;
      for (uint64_t which = hit.columns; which != 0; which &= which - 1) {
        const int j = hit.first + accumulator_column(thread, element(column_of(__ffsll(int64_t(which)) - 1)));
        if (j >= k || j == known[line].guess) continue;
        const int place = atomicAdd(&found[line], 1);
        if (place < most_candidates)
          candidates.list[(row + line) * most_candidates + place] = j;
        else
          known[line].threshold = out_of_reach;  // an overflow row needs no more candidates
      }
    }
    __syncwarp();  // the counts are there, and the hits may be overwritten
  }
};
constexpr size_t rows_bytes = ByteMainloop::readers / 32 * sizeof(WarpRows);

/// Candidates of all rows. The epilogue only stores which columns were reached; candidates are made of that when the
/// rows have met all tiles, as the other consumer waits for an epilogue that takes longer than its product.
template <int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(ByteMainloop::block, 1)
    byte_filter_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                       const BytePoint* __restrict__ point, const float* __restrict__ thresholds, FilterLists lists,
                       int n, int k, int steps) {
  const int lane = threadIdx.x % 32;
  WarpRows& warp =
      reinterpret_cast<WarpRows*>(dynamic_shared<unsigned char>() + ByteMainloop::Ring::bytes)[threadIdx.x / 32];
  int64_t row = 0;  // the first of this warp's 16
  int hits = 0;
  const auto prologue = [&](int64_t first) {
    row = first + threadIdx.x % warpgroup_threads / 32 * 16, hits = 0;
    if (lane < 16) {
      const int64_t i = row + lane;
      warp.known[lane] = {point[i], i < n ? thresholds[i] : out_of_reach, i < n ? lists.candidates.guess[i] : 0};
      warp.found[lane] = 0;
    }
    __syncwarp();
  };
  const auto epilogue = [&](int first, const ByteCentroid* facts, int(&product)[byte_columns / 2]) {
    const ByteRow y[2] = {warp.known[lane / 4], warp.known[lane / 4 + 8]};
    int below[2] = {-1, -1};  // sign bit: none of the row's excesses is positive
#pragma unroll
    for (int column = 0; column < own_columns; ++column) {
      const ByteCentroid z = facts[accumulator_column(threadIdx.x, element(column))];
      for (int r = 0; r < 2; ++r) {
        int& bits = product[element(column) + 2 * r];
        below[r] &= bits = __float_as_int(byte_excess(bits, y[r].point, y[r].threshold, z));
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const unsigned reaching = __ballot_sync(all_lanes, below[r] >= 0);
      if (reaching == 0) continue;
      if (hits + __popc(reaching) > WarpRows::most_hits)
        warp.list_candidates(std::exchange(hits, 0), row, lists.candidates, k);
      unsigned negative[2] = {0, 0xf0f0u | 0xffffu << 16};  // bits without a column, too
#pragma unroll
      for (int pair = 0; pair < own_columns / 2; ++pair) {
        const int* const two = product + element(2 * pair) + 2 * r;
        negative[pair / 16] |= sign_bytes(two[0], two[1]) & pair_bits(pair);
      }
      if (below[r] >= 0)
        warp.hits[hits + lanes_below(reaching)] = {~(uint64_t(negative[1]) << 32 | negative[0]), first, 2 * lane + r};
      hits += __popc(reaching);
    }
    __syncwarp();
  };
  const auto finish = [&](int64_t) {
    warp.list_candidates(hits, row, lists.candidates, k);
    const bool active = lane < 16 && row + lane < n;
    finish_rows(lists, active, int(row) + lane, active ? warp.known[lane].guess : 0, active ? warp.found[lane] : 0);
    __syncwarp();  // the counts are read: those of the next rows may be cleared
  };
  ByteMainloop::multiply<k_block, streamed, !streamed && odd_steps(k_block)>(x, c, n, k, steps, prologue, epilogue,
                                                                             finish);
}
#else
/// The same of a row by one thread.
__global__ void byte_filter_kernel(ByteOperands o) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= o.n) return;
  const int guess = o.lists.candidates.guess[i], steps = o.rows.steps;
  int found = 0;
  for (int j = 0; j < o.k; ++j) {
    const uint32_t* const centroid = words_of_tile(o.rows.c, j / byte_columns, steps);
    int product = 0;
    for (int word = 0; word < steps * step_words; ++word) {
      const uint32_t a = reinterpret_cast<const uint32_t*>(o.rows.x)[a_fragment_offset(i, word, steps)];
      const uint32_t b = centroid[b_smem_offset<byte_columns>(j % byte_columns, word)];
      for (int e = 0; e < 32; e += 8) product += int(int8_t(a >> e)) * int(int8_t(b >> e));
    }
    const ByteCentroid z = facts_of_tile(o.rows.c, j / byte_columns, steps)[j % byte_columns];
    if (std::signbit(byte_excess(product, o.rows.point[i], o.rows.threshold[i], z)) || j == guess) continue;
    if (found++ < most_candidates) o.lists.candidates.list[i * most_candidates + found - 1] = j;
  }
  o.lists.finish_row(int(i), guess, found);
}
#endif

}  // namespace

void filter_by_bytes(cudaStream_t stream, const ByteOperands& o) {
#ifdef __CUDACC__
  const MainloopPlan plan = plan_bytes(o.d);
  const auto start = [&]<int k_block, bool streamed>() {
    launch(byte_filter_kernel<k_block, streamed>, ByteMainloop::grid(o.n, o.multiprocessors), ByteMainloop::block,
           ByteMainloop::Ring::bytes + rows_bytes, stream, o.rows.x, o.rows.c, o.rows.point, o.rows.threshold, o.lists,
           o.n, o.k, o.rows.steps);
  };
  if (plan.streamed)
    start.template operator()<4, true>();
  else
    dispatch<2, 4, 7, 8>(plan.k_block, [&]<int k_block>() { start.template operator()<k_block, false>(); });
#else
  launch(byte_filter_kernel, blocks(o.n, 64), 64, 0, stream, o);
#endif
}

}  // namespace ladder
