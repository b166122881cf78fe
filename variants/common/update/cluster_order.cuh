// The points sorted by their label: a counting sort on the device, after the counts of an update are known.
// v26_cluster_order introduces it; later rungs read points in this order.
#pragma once
#include "../device/counting_sort.cuh"
#include "incremental.cuh"

namespace ladder {

/// Whether the order of the points is still good enough. It holds each point once, always; points that moved since it
/// was made stand outside their cluster's range, which makes runs of equal labels shorter, and nothing wrong.
struct SortState {
  static constexpr int after_any_move = std::numeric_limits<int>::max();
  /// Sort again as soon as one point in this many has moved; 0: only before a full re-sum.
  int resort_share = 0;
  struct Device {
    unsigned long long moved;  ///< moves since the last sort
    int sort;                  ///< this update sorts
  }* device = nullptr;         // 1
};

struct ClusterOrder {
  RowOrder rows;
  SortState sort;
};

template <class T, class W>
void prepare_order(Run<T, W>& s, int resort_share) {
  s.ws.order = {allocate_order(s, s.n, s.k), {resort_share, s.template device<SortState::Device>(1)}};
}

template <class T, class W>
void restart_order(Run<T, W>& s) {
  const auto& sort = s.ws.order.sort;
  check(cudaMemsetAsync(sort.device, 0, sizeof *sort.device, s.stream), "clearing the state of the order");
}

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

/// Sorts the points by their label where `sort` wants it; after list_moved().
template <class T, class W>
void sort_by_cluster(Run<T, W>& s, const SortState& sort, const MoveCounters* moves) {
  const auto& order = s.ws.order.rows;
  const auto& m = s.ws.incremental;
  launch(cluster_offsets_kernel, 1, prefix_sum_block, 0, s.stream, order, m.count, sort, moves, m.full_update_share,
         s.n, s.k);
  launch(scatter_labels_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, order, sort, s.n);
}
template <class T, class W>
void sort_by_cluster(Run<T, W>& s, const MoveCounters* moves) {
  sort_by_cluster(s, s.ws.order.sort, moves);
}

}  // namespace ladder
