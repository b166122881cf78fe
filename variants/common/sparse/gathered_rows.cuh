// The changed rows of a slice, shared out among all lanes of a warp. v04k_gathered_changes introduces it.
#pragma once
#include "../device/warp_compact.cuh"
#include "whole_sums.cuh"

namespace ladder {

/// Calls add(to, from, column, value) for all entries of the rows of a slice that `moved` from one cluster to another.
/// By the whole warp; `lanes`: 32 bytes of shared memory of its own.
template <class T, class Column, class Add>
__device__ void move_rows(const Slices<T, Column, pair>& rows, int slice, bool moved, int to, int from, uint8_t* lanes,
                          Add add) {
  const unsigned ballot = __ballot_sync(all_lanes, moved);
  if (ballot == 0) return;
  const int lane = threadIdx.x % warp_lanes, count = __popc(ballot);
  const int log = __clz(count - 1) - 27, number = lane >> log;  // 2^log lanes for each row
  if (moved) lanes[lanes_below(ballot)] = uint8_t(lane);
  __syncwarp();
  const int row = number < count ? lanes[number] : 0;  // of the slice
  to = __shfl_sync(all_lanes, to, row), from = __shfl_sync(all_lanes, from, row);
  if (number >= count) return;
  const T* const values = rows.value + rows.begin[slice] + row * pair;
  const Column* const columns = rows.column + rows.begin[slice] + row * pair;
  const int width = int(rows.begin[slice + 1] - rows.begin[slice]) / warp_lanes;
  const int step = 1 << log;
#pragma unroll 1
  for (int e = lane & (step - 1); e < width; e += step) {
    const int at = e / pair * (pair * warp_lanes) + e % pair;
    add(to, from, columns[at], values[at]);
  }
}

}  // namespace ladder
