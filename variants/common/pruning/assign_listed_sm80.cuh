// The mma.sync form of the exact assignment for a list of rows, which full_dimension.cuh calls on the CPU device.
// v35_short_rows is the first to call it.
#pragma once
#include "../certified/assign_tile_sm80.cuh"
#include "../certified/refine.cuh"

namespace ladder {
namespace certified {

/// Tiles of the rows list[0 .. *length), dealt to the blocks in turn.
[[maybe_unused]] static __global__ void __launch_bounds__(Tile::block, 1)
    assign_listed_kernel(const int* __restrict__ list, const int* length, Fp16Rows x, Fp16Rows c,
                         const PointBound* __restrict__ point, const CentroidBound* __restrict__ centroid,
                         int32_t* __restrict__ label, UndecidedPair* undecided_pairs, RefineCounters* refine_counters,
                         int n, int k, int d) {
  const int count = *length;
  const auto row_at = [&](int i) { return list[min(i, count - 1)]; };
  for (int part = blockIdx.x; part < (count + Tile::rows - 1) / Tile::rows; part += gridDim.x) {
    __syncthreads();  // all have read the Top3 of the tile before
    assign_tile(part * Tile::rows, count, row_at, x, c, point, centroid, label, undecided_pairs, refine_counters, n, k,
                d);
  }
}

}  // namespace certified

/// Labels of the rows list[0 .. *length), and of those that refine_counters counts already. Needs refine.cuh.
template <class T, class W>
void assign_listed(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  quantize_centroids(s, length);
  // As many blocks as run at a time: the list is often empty, and idle blocks cost time, too.
  const int grid = std::min(blocks(s.n, certified::Tile::rows), s.device_info.multiprocessors);
  const certified::AssignSm80 p = assign_sm80_arguments(s, refine_counters);
  launch(certified::assign_listed_kernel, grid, certified::Tile::block, certified::Tile::bytes, s.stream, list, length,
         p.x, p.c, p.point, p.centroid, p.label, p.undecided_pairs, p.refine_counters, p.n, p.k, p.d);
  refine(s, refine_counters);
}

}  // namespace ladder
