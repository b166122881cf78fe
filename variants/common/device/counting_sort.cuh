// Counting sort of row numbers by a small integer key (here: a cluster): count, exclusive prefix sum, scatter. Rows
// with the same key end up side by side, in any order among themselves. v34_cluster_order introduces it.
#pragma once
#include "../lloyd/phases.cuh"
#include "warp_compact.cuh"

namespace ladder {

struct RowOrder {
  int* count = nullptr;   // k: rows with each key; 0 before they are counted, and again after the prefix sum
  int* offset = nullptr;  // k: where the next row with this key goes
  int* row = nullptr;     // n: rows in order
};

/// The same order for readers: kernels that count or scatter skip it.
inline RowOrder read_only(const RowOrder& order) { return {nullptr, nullptr, order.row}; }

inline RowOrder allocate_order(Resources& s, int n, int k) {
  return {s.device<int>(k), s.device<int>(k), s.device<int>(n)};
}

/// Counts a row with this key.
__device__ inline void count_row(const RowOrder& order, int key) {
  if (order.count) atomicAdd(&order.count[key], 1);
}

constexpr int prefix_sum_block = 1024;

/// offset[j] = count[0] + .. + count[j - 1], by one block of prefix_sum_block threads.
/// library: cub::BlockScan does this; own because the CPU device runs it.
__device__ inline void exclusive_prefix_sum(const int* count, int* offset, int k) {
  __shared__ int warp_total[prefix_sum_block / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = 0;  // the sum of all earlier tiles
  for (int first = 0; first < k; first += prefix_sum_block) {
    const int key = first + int(threadIdx.x);
    const int value = key < k ? count[key] : 0;
    const int sum = warp_prefix_sum(value);
    if (lane == 31) warp_total[warp] = sum;
    __syncthreads();
    const int total = warp_total[lane];
    const int lower = warp_sum(lane < warp ? total : 0);  // of the lower warps
    if (key < k) offset[key] = before + lower + sum - value;
    before += warp_sum(total);
    __syncthreads();  // the next tile overwrites warp_total
  }
}

/// One block, after all rows are counted. Clears the counts.
[[maybe_unused]] static __global__ void __launch_bounds__(prefix_sum_block) prefix_sum_kernel(RowOrder order, int k) {
  exclusive_prefix_sum(order.count, order.offset, k);
  for (int key = threadIdx.x; key < k; key += prefix_sum_block) order.count[key] = 0;  // read by this very thread
}

/// Puts a row to the next free place of its key, after the prefix sum.
__device__ inline void scatter(const RowOrder& order, int row, int key) {
  if (order.offset) order.row[atomicAdd(&order.offset[key], 1)] = row;
}

/// The same by a whole warp, for lanes that are `active`: one atomic for all lanes with the same key.
__device__ inline void scatter_by_warp(const RowOrder& order, int row, int key, bool active) {
  const unsigned same = __match_any_sync(0xffffffffu, active ? key : -1);
  const int lane = threadIdx.x % 32, leader = __ffs(int(same)) - 1;
  int index = 0;
  if (active && lane == leader) index = atomicAdd(&order.offset[key], __popc(same));
  index = __shfl_sync(0xffffffffu, index, leader) + __popc(same & ((1u << lane) - 1));
  if (active) order.row[index] = row;
}

}  // namespace ladder
