// The assignment of bound_columns.cuh for a list of rows, whose operands are gathered so that they lie side by side.
// The kernel is in gathered_rows.cu. v35_short_rows introduces it.
#pragma once
#include "../certified/bound_columns.cuh"

namespace ladder {

/// Copies the fragments of the rows in the list to the front of `to`, so that warpgroups find their 64 rows side by
/// side. The last work tile is padded with the list's last row.
void gather_rows(const uint4* from, const RowList& list, uint4* to, int steps, int grid, cudaStream_t stream);

/// `listed`: memory for a list of up to n rows.
template <class T, class W>
void prepare_gathered(Run<T, W>& s, bool listed) {
  auto& gathered = s.ws.gathered = s.ws.warpgroup.rows;
  if (listed) gathered.x = s.template device<uint4>(size_t(padded_points(s.n)) * gathered.shape.steps * mma_depth / 8);
}

/// Labels of the rows list[0 .. *length), and of those that refine_counters counts already.
template <class T, class W>
void assign_gathered(Run<T, W>& s, const int* list, const int* length, RefineCounters* refine_counters) {
  const auto& from = s.ws.warpgroup.rows;
  const auto& gathered = s.ws.gathered;
  gather_rows(from.x, {list, length}, gathered.x, from.shape.steps, 8 * s.device_info.multiprocessors, s.stream);
  multiply_sm90(s, gathered, {list, length}, refine_counters);
}

}  // namespace ladder
