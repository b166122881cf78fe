// The kernel of gathered_rows.cuh.
#include "gathered_rows.cuh"

namespace ladder {
namespace {

/// A thread per fragment of the gathered rows, padded to whole work tiles: each has a part of two rows.
__global__ void gather_rows_kernel(const uint4* __restrict__ from, RowList list, uint4* __restrict__ to, int steps) {
  const int length = *list.length;
  const int64_t padded = (int64_t(length) + padded_group - 1) / padded_group * padded_group;
  const int64_t fragments = padded / warpgroup_rows * steps * warpgroup_threads;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < fragments;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int thread = int(e % warpgroup_threads), step = int(e / warpgroup_threads % steps);
    const int64_t begin = e / warpgroup_threads / steps * warpgroup_rows;
    uint32_t share[2][2];  // of the row and the one 8 below, left and right
    for (int below = 0; below < 2; ++below) {
      const int64_t i = begin + accumulator_row(thread, 2 * below);
      const int row = list.rows[min(i, int64_t(length) - 1)];
      const int64_t word = a_fragment_offset(row, step * (mma_depth / 2) + thread % 4, steps);
      const uint4 words = from[word / 4];
      share[below][0] = word % 4 == 0 ? words.x : words.y;
      share[below][1] = word % 4 == 0 ? words.z : words.w;
    }
    to[e] = {share[0][0], share[1][0], share[0][1], share[1][1]};
  }
}

}  // namespace

void gather_rows(const uint4* from, const RowList& list, uint4* to, int steps, int grid, cudaStream_t stream) {
  launch(gather_rows_kernel, grid, 256, 0, stream, from, list, to, steps);
}

}  // namespace ladder
