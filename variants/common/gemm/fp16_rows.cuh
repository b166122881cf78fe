// Rows as operands of the tensor cores: halves, each row scaled by the power of two that brings its largest value below
// 2^14 (exact, and undone in the result), padded with zeros to whole tiles. One half keeps 11 bits of a value; a second
// one may hold the next 11 bits. v22_tensor_split introduces it.
#pragma once
#include "../device/warp.cuh"
#include "mma_sm80.cuh"

namespace ladder {

/// `parts` arrays of rows, each row `pitch` times 16 bytes.
struct Fp16Rows {
  uint4* part[2] = {};  // high; low, times 2^11
  int pitch = 0;
};

/// 16 bytes that a row of d features takes: whole steps of a tile.
inline int fp16_pitch(int d) { return blocks(d, tile_depth) * tile_chunks; }

/// Memory for `rows` rows, the first `parts` parts.
inline Fp16Rows allocate_fp16_rows(Resources& s, int parts, int64_t rows, int d) {
  Fp16Rows halves;
  halves.pitch = fp16_pitch(d);
  for (int p = 0; p < parts; ++p) halves.part[p] = s.device<uint4>(size_t(rows) * halves.pitch);
  return halves;
}

/// The rounding error of a row, in the unit of its halves: the exponent of their scale, and squared lengths.
struct QuantizationError {
  int exponent;              // halves are values times 2^exponent
  double whole, kept, lost;  // of the row, of its high halves, and of the difference
};

constexpr int half_top = 13;      // the exponent of a row's largest half: sums of 4096 squares stay below 2^40
constexpr int max_exponent = 70;  // smaller rows keep fewer bits, so that the product of two inverse scales is a float

/// One row to halves, by a warp: `value(f)`, a double, is its feature f; times 2^exponent it is within the range of a
/// half. Features 2 w and 2 w + 1 go to place(part, w), a __half2&; from feature d on, up to word `words`, they are
/// zeros. Every lane gets the rounding error.
template <int parts, class Place, class Value>
__device__ QuantizationError quantize_words(const Place& place, int words, int d, int exponent, const Value& value) {
  const int lane = threadIdx.x % 32;
  const double scale = scalbn(1.0, exponent);
  double whole = 0, kept = 0, lost = 0;
  for (int word = lane; word < words; word += 32) {
    __half high[2], low[2];
    for (int e = 0; e < 2; ++e) {
      const double scaled = 2 * word + e < d ? value(2 * word + e) * scale : 0.0;
      high[e] = __double2half(scaled);
      const double rounded = double(__half2float(high[e])), rest = scaled - rounded;  // exact
      low[e] = __double2half(rest * 0x1p11);
      whole += scaled * scaled, kept += rounded * rounded, lost += rest * rest;
    }
    place(0, word) = __halves2half2(high[0], high[1]);
    if constexpr (parts == 2) place(1, word) = __halves2half2(low[0], low[1]);
  }
  return {exponent, warp_sum(whole), warp_sum(kept), warp_sum(lost)};
}

/// The same, with the exponent that brings the row's largest value to half_top.
template <int parts, class Place, class Value>
__device__ QuantizationError quantize_words(const Place& place, int words, int d, const Value& value) {
  double largest = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) largest = max(largest, fabs(value(f)));
  largest = warp_max(largest);
  const int exponent = largest > 0 ? min(half_top - ilogb(largest), max_exponent) : max_exponent;
  return quantize_words<parts>(place, words, d, exponent, value);
}

/// The same, to row `row` of whole rows.
template <int parts, class Value>
__device__ QuantizationError quantize_row(const Fp16Rows& to, int64_t row, int d, const Value& value) {
  const auto place = [&](int part, int word) -> __half2& {
    return reinterpret_cast<__half2*>(to.part[part] + row * to.pitch)[word];
  };
  return quantize_words<parts>(place, to.pitch * 4, d, value);
}

}  // namespace ladder
