// The points sorted by their label: a counting sort on the device, after the counts of an update are known.
// v34_cluster_order introduces it; later rungs read points in this order.
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
  check(cudaMemsetAsync(s.ws.order.rows.count, 0, s.k * sizeof(int), s.stream), "clearing the counts of guesses");
}

/// Launcher (cluster_order.cu): sorts n points by their label where `state` wants it. `count`: points of each cluster.
void sort_by_cluster(cudaStream_t stream, const int32_t* label, const RowOrder& order, const int* count,
                     const SortState& state, const MoveCounters* moves, int full_update_share, int n, int k);

/// Sorts the points by their label where `sort` wants it; after list_moved().
template <class T, class W>
void sort_by_cluster(Run<T, W>& s, const SortState& sort, const MoveCounters* moves) {
  const auto& m = s.ws.sums;
  sort_by_cluster(s.stream, s.label, s.ws.order.rows, m.count, sort, moves, m.full_update_share, s.n, s.k);
}
template <class T, class W>
void sort_by_cluster(Run<T, W>& s, const MoveCounters* moves) {
  sort_by_cluster(s, s.ws.order.sort, moves);
}

}  // namespace ladder
