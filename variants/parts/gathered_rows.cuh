// Rows of a list for the products of warpgroups: gathered, so that a warpgroup finds its 64 side by side, as if there
// were no others. v26b_warpgroups introduces it.
#pragma once
#include "bound_columns.cuh"

namespace ladder {

/// A thread for each fragment of the gathered rows, up to whole tiles of them: it has two rows' share of it. Beyond the
/// list's end, its last row.
__global__ void gather_rows_kernel(const uint4* __restrict__ from, RowList list, uint4* __restrict__ to, int steps) {
  using Tile = WarpgroupTile<128>;
  const int length = *list.length;
  const int64_t padded = (int64_t(length) + Tile::cluster_rows - 1) / Tile::cluster_rows * Tile::cluster_rows;
  const int64_t fragments = padded / group_rows * steps * group_threads;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < fragments;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int thread = int(e % group_threads), step = int(e / group_threads % steps);
    const int64_t begin = e / group_threads / steps * group_rows;
    uint32_t share[2][2];  // of the row and the one 8 below, left and right
    for (int below = 0; below < 2; ++below) {
      const int64_t i = begin + held_row(thread, 2 * below);
      const int row = list.rows[min(i, int64_t(length) - 1)];
      const int64_t word = point_place(row, step * (mma_depth / 2) + thread % 4, steps);
      const uint4 there = from[word / 4];
      share[below][0] = word % 4 == 0 ? there.x : there.y;
      share[below][1] = word % 4 == 0 ? there.z : there.w;
    }
    to[e] = {share[0][0], share[1][0], share[0][1], share[1][1]};
  }
}

// ---- the host's side

struct Gathered {
  WarpgroupRows rows;
  int* all = nullptr;  // 1: how many points there are
};

/// `listed`: room for all rows, for there may be a list of them.
template <class T, class Own>
void prepare_gathered(Run<T, Own>& s, bool listed) {
  auto& own = s.own.gathered;
  own.all = s.template device<int>(1);
  own.rows = s.own.warpgroup.rows;
  if (!listed) return;
  const int64_t points = WarpgroupTile<128>::padded_rows(s.n);
  own.rows.x = s.template device<uint4>(size_t(points) * own.rows.plan.steps * mma_depth / 8);
}

template <class T, class Own>
void upload_gathered(Run<T, Own>& s) {
  to_device(s, s.own.gathered.all, &s.n, 1, "telling how many points there are");
}

/// Labels of the rows list[0 .. *length), and of those that `doubts` knows already.
template <class T, class Own>
void assign_gathered(Run<T, Own>& s, const int* list, const int* length, Doubts* doubts) {
  const auto& from = s.own.warpgroup.rows;
  const auto& own = s.own.gathered;
  launch(gather_rows_kernel, 8 * s.device_info.multiprocessors, 256, 0, s.stream, from.x, RowList{list, length},
         own.rows.x, from.plan.steps);
  multiply_in_groups<ByBoundColumns, true>(s, own.rows, {list, length}, doubts);
}

/// Labels of all rows, by the same kernel: they lie side by side already.
template <class T, class Own>
void assign_all(Run<T, Own>& s) {
  Doubts* const doubts = next_doubts(s);
  multiply_in_groups<ByBoundColumns, true>(s, s.own.warpgroup.rows, {nullptr, s.own.gathered.all}, doubts);
}

}  // namespace ladder
