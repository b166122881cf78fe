// Reductions over the lanes of a warp or of a group of lanes: sum, maximum, minimum. All 32 lanes of the warp must call
// them; every lane gets the result.
#pragma once
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "../../../harness/contract/launch.cuh"

namespace ladder {

constexpr int warp_lanes = 32;
constexpr unsigned all_lanes = 0xffffffffu;

/// Reduces over groups of `lanes` neighbouring lanes (4, 8, 16 or 32), by butterfly: for a whole warp, lanes 16 apart
/// are combined first, then 8, 4, 2, 1. The order is fixed and the same in all lanes, so all of them get the same bits.
/// Library: cooperative_groups::reduce for whole warps; own for smaller groups, as a tile of 4 or 16 lanes computes a
/// mask of its own for every shuffle where the mask of all lanes is a constant.
template <int lanes, class T, class Op, bool whole = lanes == warp_lanes>
__device__ T warp_reduce(T value, Op op) {
  namespace cg = cooperative_groups;
  for (int step = whole ? 0 : lanes / 2; step > 0; step /= 2)
    value = op(value, __shfl_xor_sync(all_lanes, value, step));
  return whole ? cg::reduce(cg::tiled_partition<warp_lanes>(cg::this_thread_block()), value, op) : value;
}

template <int lanes = warp_lanes, class T>
__device__ T warp_sum(T value) {
  return warp_reduce<lanes>(value, [](T a, T b) { return a + b; });
}

template <int lanes = warp_lanes, class T>
__device__ T warp_max(T value) {
  return warp_reduce<lanes>(value, [](T a, T b) { return max(a, b); });
}

template <int lanes = warp_lanes, class T>
__device__ T warp_min(T value) {
  return warp_reduce<lanes>(value, [](T a, T b) { return min(a, b); });
}

}  // namespace ladder
