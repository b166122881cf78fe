// Kernels of sums_ahead.cuh.
//
// for cuda: 90a
#include "sums_ahead.cuh"

namespace ladder {
namespace {

__global__ void count_chunk_kernel(const int32_t* label, RowOrder order, int* count, const Extremes* range,
                                   FixedPoint format, MoveCounters* added, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i == 0) added->points = within(*range, format) ? n : 0;
  const int j = i < n ? label[i] : -1;
  const unsigned same = __match_any_sync(0xffffffffu, j);
  if (j < 0 || __ffs(int(same)) - 1 != int(threadIdx.x % 32)) return;
  atomicAdd(&order.count[j], __popc(same)), atomicAdd(&count[j], __popc(same));
}

__global__ void scatter_chunk_kernel(const int32_t* label, RowOrder order, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  scatter_by_warp(order, int(i), i < n ? label[i] : 0, i < n);
}

__global__ void adopt_kernel(const int32_t* label, int32_t* previous_label, MoveCounters* moves, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) previous_label[i] = label[i];
  if (i == 0) moves->points = n;
}

}  // namespace

void sort_chunk(cudaStream_t stream, const int32_t* label, const RowOrder& order, const IncrementalSums& m,
                MoveCounters* added, int n, int k) {
  launch(count_chunk_kernel, blocks(n, 256), 256, 0, stream, label, order, m.count, m.extremes, m.format, added, n);
  launch(prefix_sum_kernel, 1, prefix_sum_block, 0, stream, order, k);
  launch(scatter_chunk_kernel, blocks(n, 256), 256, 0, stream, label, order, n);
}

void adopt_labels(cudaStream_t stream, const int32_t* label, const IncrementalSums& m, MoveCounters* moves, int n) {
  launch(adopt_kernel, blocks(n, 256), 256, 0, stream, label, m.previous_label, moves, n);
}

}  // namespace ladder
