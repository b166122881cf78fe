// Kernels of first_guess.cuh.
//
// for cuda: 90a
#include "../device/warp_argmin.cuh"
#include "../gemm/narrow_mainloop_sm80.cuh"
#include "first_guess.cuh"

namespace ladder {
namespace {

/// The centroid with the largest bound, or nearly: the last 4 bits of a bound hold a column. Rows are counted by guess,
/// for the counting sort.
template <int width>
__global__ void __launch_bounds__(NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::resident)
    max_bound_kernel(const uint4* __restrict__ x, const uint4* __restrict__ c, int* guess, RowOrder order, int n,
                     int k) {
  using Tile = NarrowMainloopSm80<width>;
  const int64_t first_row = int64_t(blockIdx.x) * Tile::rows;
  const Tile tile;
  float greatest[Tile::own_rows];
  int first_column[Tile::own_rows] = {};
  for (float& bound : greatest) bound = -std::numeric_limits<float>::infinity();
  tile.multiply(x, c, k, [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < Tile::own_rows; ++r) {
      float best = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int e = 0; e < 2 * Tile::column_fragments; ++e) {
        const unsigned bits = __float_as_uint(product[r / 2][e / 2][r % 2 * 2 + e % 2]);
        best = fmaxf(best, __uint_as_float((bits & ~15u) | unsigned(e)));
      }
      if (best > greatest[r]) greatest[r] = best, first_column[r] = first;
    }
  });
  for (int r = 0; r < Tile::own_rows; ++r) {
    const int e = int(__float_as_uint(greatest[r]) & 15u);
    int j = first_column[r] + tile.column(e / 2, e % 2);
    warp_argmax<4>(greatest[r], j);  // four lanes share a row
    const int64_t i = first_row + tile.row(r);
    if (tile.lane % 4 == 0 && i < n) count_row(order, guess[i] = min(j, k - 1));
  }
}

}  // namespace

void max_bound(FilterSm80, int width, cudaStream_t stream, const FilterOperands& o, const RowOrder& order) {
  dispatch_width(width, [&]<int width>() {
    using Tile = NarrowMainloopSm80<width>;
    launch(max_bound_kernel<width>, blocks(o.n, Tile::rows), Tile::block, Tile::bytes, stream, o.x, o.c,
           o.candidates.guess, order, o.n, o.k);
  });
}

void begin_order(cudaStream_t stream, const RowOrder& order, int k) {
  launch(prefix_sum_kernel, 1, prefix_sum_block, 0, stream, order, k);
}

}  // namespace ladder
