// Warp primitives, each written once: sum, maximum, minimum, argmin and argmax over the lanes of a warp or of a group
// of lanes, compaction, and a hash. All 32 lanes of the warp must call them; every lane gets the result. norms.cuh is
// the first to use them.
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
template <int lanes, class T, class Op>
__device__ T warp_reduce(T value, Op op) {
  namespace cg = cooperative_groups;
  if constexpr (lanes == warp_lanes) {
    return cg::reduce(cg::tiled_partition<warp_lanes>(cg::this_thread_block()), value, op);
  } else {
    for (int step = lanes / 2; step > 0; step /= 2) value = op(value, __shfl_xor_sync(all_lanes, value, step));
    return value;
  }
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

/// Argmin over groups of lanes: `value` becomes the minimum and `index` its index, the lowest one on a tie. A group is
/// `lanes` neighbouring lanes; with `step` above 1, every step-th of them (lanes that are equal modulo `step`).
/// Library: cub::WarpReduce with cub::ArgMin does this for whole warps; own because the CPU device has no CUB.
template <int lanes = warp_lanes, int step = 1, class T>
__device__ void warp_argmin(T& value, int& index) {
#pragma unroll
  for (int lane_bit = lanes / 2; lane_bit >= step; lane_bit /= 2) {
    const T other_value = __shfl_xor_sync(all_lanes, value, lane_bit);
    const int other_index = __shfl_xor_sync(all_lanes, index, lane_bit);
    if (other_value < value || (other_value == value && other_index < index)) value = other_value, index = other_index;
  }
}

/// Argmax over the same groups; the lowest index on a tie.
template <int lanes = warp_lanes, int step = 1, class T>
__device__ void warp_argmax(T& value, int& index) {
#pragma unroll
  for (int lane_bit = lanes / 2; lane_bit >= step; lane_bit /= 2) {
    const T other_value = __shfl_xor_sync(all_lanes, value, lane_bit);
    const int other_index = __shfl_xor_sync(all_lanes, index, lane_bit);
    if (other_value > value || (other_value == value && other_index < index)) value = other_value, index = other_index;
  }
}

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

/// A 32-bit hash: two rounds of xor-shift and multiply. Source: C. Wellons, hash-prospector (lowbias32), 2018.
__host__ __device__ inline uint32_t hash32(uint32_t h) {
  for (int round = 0; round < 2; ++round) h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu;
  return h;
}

}  // namespace ladder
