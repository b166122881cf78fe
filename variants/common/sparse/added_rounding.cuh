// Rounding by an addition, without a conversion. v04m_added_rounding introduces it.
#pragma once
#include <bit>

#include "whole_sums.cuh"

namespace ladder {

/// A whole number: x, |x| at most 2^22, rounded to the nearest (a double: at most 2^31).
template <class T>
struct Whole {
  static constexpr T shift = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
  T shifted;
  __device__ explicit Whole(T x) : shifted(x + shift) {}
  __device__ T value() const { return shifted - shift; }
  __device__ int bits() const {
    if constexpr (sizeof(T) == 4)
      return __float_as_int(shifted) - 0x4b400000;  // the bits of `shift`
    else
      return int(std::bit_cast<long long>(shifted));
  }
};

}  // namespace ladder
