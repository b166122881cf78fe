// What becomes of rows whose candidates are found, by whole warps. v41_filter_wgmma introduces it.
#pragma once
#include "../device/warp_compact.cuh"
#include "filter.cuh"

namespace ladder {

/// FilterLists::finish_row() by a whole warp, for the row i of each active lane, with an atomic for all of them.
__device__ inline void finish_rows(const FilterLists& lists, bool active, int i, int guess, int count) {
  FilterCounters* const counters = lists.counters;
  const bool has_candidates = active && count > 0 && count <= most_candidates;
  const bool overflows = active && count > most_candidates;
  if (active && count == 0) lists.label[i] = guess;
  if (__any_sync(all_lanes, has_candidates)) {
    const int place = warp_compact(&counters->candidate_rows, has_candidates);
    const int all = __reduce_add_sync(all_lanes, has_candidates ? count : 0);
    if (threadIdx.x % warp_lanes == 0) atomicAdd(&counters->candidates, all);
    if (has_candidates) lists.candidate_rows[place] = i, lists.candidates.found[i] = count;
  }
  if (__any_sync(all_lanes, overflows)) {
    const int place = warp_compact(&counters->overflow, overflows);
    if (overflows) lists.overflow[place] = i;
  }
}

}  // namespace ladder
