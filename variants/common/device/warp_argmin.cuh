// Argmin and argmax over the lanes of a warp or of a group of lanes. All 32 lanes of the warp must call them; every
// lane gets the result.
#pragma once
#include "warp.cuh"

namespace ladder {

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

}  // namespace ladder
