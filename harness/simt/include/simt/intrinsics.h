// Intrinsics and mathematics of device code that <math.h> does not have. Rounding is to nearest, as the names say;
// the `fast` ones (__expf ...) are as exact as the host's functions.
#pragma once
#include <math.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime.h"

#ifdef __SANITIZE_THREAD__
// A module to be counted, where these are no built-in functions (../../CMakeLists.txt): calls that stay calls, of known
// arguments, too, and are left out where nothing needs them.
extern "C" double scalbn(double, int) noexcept __attribute__((const));
extern "C" float scalbnf(float, int) noexcept __attribute__((const));
extern "C" double ldexp(double, int) noexcept __attribute__((const));
extern "C" float ldexpf(float, int) noexcept __attribute__((const));
#ifdef __SANITIZE_THREAD__
extern "C" double simt_add_upwards(double a, double b) noexcept __attribute__((const));  // in libsimt
#endif
#if defined(__x86_64__) && defined(__FMA__)
// Before each division of doubles a call that keeps all registers: what it takes depends on the numerator. The
// assembler takes `{vex} vdivsd` for the instruction, not for this macro.
asm(".macro vdivsd operands:vararg\n\tcall simt_count_division@PLT\n\t{vex} vdivsd \\operands\n.endm");
#endif
#endif

// ------------------------------------------------------------------------------------------------- loads and stores
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldca(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}

// ---------------------------------------------------------------------------------------------------- min, max, fused
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return T(b) < T(a) || T(a) != T(a) ? T(b) : T(a);
  else
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return T(a) < T(b) || T(a) != T(a) ? T(b) : T(a);
  else
    return T(a) < T(b) ? T(b) : T(a);
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// Barriers keep the compiler from fusing a product with a sum: that is what these are for.
template <class T>
inline T added_alone(T a, T b) {
  return __builtin_assoc_barrier(__builtin_assoc_barrier(a) + __builtin_assoc_barrier(b));
}
template <class T>
inline T subtracted_alone(T a, T b) {
  return __builtin_assoc_barrier(__builtin_assoc_barrier(a) - __builtin_assoc_barrier(b));
}
inline float __fadd_rn(float a, float b) { return added_alone(a, b); }
inline float __fsub_rn(float a, float b) { return subtracted_alone(a, b); }
inline float __fmul_rn(float a, float b) { return __builtin_assoc_barrier(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline double __dadd_rn(double a, double b) { return added_alone(a, b); }
inline double __dsub_rn(double a, double b) { return subtracted_alone(a, b); }
inline double __dmul_rn(double a, double b) { return __builtin_assoc_barrier(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __drcp_rn(double x) { return 1.0 / x; }
// Towards +infinity: the next double above, where the nearest one is below. A GPU has an instruction for it, so that
// its steps are not to be counted.
inline double __dadd_ru(double a, double b) {
#ifdef __SANITIZE_THREAD__
  return simt_add_upwards(a, b);
#else
  const double sum = __dadd_rn(a, b), part = __dsub_rn(sum, a);
  const double lost = __dadd_rn(__dsub_rn(a, __dsub_rn(sum, part)), __dsub_rn(b, part));
  return lost > 0 ? std::nextafter(sum, std::numeric_limits<double>::infinity()) : sum;
#endif
}
inline double __dsub_ru(double a, double b) { return __dadd_ru(a, -b); }

inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }

// ----------------------------------------------------------------------------------------------- bits and conversions
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline int __float2int_rn(float x) { return int(rintf(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline int __float2int_rd(float x) { return int(floorf(x)); }
inline int __float2int_ru(float x) { return int(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return unsigned(rintf(x)); }
inline unsigned __float2uint_rz(float x) { return unsigned(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
inline int __double2int_rn(double x) { return int(rint(x)); }
inline int __double2int_rz(double x) { return int(x); }
inline long long __double2ll_rn(double x) { return (long long)rint(x); }
inline double __ll2double_rn(long long x) { return double(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline int __clzll(long long x) { return std::countl_zero((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

// -------------------------------------------------------------------------------------------------------------- others
inline void __trap(simt::Where where = simt::Where::current()) { simt_trap(where); }
inline void __nanosleep(unsigned) {}
/// Nanoseconds, not cycles.
inline long long clock64() { return simt_clock(); }
