// Where the entries of a slice lie. v04o_whole_slice introduces it.
#pragma once
#include "whole_sums.cuh"

namespace ladder {

/// Where a slice begins and ends, in entries. Behind the last slice: no entries.
struct Place {
  int slice;
  int64_t begin = 0, end = 0;
  __device__ Place(const int64_t* begins, int slice, int slices) : slice(slice) {
    if (slice < slices) begin = begins[slice], end = begins[slice + 1];
  }
  __device__ int width() const { return int(end - begin) / (pair * warp_lanes); }  ///< of its rows, in pairs
};

/// The columns of a pair, loaded as one number.
template <class Column>
struct Columns {
  using Both = std::conditional_t<sizeof(Column) == 1, uint16_t, uint32_t>;
  Both both;
  __device__ unsigned of(int p) const { return p == 0 ? Column(both) : both >> (8 * sizeof(Column)); }
};

}  // namespace ladder
