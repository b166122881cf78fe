// CUDA's half-precision numbers: 1 sign, 5 exponent and 10 fraction bits, subnormals included. Each operation rounds
// once, to nearest with ties to even, as a GPU's does. Stored and converted bit by bit, so that any C++ compiler will
// do; to float by the processor's instruction where it has one.
#pragma once
#include <math.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "vector_types.h"

#ifdef __SANITIZE_THREAD__
extern "C" unsigned short simt_bits_of_half(double value) __attribute__((const));  // in libsimt
#endif

struct __half;
inline __half __double2half(double value);
inline float __half2float(__half value);

struct __half_raw {
  unsigned short x;
};

struct __half {
  __half() = default;
  constexpr __half(__half_raw raw) : bits(raw.x) {}
  template <class T>
  requires std::is_arithmetic_v<T> __half(T value) : bits(__double2half(double(value)).bits) {}
  operator float() const { return __half2float(*this); }

  unsigned short bits;
};
using half = __half;

/// Copied as one word of 4 bytes, as CUDA's is: one load, one store.
struct alignas(4) __half2 {
  __half2() = default;
  constexpr __half2(__half low, __half high) : x(low), y(high) {}
  __half2(const __half2& other) { *this = other; }
  __half2& operator=(const __half2& other) {
    *reinterpret_cast<unsigned*>(this) = *reinterpret_cast<const unsigned*>(&other);
    return *this;
  }

  __half x, y;
};
using half2 = __half2;

inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }

// -------------------------------------------------------------------------------------------------------- conversions
inline __half __double2half(double value) {
#ifdef __SANITIZE_THREAD__
  return __ushort_as_half(simt_bits_of_half(value));  // one instruction on a GPU: its steps are not to be counted
#endif
  const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
  const double magnitude = fabs(value);
  if (magnitude != magnitude) return __ushort_as_half(0x7fff);
  if (magnitude >= 65520) return __ushort_as_half((unsigned short)(sign | 0x7c00u));  // nearer to 65536 than to 65504
  // Neighbouring halves differ by 2^-10 of their power of two, but by 2^-24 at the least. In such units a half is a
  // whole number, and its bits are that number, counted from where its power of two begins.
  const int exponent = magnitude > 0 ? std::max(ilogb(magnitude), -14) : -14;
  const unsigned units = unsigned(nearbyint(ldexp(magnitude, 10 - exponent)));
  return __ushort_as_half((unsigned short)(sign | ((unsigned(exponent + 14) << 10) + units)));
}
inline __half __float2half_rn(float value) { return __double2half(double(value)); }
inline __half __float2half(float value) { return __double2half(double(value)); }
inline __half __int2half_rn(int value) { return __double2half(double(value)); }

inline float __half2float(__half value) {
#ifdef __F16C__
  using Vector [[gnu::vector_size(16)]] = short;
  return __builtin_ia32_vcvtph2ps(Vector{short(value.bits)})[0];  // one instruction, as on a GPU
#endif
  const unsigned sign = unsigned(value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The factor makes up for the biases of both exponents, in subnormals too.
  const float shifted = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<unsigned>(shifted));
}

inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 __floats2half2_rn(float low, float high) { return {__float2half_rn(low), __float2half_rn(high)}; }
inline __half2 __float2half2_rn(float value) { return __half2half2(__float2half_rn(value)); }
inline __half2 __float22half2_rn(float2 value) { return __floats2half2_rn(value.x, value.y); }
inline __half __low2half(__half2 value) { return value.x; }
inline __half __high2half(__half2 value) { return value.y; }
inline float __low2float(__half2 value) { return __half2float(value.x); }
inline float __high2float(__half2 value) { return __half2float(value.y); }
inline float2 __half22float2(__half2 value) { return {__half2float(value.x), __half2float(value.y)}; }

// --------------------------------------------------------------------------------------------------------- arithmetic
// Sums and products of two halves are exact in double, and quotients have bits enough there to be rounded twice.
inline __half __hadd(__half a, __half b) { return __double2half(double(float(a)) + double(float(b))); }
inline __half __hsub(__half a, __half b) { return __double2half(double(float(a)) - double(float(b))); }
inline __half __hmul(__half a, __half b) { return __double2half(double(float(a)) * double(float(b))); }
inline __half __hdiv(__half a, __half b) { return __double2half(double(float(a)) / double(float(b))); }
inline __half __hneg(__half a) { return __ushort_as_half((unsigned short)(a.bits ^ 0x8000u)); }
inline __half __habs(__half a) { return __ushort_as_half((unsigned short)(a.bits & 0x7fffu)); }
// The product is exact, and so is the sum, but where the product is below 2^-16 of the addend: far from a tie.
inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(double(float(a)) * double(float(b)) + double(float(c)));
}
inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline __half operator+(__half a, __half b) { return __hadd(a, b); }
inline __half operator-(__half a, __half b) { return __hsub(a, b); }
inline __half operator*(__half a, __half b) { return __hmul(a, b); }
inline __half operator/(__half a, __half b) { return __hdiv(a, b); }
inline __half operator-(__half a) { return __hneg(a); }
inline __half& operator+=(__half& a, __half b) { return a = a + b; }
inline __half& operator-=(__half& a, __half b) { return a = a - b; }
inline __half& operator*=(__half& a, __half b) { return a = a * b; }
inline __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
inline __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
inline __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }
inline __half2& operator+=(__half2& a, __half2 b) { return a = a + b; }

// -------------------------------------------------------------------------------------------------------- comparisons
// As floats: exact, and a NaN is unequal to all.
inline bool operator==(__half a, __half b) { return float(a) == float(b); }
inline bool operator<(__half a, __half b) { return float(a) < float(b); }
inline bool operator>(__half a, __half b) { return float(a) > float(b); }
inline bool operator<=(__half a, __half b) { return float(a) <= float(b); }
inline bool operator>=(__half a, __half b) { return float(a) >= float(b); }
inline bool __hisnan(__half a) { return (a.bits & 0x7fffu) > 0x7c00u; }
inline int __hisinf(__half a) { return (a.bits & 0x7fffu) != 0x7c00u ? 0 : a.bits & 0x8000u ? -1 : 1; }
