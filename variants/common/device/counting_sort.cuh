// Rows in the order of a number that each has, a counting sort: rows with the same number side by side, in any order
// among themselves. Who goes through neighbours together then meets the same things at the same time.
// v27_projection_filter_sm80 introduces it.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

struct RowOrder {
  int* count = nullptr;  // k: how many rows have each number; 0 before they are counted, and again afterwards
  int* place = nullptr;  // k: where the next one of them goes
  int* row = nullptr;    // n: rows in order
};

/// The same order, to which nothing is put any more.
inline RowOrder standing(const RowOrder& order) { return {nullptr, nullptr, order.row}; }

inline RowOrder allocate_order(Resources& s, int n, int k) {
  return {s.device<int>(k), s.device<int>(k), s.device<int>(n)};
}

/// Counts a row with this number.
__device__ inline void count_row(const RowOrder& order, int number) {
  if (order.count) atomicAdd(&order.count[number], 1);
}

constexpr int places_block = 1024;

/// By one block: where the rows of each number begin, of which there are count[number].
__device__ inline void exclusive_prefix_sum(const int* count, int* place, int k) {
  constexpr unsigned all = 0xffffffffu;
  __shared__ int of_warp[places_block / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = 0;
  for (int first = 0; first < k; first += places_block) {
    const int number = first + int(threadIdx.x);
    const int own = number < k ? count[number] : 0;
    int sum = own;  // of this lane and those below it
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(all, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int lower = 0, whole = of_warp[lane];  // of the warps below this one, of all
    if (lane < warp) lower = whole;
    for (int step = 16; step > 0; step /= 2) {
      lower += __shfl_xor_sync(all, lower, step);
      whole += __shfl_xor_sync(all, whole, step);
    }
    if (number < k) place[number] = before + lower + sum - own;
    before += whole;
    __syncthreads();  // nobody reads the warps' sums any more
  }
}

/// One block, once all rows are counted.
[[maybe_unused]] static __global__ void __launch_bounds__(places_block) prefix_sum_kernel(RowOrder order, int k) {
  exclusive_prefix_sum(order.count, order.place, k);
  for (int number = threadIdx.x; number < k; number += places_block) order.count[number] = 0;  // whom this thread read
}

/// Once there are places, each row is put to one.
__device__ inline void scatter(const RowOrder& order, int row, int number) {
  if (order.place) order.row[atomicAdd(&order.place[number], 1)] = row;
}

}  // namespace ladder
