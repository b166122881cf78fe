// Rows of a list for the products of warpgroups: gathered, so that a warpgroup finds its 64 side by side, as if there
// were no others. v30_filter_wgmma introduces it.
#pragma once
#include "bound_columns.cuh"

namespace ladder {

/// A thread for each fragment of the gathered rows, up to whole tiles of them: it has two rows' share of it. Beyond the
/// list's end, its last row.
[[maybe_unused]] static __global__ void gather_rows_kernel(const uint4* __restrict__ from, RowList list,
                                                           uint4* __restrict__ to, int steps) {
  using Tile = MainloopSm90<128>;
  const int length = *list.length;
  const int64_t padded = (int64_t(length) + Tile::cluster_rows - 1) / Tile::cluster_rows * Tile::cluster_rows;
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
      const uint4 there = from[word / 4];
      share[below][0] = word % 4 == 0 ? there.x : there.y;
      share[below][1] = word % 4 == 0 ? there.z : there.w;
    }
    to[e] = {share[0][0], share[1][0], share[0][1], share[1][1]};
  }
}

// ---- the host's side

struct Gathered {
  WarpgroupData rows;
  int* all = nullptr;  // 1: how many points there are
};

/// `listed`: room for all rows, for there may be a list of them.
template <class T, class W>
void prepare_gathered(Run<T, W>& s, bool listed) {
  auto& own = s.ws.gathered;
  own.all = s.template device<int>(1);
  own.rows = s.ws.warpgroup.rows;
  if (!listed) return;
  const int64_t points = MainloopSm90<128>::padded_rows(s.n);
  own.rows.x = s.template device<uint4>(size_t(points) * own.rows.plan.steps * mma_depth / 8);
}

template <class T, class W>
void upload_gathered(Run<T, W>& s) {
  to_device(s, s.ws.gathered.all, &s.n, 1, "telling how many points there are");
}

/// Labels of the rows list[0 .. *length), and of those that `doubts` knows already.
template <class T, class W>
void assign_gathered(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  const auto& from = s.ws.warpgroup.rows;
  const auto& own = s.ws.gathered;
  launch(gather_rows_kernel, 8 * s.device_info.multiprocessors, 256, 0, s.stream, from.x, RowList{list, length},
         own.rows.x, from.plan.steps);
  multiply_sm90<EpilogueBoundColumns, true>(s, own.rows, {list, length}, refine_counters);
}

/// Labels of all rows, by the same kernel: they lie side by side already.
template <class T, class W>
void assign_all(Run<T, W>& s) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  multiply_sm90<EpilogueBoundColumns, true>(s, s.ws.warpgroup.rows, {nullptr, s.ws.gathered.all}, refine_counters);
}

}  // namespace ladder
