// Exact sums: values as whole numbers, which add up to the same bits in any order. v32_reproducible_sums introduces
// it.
//
// A finite value is m 2^e, m and e whole. Let 2^low be the least bit that is set in any value of a data set, and 2^high
// above them all: then each value is X 2^low with a whole X, |X| < 2^(high - low). X is written with digits of `bits`
// binary digits each, X = sum over w of X_w 2^(w bits), all with the sign of X, |X_w| <= 2^bits - 1; and word w of a
// sum, 64 bits, adds up the X_w. Nothing is rounded.
//
// No overflow: a sum is over at most n points, and bits <= 63 - ceil(log2 n), so n 2^bits <= 2^63 and each word ends
// within n (2^bits - 1) < 2^63. Words count modulo 2^64, so that nothing can be lost on the way there, whatever the
// order in which points come and go. Points that are summed elsewhere first (segmented.cuh) bring other words of the
// same sum; docs/certificate.md shows that there is room for these, too.
#pragma once
#include <bit>
#include <cmath>
#include <cstdio>

#include "../device/warp.cuh"
#include "../lloyd/phases.cuh"

namespace ladder {

struct FixedPoint {
  static constexpr int most_words = 3;  // with 300 000 points 132 binary digits; a float has 24, a double 53
  int low = 0, bits = 62, words = 1;
  int high = 1;
  double unit = 1;  ///< 2^low
  /// For the sums of at most n values, all of them multiples of 2^low and below 2^high. Needs high > low.
  static FixedPoint of(int n, int low, int high) {
    const int bits = std::min(62, 63 - int(std::bit_width(unsigned(n) - 1)));
    return {low, bits, (high - low - 1) / bits + 1, high, std::ldexp(1.0, low)};
  }
};

/// 2^exponent, where that is a normal double; scalbn() has to ask.
__device__ inline double power_of_two(int exponent) {
  return __longlong_as_double(static_cast<long long>(1023 + exponent) << 52);
}

/// A finite value as mantissa x 2^exponent.
struct Parts {
  unsigned long long mantissa;
  int exponent;
  bool negative;
  __device__ explicit Parts(double x) {
    const auto word = static_cast<unsigned long long>(__double_as_longlong(x));
    const int stored = int(word >> 52) & 2047;
    mantissa = (word & ((1ull << 52) - 1)) | (stored > 0 ? 1ull << 52 : 0);
    exponent = max(stored, 1) - 1075;
    negative = word >> 63;
  }
  /// The exponent of the lowest set bit, and of the bit above the highest; not for 0.
  __device__ int low() const { return exponent + __ffsll(static_cast<long long>(mantissa)) - 1; }
  __device__ int high() const { return exponent + 64 - __clzll(static_cast<long long>(mantissa)); }
};

/// Calls add(w, X_w) for each digit of x that is not 0; two of a float, three of a double at most.
template <class Add>
__device__ void for_digits(double x, const FixedPoint& format, Add add) {
  const Parts parts(x);
  if (parts.mantissa == 0) return;
  const unsigned long long all = (1ull << format.bits) - 1;
  const auto signed_digit = [&](unsigned long long digit) {
    return parts.negative ? -static_cast<long long>(digit) : static_cast<long long>(digit);
  };
  const int place = max(parts.exponent - format.low, 0);
  const unsigned long long m = parts.mantissa >> max(format.low - parts.exponent, 0);  // zeros: x is a multiple
  int w = place / format.bits;
  const int shift = place % format.bits;
  if (const unsigned long long digit = m << shift & all) add(w, signed_digit(digit));
  for (unsigned long long rest = m >> (format.bits - shift); rest != 0; rest >>= format.bits) {
    ++w;
    if (const unsigned long long digit = rest & all) add(w, signed_digit(digit));
  }
}

/// Moves feature f of a point, `value`, from the sums (words x k x d) of cluster `from` to those of `to`; from < 0: no
/// sums hold it.
__device__ inline void move_feature(unsigned long long* sum, const FixedPoint& format, double value, int f, int from,
                                    int to, int k, int d) {
  for_digits(value, format, [&](int w, long long digit) {
    unsigned long long* const word = sum + size_t(w) * k * d + f;
    if (from >= 0) atomicAdd(word + size_t(from) * d, static_cast<unsigned long long>(-digit));
    atomicAdd(word + size_t(to) * d, static_cast<unsigned long long>(digit));
  });
}

/// The words of a sum, sum[w * pitch], in registers.
struct SumWords {
  unsigned long long of[FixedPoint::most_words] = {};
  SumWords() = default;
  __device__ SumWords(const unsigned long long* sum, size_t pitch, const FixedPoint& format) {
#pragma unroll  // a dynamically indexed array would go to local memory; as below
    for (int w = 0; w < FixedPoint::most_words; ++w)
      if (w < format.words) of[w] = sum[w * pitch];
  }
};

/// The mean of `count` > 0 values whose sum is this: a function of the sum and the count, whatever the unit and the
/// words' width. The sum is rounded once, the quotient once, and T rounds. The sum may be far below its words where
/// these cancel, so carries are settled before anything is rounded: a word and the carry of the one below stay within
/// n 2^bits, as -n <= carry < n. Then the leading 64 bits are gathered from the top, and the last of them is set where
/// a lower one is, so that the conversion to double rounds the whole sum. To multiply by a power of two is exact, and
/// by 2^low exact or rounded once.
template <class T>
__device__ T mean_of(const SumWords& sum, int count, const FixedPoint& format) {
  long long digit[FixedPoint::most_words] = {}, carry_word = 0;
  const long long all = (1ll << format.bits) - 1;
  const auto settle = [&](bool turned) {
    carry_word = 0;
#pragma unroll
    for (int w = 0; w < FixedPoint::most_words; ++w) {
      if (w >= format.words) continue;
      const unsigned long long word = turned ? 0 - sum.of[w] : sum.of[w];
      const auto digits = static_cast<long long>(word + static_cast<unsigned long long>(carry_word));
      digit[w] = digits & all;
      carry_word = digits >> format.bits;  // rounds down
    }
  };
  settle(false);
  const bool negative = carry_word < 0;
  settle(negative);
  auto leading = static_cast<unsigned long long>(carry_word), lower = 0ull;
  int exponent = 0;  // of the last leading bit
#pragma unroll
  for (int w = FixedPoint::most_words - 1; w >= 0; --w) {
    if (w >= format.words) continue;
    const int room = min(__clzll(static_cast<long long>(leading)), format.bits), cut = format.bits - room;
    const auto bits = static_cast<unsigned long long>(digit[w]);
    leading = leading << room | bits >> cut;
    lower |= bits & ((1ull << cut) - 1);
    exponent += cut;
  }
  const double value = double(leading | (lower != 0));
  // value / count, to the last bit, of which all sums of a cluster share the one division. The remainder is
  // exact, below 2^32 units of the quotient's last place; and no quotient by a whole number below 2^31 is nearer than
  // 2^-85 of itself to where rounding turns.
  const double share = 1.0 / count, quotient = value * share;
  const double mean =
      __fma_rn(__fma_rn(-quotient, count, value), share, quotient) * power_of_two(exponent) * format.unit;
  return T(negative ? -mean : mean);
}

// ---- the range of a data set

/// Each an exponent (plus 2048, times 2^52) and the index of a value that has it.
struct Extremes {
  unsigned long long low = ~0ull, high = 0;
  unsigned long long not_finite = ~0ull;  ///< the index of the first infinite or NaN value; ~0: none
  static constexpr int shift = 52, bias = 2048;
  __host__ __device__ static unsigned long long pack(int exponent, int64_t at) {
    return static_cast<unsigned long long>(exponent + bias) << shift | static_cast<unsigned long long>(at);
  }
  __host__ __device__ static int exponent(unsigned long long packed) { return int(packed >> shift) - bias; }
  static int64_t place(unsigned long long packed) { return int64_t(packed & ((1ull << shift) - 1)); }
};

/// Of the values x[begin .. end).
template <class T>
__global__ void extremes_kernel(const T* x, Extremes* extremes, int64_t begin, int64_t end) {
  Extremes range;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = begin + blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < end; e += threads) {
    const double value = double(x[e]);
    if (value - value != 0) {
      range.not_finite = min(range.not_finite, static_cast<unsigned long long>(e));
    } else if (value != 0) {
      const Parts parts(value);
      range.low = min(range.low, Extremes::pack(parts.low(), e)),
      range.high = max(range.high, Extremes::pack(parts.high(), e));
    }
  }
  range.low = warp_min(range.low), range.high = warp_max(range.high);
  range.not_finite = warp_min(range.not_finite);
  if (threadIdx.x % 32 > 0) return;
  atomicMin(&extremes->low, range.low);
  atomicMax(&extremes->high, range.high);
  atomicMin(&extremes->not_finite, range.not_finite);
}

/// The format for the sums of these points (n x d, on the host). Throws Refusal, naming row, column and value, where
/// one is not finite, or the least and the largest are too far apart.
template <class T>
FixedPoint fixed_point(const Extremes& extremes, const T* points, int n, int d) {
  char text[320];
  const auto row = [d](int64_t place) { return static_cast<long long>(place / d); };
  const auto column = [d](int64_t place) { return static_cast<long long>(place % d); };
  if (extremes.not_finite != ~0ull) {
    const auto at = int64_t(extremes.not_finite);
    std::snprintf(text, sizeof text,
                  "row %lld, column %lld holds %g: exact sums need finite values; leave the row out, or give it one",
                  row(at), column(at), double(points[at]));
    throw Refusal(text);
  }
  if (extremes.high == 0) return {};  // nothing but zeros
  const int low = Extremes::exponent(extremes.low), high = Extremes::exponent(extremes.high);
  const FixedPoint format = FixedPoint::of(n, low, high);
  if (format.words <= FixedPoint::most_words) return format;
  const int64_t small = Extremes::place(extremes.low), large = Extremes::place(extremes.high);
  std::snprintf(text, sizeof text,
                "row %lld, column %lld holds %.9g and row %lld, column %lld %.9g: exact sums of these take %d binary "
                "digits, for %d points there are %d; make such small values 0, or scale the columns alike",
                row(small), column(small), double(points[small]), row(large), column(large), double(points[large]),
                high - low, n, FixedPoint::most_words * format.bits);
  throw Refusal(text);
}

}  // namespace ladder
