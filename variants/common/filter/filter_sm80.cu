// Kernels of filter_sm80.cuh.
//
// for cuda: 90a
#include "../gemm/narrow_mainloop_sm80.cuh"
#include "filter_sm80.cuh"

namespace ladder {
namespace {

/// The candidates of each row: centroids other than the guess whose product is not negative. Rows are sorted by their
/// guesses, so the rows of a warp find their candidates in the same few groups of centroids; all other groups end after
/// a test of the products' signs.
template <int width>
__global__ void __launch_bounds__(NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::resident)
    filter_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, const uint32_t* __restrict__ thresholds,
                  Candidates candidates, const int* __restrict__ order, int* candidate_rows, int* overflow,
                  FilterCounters* counters, int32_t* __restrict__ label, int n, int k, FilterPart part) {
  using Tile = NarrowMainloopSm80<width>;
  order = part.order(order), n = part.count(n), k = part.columns(k);
  if (int64_t(blockIdx.x) * Tile::rows >= n) return;                     // the grid is for all rows
  int* const found = dynamic_shared<int>() + Tile::bytes / sizeof(int);  // rows: number of candidates
  int* const guess = found + Tile::rows;                                 // rows
  int* const rows = guess + Tile::rows;                                  // rows: their numbers; -1: padding
  const Tile tile;
  const int64_t index = int64_t(blockIdx.x) * Tile::rows + threadIdx.x;
  const int i = index < n ? order[index] : -1;
  static_assert(Tile::rows == Tile::block);
  rows[threadIdx.x] = i;
  found[threadIdx.x] = 0;
  guess[threadIdx.x] = i >= 0 ? candidates.guess[i] : 0;
  __syncthreads();
  unsigned closed[Tile::own_rows];  // all bits set: the row's products are ignored
  for (int r = 0; r < Tile::own_rows; ++r) closed[r] = rows[tile.row(r)] >= 0 ? 0 : ~0u;
  const auto row_at = [&](int r) { return max(rows[r], 0); };
  tile.multiply(row_at, x, thresholds, c, k, [&](int first, typename Tile::Products& product) {
    unsigned below[Tile::own_rows], all_below = ~0u;  // sign bit: all products are negative
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      below[r] = ~0u;
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e)
        below[r] &= __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
      all_below &= below[r] |= closed[r];
    }
    if (!__any_sync(0xffffffffu, int(all_below) >= 0)) return;
#pragma unroll  // a dynamically indexed array would go to local memory
    for (int r = 0; r < Tile::own_rows; ++r) {
      if (int(below[r]) < 0) continue;
      unsigned reached = 0;
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e)
        reached |= (~__float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]) >> 31) << e;
      for (; reached != 0; reached &= reached - 1) {
        const int e = __ffs(int(reached)) - 1, j = first + tile.column(e / 2, e % 2), row = tile.row(r);
        if (j >= k || part.centroid(j) == guess[row]) continue;
        const int before = atomicAdd(&found[row], 1);
        if (before < most_candidates)
          candidates.list[int64_t(rows[row]) * most_candidates + before] = part.centroid(j);
        else
          closed[r] = ~0u;  // an overflow row needs no more candidates
      }
    }
  });
  if (i < 0) return;
  FilterLists{candidates, candidate_rows, overflow, counters, label}.finish_row(i, guess[threadIdx.x],
                                                                                found[threadIdx.x]);
}

/// One block. So many rows for each multiprocessor are few: compared with all centroids in double, they take no longer
/// than one wave of the full-dimension kernel. On an H200 a wave of 128 x 132 rows takes 0.3 ms at kmcuda, one
/// brute-force row 0.4 us; both grow with K D.
constexpr int brute_force_rows_per_sm = 4;

__global__ void route_overflow_kernel(const int* overflow, FilterCounters* counters, UndecidedPair* undecided_pairs,
                                      RefineCounters* refine_counters, DirtyClusters dirty, int max_brute_force,
                                      int n) {
  if (threadIdx.x == 0) dirty.clean_all();  // no later kernel of this assignment reads it
  const int count = counters->overflow;
  if (count > max_brute_force) {
    if (threadIdx.x == 0) counters->listed = count;
    return;
  }
  for (int e = threadIdx.x; e < count; e += blockDim.x) undecided_pairs[n - 1 - e] = {overflow[e], 0, 0};
  if (threadIdx.x == 0) refine_counters->brute_force = count;
}

}  // namespace

int FilterSm80::rows_at_once(int width, int) {
  int rows = 0;
  dispatch_width(width, [&]<int width>() { rows = NarrowMainloopSm80<width>::rows; });
  return rows;
}

void FilterSm80::filter(int width, cudaStream_t stream, const FilterOperands& o, const FilterPart& part) {
  dispatch_width(width, [&]<int width>() {
    using Tile = NarrowMainloopSm80<width>;
    launch(filter_kernel<width>, blocks(o.n, Tile::rows), Tile::block, Tile::bytes + 3 * Tile::rows * sizeof(int),
           stream, o.x, o.c, o.threshold, o.candidates, o.order, o.candidate_rows, o.overflow, o.counters, o.label, o.n,
           o.k, part);
  });
}

void route_overflow(cudaStream_t stream, const int* overflow, FilterCounters* counters, UndecidedPair* undecided_pairs,
                    RefineCounters* refine_counters, const DirtyClusters& dirty, int multiprocessors, int n) {
  launch(route_overflow_kernel, 1, 256, 0, stream, overflow, counters, undecided_pairs, refine_counters, dirty,
         brute_force_rows_per_sm * multiprocessors, n);
}

}  // namespace ladder
