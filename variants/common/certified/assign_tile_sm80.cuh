// A tile of products whose epilogue computes the bounds and decides. v24_certified introduces it.
#pragma once
#include "assign_sm80.cuh"

namespace ladder::certified {

/// One tile of rows, from the `begin`-th of `count` on; the i-th is row_at(i). Each lane keeps the Top3 of its rows; at
/// the end one thread per row merges those of all lanes and decides.
template <class RowAt>
__device__ void assign_tile(int begin, int count, const RowAt& row_at, const Fp16Rows& x, const Fp16Rows& c,
                            const PointBound* __restrict__ point, const CentroidBound* __restrict__ centroid,
                            int32_t* __restrict__ label, UndecidedPair* undecided_pairs,
                            RefineCounters* refine_counters, int n, int k, int d) {
  constexpr float none = -std::numeric_limits<float>::infinity();  // below Top3::none: never inserted
  const Tile tile;
  Top3 top3[Tile::lane_rows];
  tile.multiply(begin, row_at, x, c, count, k, d, [&](int first, Tile::Products& product) {
    // Four lanes of a warp hold the same row: all get the largest of their lower bounds.
    for (int r = 0; r < Tile::lane_rows; ++r) {
      float& lower = top3[r].lower;
      for (int step = 1; step < 4; step *= 2) lower = fmaxf(lower, __shfl_xor_sync(0xffffffffu, lower, step));
    }
    // Products become upper bounds. After the first few tiles hardly one of them reaches `lower`, so that of most
    // tiles only the largest bound of each row is needed.
    PointBound y[Tile::lane_rows];  // loaded again for each tile: the products take all registers
    float largest[Tile::lane_rows];
    for (int r = 0; r < Tile::lane_rows; ++r) {
      y[r] = point[row_at(begin + tile.row(r))];
      largest[r] = none;
    }
    for (int f = 0; f < Tile::column_fragments; ++f) {
      for (int e = 0; e < 2; ++e) {
        const CentroidBound z = centroid[first + tile.column(f, e)];
        for (int r = 0; r < Tile::lane_rows; ++r) {
          float& bound = product[r / 2][f][r % 2 * 2 + e];
          bound = upper_bound(bound, y[r], z);
          largest[r] = fmaxf(largest[r], bound);
        }
      }
    }
#pragma unroll  // fully unrolled, like all loops over products: a dynamically indexed array would go to local memory
    for (int r = 0; r < Tile::lane_rows; ++r) {
      while (largest[r] >= top3[r].lower) {
        int index = -1;  // the first column that has the largest bound
        float next = none;
#pragma unroll
        for (int f = 0; f < Tile::column_fragments; ++f) {
          for (int e = 0; e < 2; ++e) {
            float& bound = product[r / 2][f][r % 2 * 2 + e];
            const bool found = index < 0 && bound == largest[r];
            if (found) index = first + tile.column(f, e), bound = none;
            next = fmaxf(next, bound);
          }
        }
        top3[r].insert(largest[r], index);
        top3[r].lower = fmaxf(top3[r].lower, lower_bound(largest[r], y[r], centroid[index]));
        largest[r] = next;
      }
    }
  });
  Top3* const partial = dynamic_shared<Top3>();  // sharers x rows
  for (int r = 0; r < Tile::lane_rows; ++r) partial[tile.sharer() * Tile::rows + tile.row(r)] = top3[r];
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= Tile::rows || begin + row >= count) return;
  Top3 merged = partial[row];
  for (int e = 1; e < Tile::sharers; ++e) merged.merge(partial[e * Tile::rows + row]);
  decide(row_at(begin + row), merged, label, undecided_pairs, refine_counters, n);
}

}  // namespace ladder::certified
