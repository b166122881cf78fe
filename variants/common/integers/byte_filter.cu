// Kernels of byte_filter.cuh.
//
// for cuda: 90a
#include "../device/warp_argmin.cuh"
#include "../filter/finish_rows.cuh"
#include "byte_filter.cuh"

namespace ladder {
namespace {

#ifdef __CUDACC__
/// A threshold that no centroid reaches: of rows that pad.
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
constexpr size_t rows_bytes = ByteMainloop::rows * (sizeof(ByteRow) + sizeof(int));

/// Replaces products by the bits of byte_excess(), column by column: used(r, column, excess) may read them.
template <class Use>
__device__ void excess_of_tile(const ByteCentroid* facts, const ByteRow (&y)[2], int (&product)[byte_columns / 2],
                               const Use& use) {
#pragma unroll
  for (int column = 0; column < own_columns; ++column) {
    const ByteCentroid z = facts[accumulator_column(threadIdx.x, element(column))];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int& bits = product[element(column) + 2 * r];
      bits = __float_as_int(byte_excess(bits, y[r].point, y[r].threshold, z));
      use(r, column, bits);
    }
  }
}

/// `guesses`: finds the largest bound of each row; otherwise its candidates.
template <int k_block, bool streamed, bool guesses>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(ByteMainloop::block, 1)
    byte_filter_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                       const BytePoint* __restrict__ point, const float* __restrict__ thresholds, FilterLists lists,
                       unsigned bound_bits, int n, int k, int steps) {
  const int lane = threadIdx.x % 32;
  // Of the 16 rows of this warp; a thread has rows lane / 4 and lane / 4 + 8 of them.
  ByteRow* const known =
      reinterpret_cast<ByteRow*>(dynamic_shared<unsigned char>() + ByteMainloop::Ring::bytes) + threadIdx.x / 32 * 16;
  int* const found = reinterpret_cast<int*>(known - threadIdx.x / 32 * 16 + ByteMainloop::rows) + threadIdx.x / 32 * 16;
  const auto row_of_lane = [&](int64_t first) { return first + threadIdx.x % warpgroup_threads / 32 * 16 + lane; };
  int own_row = 0;      // the thread's first row
  float greatest[2];    // guesses: the last bits hold a column
  int first_column[2];  // of its tile
  const auto prologue = [&](int64_t first) {
    const int64_t i = row_of_lane(first);
    if (lane < 16) {
      const bool counts = i < n && !guesses;
      const float threshold = counts ? thresholds[i] : guesses ? 0 : out_of_reach;
      known[lane] = {point[i], threshold, counts ? lists.candidates.guess[i] : 0};
      found[lane] = 0;
    }
    __syncwarp();
    own_row = int(first) + accumulator_row(threadIdx.x % warpgroup_threads, 0);
    for (int r = 0; r < 2; ++r) greatest[r] = -std::numeric_limits<float>::infinity(), first_column[r] = 0;
  };
  const auto epilogue = [&](int first, const ByteCentroid* facts, int(&product)[byte_columns / 2]) {
    const ByteRow y[2] = {known[lane / 4], known[lane / 4 + 8]};
    if constexpr (guesses) {
      float best[2] = {-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
      excess_of_tile(facts, y, product, [&](int r, int column, int bits) {
        best[r] = fmaxf(best[r], __uint_as_float((unsigned(bits) & bound_bits) | unsigned(column)));
      });
      for (int r = 0; r < 2; ++r) {
        if (best[r] > greatest[r]) greatest[r] = best[r], first_column[r] = first;
      }
    } else {
      int below[2] = {-1, -1};  // sign bit: none of the row's excesses is positive
      excess_of_tile(facts, y, product, [&](int r, int, int bits) { below[r] &= bits; });
      if (!__any_sync(all_lanes, (below[0] & below[1]) >= 0)) return;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (below[r] < 0) continue;
#pragma unroll
        for (int part = 0; part < own_columns; part += 20) {
          unsigned signs = 0;  // a bit per column
#pragma unroll
          for (int e = 19; e >= 0; --e) signs = __funnelshift_l(unsigned(product[element(part + e) + 2 * r]), signs, 1);
          for (unsigned which = signs ^ ((1u << 20) - 1); which != 0; which &= which - 1) {
            const int j = first + accumulator_column(threadIdx.x, element(part + __ffs(int(which)) - 1));
            if (j >= k || j == y[r].guess) continue;
            const int place = atomicAdd(&found[lane / 4 + 8 * r], 1);
            if (place < most_candidates)
              lists.candidates.list[int64_t(own_row + 8 * r) * most_candidates + place] = j;
            else
              known[lane / 4 + 8 * r].threshold = out_of_reach;  // an overflow row needs no more candidates
          }
        }
      }
      __syncwarp();
    }
  };
  const auto finish = [&](int64_t first) {
    __syncwarp();  // all candidates are stored
    if constexpr (guesses) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const unsigned column = __float_as_uint(greatest[r]) & ~bound_bits;
        int j = first_column[r] + accumulator_column(threadIdx.x, element(int(column)));
        warp_argmax<4>(greatest[r], j);  // four lanes share a row
        const int64_t i = first + accumulator_row(threadIdx.x % warpgroup_threads, 2 * r);
        if (lane % 4 == 0 && i < n) lists.candidates.guess[i] = min(j, k - 1);
      }
    } else {
      const int64_t i = row_of_lane(first);
      const bool active = lane < 16 && i < n;
      finish_rows(lists, active, int(i), active ? known[lane].guess : 0, active ? found[lane] : 0);
      __syncwarp();  // the counts are read: those of the next rows may be cleared
    }
  };
  ByteMainloop::multiply<k_block, streamed, !streamed && odd_steps(k_block)>(x, c, n, k, steps, prologue, epilogue,
                                                                             finish);
}

template <bool guesses>
void launch_bytes(cudaStream_t stream, const ByteOperands& o) {
  const MainloopPlan plan = plan_bytes(o.d);
  const auto start = [&]<int k_block, bool streamed>() {
    launch(byte_filter_kernel<k_block, streamed, guesses>, ByteMainloop::grid(o.n, o.multiprocessors),
           ByteMainloop::block, ByteMainloop::Ring::bytes + rows_bytes, stream, o.rows.x, o.rows.c, o.rows.point,
           o.rows.threshold, o.lists, ~63u, o.n, o.k, o.rows.steps);
  };
  if (plan.streamed)
    start.template operator()<4, true>();
  else
    dispatch<2, 4, 7, 8>(plan.k_block, [&]<int k_block>() { start.template operator()<k_block, false>(); });
}
#else
/// The same of a row by one thread.
template <bool guesses>
__global__ void byte_filter_kernel(ByteOperands o) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= o.n) return;
  const int guess = guesses ? 0 : o.lists.candidates.guess[i], steps = o.rows.steps;
  const float threshold = guesses ? 0 : o.rows.threshold[i];
  int best = 0, found = 0;
  float greatest = -std::numeric_limits<float>::infinity();
  for (int j = 0; j < o.k; ++j) {
    const uint32_t* const centroid = words_of_tile(o.rows.c, j / byte_columns, steps);
    int product = 0;
    for (int word = 0; word < steps * step_words; ++word) {
      const uint32_t a = reinterpret_cast<const uint32_t*>(o.rows.x)[a_fragment_offset(i, word, steps)];
      const uint32_t b = centroid[b_smem_offset<byte_columns>(j % byte_columns, word)];
      for (int e = 0; e < 32; e += 8) product += int(int8_t(a >> e)) * int(int8_t(b >> e));
    }
    const ByteCentroid z = facts_of_tile(o.rows.c, j / byte_columns, steps)[j % byte_columns];
    const float excess = byte_excess(product, o.rows.point[i], threshold, z);
    if (excess > greatest) greatest = excess, best = j;
    if (guesses || std::signbit(excess) || j == guess) continue;
    if (found++ < most_candidates) o.lists.candidates.list[i * most_candidates + found - 1] = j;
  }
  if (guesses)
    o.lists.candidates.guess[i] = best;
  else
    o.lists.finish_row(int(i), guess, found);
}

template <bool guesses>
void launch_bytes(cudaStream_t stream, const ByteOperands& o) {
  launch(byte_filter_kernel<guesses>, blocks(o.n, 64), 64, 0, stream, o);
}
#endif

}  // namespace

void guess_by_bytes(cudaStream_t stream, const ByteOperands& o) { launch_bytes<true>(stream, o); }
void filter_by_bytes(cudaStream_t stream, const ByteOperands& o) { launch_bytes<false>(stream, o); }

}  // namespace ladder
