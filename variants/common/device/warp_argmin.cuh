// Argmin and argmax over the lanes of a warp or of a group of lanes; sums and extremes of integers over a warp. All 32
// lanes of the warp must call them; every lane gets the result.
#pragma once
#include "warp.cuh"

namespace ladder {

/// Sum, maximum and minimum of 32-bit integers over a whole warp: one instruction each, which compute capability 8.0
/// introduced; before it, shuffles, whose result is the same.
template <class T>
__device__ T warp_add(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_sum(value);
#else
  return __reduce_add_sync(all_lanes, value);
#endif
}

template <class T>
__device__ T warp_greatest(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_max(value);
#else
  return __reduce_max_sync(all_lanes, value);
#endif
}

template <class T>
__device__ T warp_least(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_min(value);
#else
  return __reduce_min_sync(all_lanes, value);
#endif
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

}  // namespace ladder
