// Kernels of cluster_order.cuh.
#include "cluster_order.cuh"

namespace ladder {
namespace {

/// One block: decides whether this update sorts; if so, the offset of each cluster.
__global__ void __launch_bounds__(prefix_sum_block)
    cluster_offsets_kernel(RowOrder order, const int* count, SortState state, const MoveCounters* moves, int share,
                           int n, int k) {
  __shared__ bool sort;
  if (threadIdx.x == 0) {
    const unsigned long long moved = state.device->moved + moves->points;
    sort = moves_are_many(moves->points, n, share) || state.resort_share * moved >= unsigned(n);
    *state.device = {sort ? 0 : moved, sort};
  }
  __syncthreads();
  if (sort) exclusive_prefix_sum(count, order.offset, k);
}

__global__ void scatter_labels_kernel(const int32_t* label, RowOrder order, SortState state, int n) {
  if (!state.device->sort) return;
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  scatter_by_warp(order, int(i), i < n ? label[i] : 0, i < n);
}

}  // namespace

void sort_by_cluster(cudaStream_t stream, const int32_t* label, const RowOrder& order, const int* count,
                     const SortState& state, const MoveCounters* moves, int full_update_share, int n, int k) {
  launch(cluster_offsets_kernel, 1, prefix_sum_block, 0, stream, order, count, state, moves, full_update_share, n, k);
  launch(scatter_labels_kernel, blocks(n, 256), 256, 0, stream, label, order, state, n);
}

}  // namespace ladder
