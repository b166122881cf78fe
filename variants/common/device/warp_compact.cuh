// Prefix sums over the lanes of a warp, and stream compaction, which needs one. All 32 lanes of the warp must call
// them.
#pragma once
#include "warp.cuh"

namespace ladder {

/// Inclusive prefix sum over the lanes of a warp.
/// Library: cooperative_groups::inclusive_scan does this; own because the CPU device has no cooperative_groups/scan.h.
template <class T>
__device__ T warp_prefix_sum(T value) {
  const int lane = threadIdx.x % warp_lanes;
  for (int step = 1; step < warp_lanes; step *= 2) {
    const T lower = __shfl_up_sync(all_lanes, value, step);
    if (lane >= step) value += lower;
  }
  return value;
}

/// The number of lanes below this one in a ballot: an exclusive prefix sum of its bits.
__device__ inline int lanes_below(unsigned ballot) { return __popc(ballot & ((1u << (threadIdx.x % warp_lanes)) - 1)); }

/// Stream compaction: reserves a position in a list for every lane that keeps something, by one atomic addition to its
/// `count`. Returns the lane's position; it is valid only in lanes that keep something.
/// Library: cooperative_groups::coalesced_threads does this with match; own because the CPU device has no coalesced
/// groups.
template <class Count>
__device__ Count warp_compact(Count* count, bool keep) {
  const unsigned ballot = __ballot_sync(all_lanes, keep);
  Count first = 0;
  if (threadIdx.x % warp_lanes == 0 && ballot != 0) first = atomicAdd(count, Count(__popc(ballot)));
  return __shfl_sync(all_lanes, first, 0) + lanes_below(ballot);
}

}  // namespace ladder
