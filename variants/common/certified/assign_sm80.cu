// The kernel of assign_sm80.cuh.
#include "assign_sm80.cuh"
#include "assign_tile_sm80.cuh"

namespace ladder::certified {
namespace {

__global__ void __launch_bounds__(Tile::block, 1)
    assign_kernel(Fp16Rows x, Fp16Rows c, const PointBound* __restrict__ point,
                  const CentroidBound* __restrict__ centroid, int32_t* __restrict__ label,
                  UndecidedPair* undecided_pairs, RefineCounters* refine_counters, int n, int k, int d) {
  assign_tile(blockIdx.x * Tile::rows, n, Tile::InOrder(), x, c, point, centroid, label, undecided_pairs,
              refine_counters, n, k, d);
}

}  // namespace

void launch_assign_sm80(const AssignSm80& p, cudaStream_t stream) {
  launch(assign_kernel, blocks(p.n, Tile::rows), Tile::block, Tile::bytes, stream, p.x, p.c, p.point, p.centroid,
         p.label, p.undecided_pairs, p.refine_counters, p.n, p.k, p.d);
}

}  // namespace ladder::certified
