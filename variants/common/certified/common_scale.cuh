// One unit for the halves of all rows, in which no point is longer than 4096: then what a bound takes of a point and of
// a centroid can be columns of their rows. bound_columns.cuh and projected.cuh have such columns; docs/certificate.md
// has the proofs. v24_branch_free_argmax introduces it.
#pragma once
#include <bit>

#include "../gemm/fp16_rows.cuh"

namespace ladder {

constexpr int longest = 12;                   // the exponent of the greatest length of a point
constexpr double far_length = 4 * 0x1p12;     // centroids from here on get no coordinates
constexpr double far_score = -3.75 * 0x1p24;  // theirs is below -4 * 2^24

/// The exponent of the unit of a short row, beside that of the view: coordinates below 1 make lengths below sqrt(d).
__host__ __device__ inline int short_exponent(int d) {
  const int bits = std::bit_width(unsigned(d) - 1);
  return longest - (bits + 1) / 2;  // 4^((bits + 1) / 2) >= d
}

/// The least half that is not below a number.
__host__ __device__ inline __half half_up(double value) {
  const __half near = __double2half(value);
  const int next = value < 0 ? -1 : 1;  // of the bits: a sign, and behind it a size
  return double(__half2float(near)) < value ? __ushort_as_half((unsigned short)(__half_as_ushort(near) + next)) : near;
}

}  // namespace ladder
