// One unit for the halves of all rows, in which no point is longer than 4096: bound_columns.cuh and
// filter/short_rows.cuh put terms of their bounds into columns of the rows, which needs a common unit.
// v31_bound_columns introduces it.
#pragma once
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

namespace ladder {

constexpr int longest = 12;                   // the exponent of the largest length of a point
constexpr double far_length = 4 * 0x1p12;     // centroids from this length on get no coordinates
constexpr double far_score = -3.75 * 0x1p24;  // theirs is below -4 * 2^24

/// The exponent of the unit of a row of d features, beside that of the frame: coordinates below 1 make lengths below
/// sqrt(d).
__host__ __device__ inline int short_exponent(int d) {
  const int bits = std::bit_width(unsigned(d) - 1);
  return longest - (bits + 1) / 2;  // 4^((bits + 1) / 2) >= d
}

/// The smallest half that is not below `value`.
__host__ __device__ inline __half half_up(double value) {
  const __half near = __double2half(value);
  const int next = value < 0 ? -1 : 1;  // of the bits: a sign, and behind it a size
  return double(__half2float(near)) < value ? __ushort_as_half((unsigned short)(__half_as_ushort(near) + next)) : near;
}

}  // namespace ladder
