// Atomics of CUDA, for the types that CUDA has them for. All are relaxed, as on a GPU.
// In a checked build, and in a module that is counted, each names itself to the runtime, at the line of the kernel,
// before its step: the calls that the compiler would put there say nothing of atomics.
#pragma once
#include <type_traits>

#include "qualifiers.h"
#include "runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_STEP __attribute__((no_sanitize_address, noinline))
#elif defined(__SANITIZE_THREAD__)
#define SIMT_STEP __attribute__((no_sanitize_thread, no_sanitize_coverage, noinline))
#define SIMT_CHANGE __attribute__((no_sanitize_thread, no_sanitize_coverage))
#else
#define SIMT_STEP inline
#endif
#ifndef SIMT_CHANGE
#define SIMT_CHANGE  // of what update() calls: g++ puts no code that is counted into a step that is not
#endif

namespace simt {
template <class T, class... Allowed>
concept one_of = (std::is_same_v<T, Allowed> || ...);
template <class T>
concept atomic_integer = one_of<T, int, unsigned, unsigned long long>;
template <class T>
concept atomic_ordered = one_of<T, int, unsigned, long long, unsigned long long>;

/// What an atomic does with a word in shared memory: one instruction, or a loop of a load, a change and an exchange
/// that is repeated until nothing came between, as nvcc makes of additions of floating-point numbers (`adds`) and of
/// what changes 64 bits.
enum class Attempts { one, many, adds };
template <class T>
constexpr Attempts attempts_to_add = std::is_floating_point_v<T> ? Attempts::adds
                                     : sizeof(T) == 8            ? Attempts::many
                                                                 : Attempts::one;
template <class T>
constexpr Attempts attempts_to_change = sizeof(T) == 8 ? Attempts::many : Attempts::one;

/// The word of an atomic, for as long as the atomic takes: what was done before it is released before its step, and
/// what others released there is seen after it.
template <class T, Attempts attempts = Attempts::one>
struct Announced {
  T* const word;
#ifdef __SANITIZE_ADDRESS__
  __forceinline__ explicit Announced(T* address) : word(address) { simt_atomic_access(address, sizeof(T)); }
  __forceinline__ ~Announced() { simt_atomic_done(word); }
#elif defined(__SANITIZE_THREAD__)
  __forceinline__ explicit Announced(T* address) : word(address) {
    if constexpr (attempts == Attempts::one)
      simt_count_atomic(address, sizeof(T));
    else
      simt_count_update(address, sizeof(T), attempts == Attempts::adds);
  }
#else
  __forceinline__ explicit Announced(T* address) : word(address) {}
#endif
};

template <class T>
SIMT_STEP T fetch_add(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
SIMT_STEP T fetch_and(T* address, T value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
template <class T>
SIMT_STEP T fetch_or(T* address, T value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
SIMT_STEP T fetch_xor(T* address, T value) {
  return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}
template <class T>
SIMT_STEP T exchange(T* address, T value) {
  T before;
  __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
  return before;
}
template <class T>
SIMT_STEP T compare_and_swap(T* address, T compare, T value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
/// *address = change(*address) in one step, for what the CPU has no single instruction for; the value before it.
template <class T, class Change>
SIMT_STEP T update(T* address, Change change) {
  T before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do {
    after = change(before);
  } while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}
}  // namespace simt
#undef SIMT_STEP

template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, float, double> __forceinline__ T
atomicAdd(T* address, std::type_identity_t<T> value) {
  if constexpr (std::is_floating_point_v<T>)
    return simt::update(simt::Announced<T, simt::attempts_to_add<T>>(address).word,
                        [=](T old) SIMT_CHANGE { return old + value; });
  else
    return simt::fetch_add(simt::Announced<T, simt::attempts_to_add<T>>(address).word, value);
}
template <class T>
requires simt::one_of<T, int, unsigned> __forceinline__ T atomicSub(T* address, std::type_identity_t<T> value) {
  return simt::fetch_add(simt::Announced(address).word, T(0u - unsigned(value)));
}
template <class T>
requires simt::atomic_ordered<T> __forceinline__ T atomicMin(T* address, std::type_identity_t<T> value) {
  return simt::update(simt::Announced(address).word, [=](T old) SIMT_CHANGE { return value < old ? value : old; });
}
template <class T>
requires simt::atomic_ordered<T> __forceinline__ T atomicMax(T* address, std::type_identity_t<T> value) {
  return simt::update(simt::Announced(address).word, [=](T old) SIMT_CHANGE { return old < value ? value : old; });
}
template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, float> __forceinline__ T
atomicExch(T* address, std::type_identity_t<T> value) {
  return simt::exchange(simt::Announced(address).word, value);
}
template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, unsigned short> __forceinline__ T
atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return simt::compare_and_swap(simt::Announced(address).word, compare, value);
}
template <class T>
requires simt::atomic_integer<T> __forceinline__ T atomicAnd(T* address, std::type_identity_t<T> value) {
  return simt::fetch_and(simt::Announced<T, simt::attempts_to_change<T>>(address).word, value);
}
template <class T>
requires simt::atomic_integer<T> __forceinline__ T atomicOr(T* address, std::type_identity_t<T> value) {
  return simt::fetch_or(simt::Announced<T, simt::attempts_to_change<T>>(address).word, value);
}
template <class T>
requires simt::atomic_integer<T> __forceinline__ T atomicXor(T* address, std::type_identity_t<T> value) {
  return simt::fetch_xor(simt::Announced<T, simt::attempts_to_change<T>>(address).word, value);
}
/// Counts up to `limit`, then starts again at 0.
__forceinline__ unsigned atomicInc(unsigned* address, unsigned limit) {
  return simt::update(simt::Announced(address).word,
                      [=](unsigned old) SIMT_CHANGE { return old >= limit ? 0 : old + 1; });
}
/// Counts down to 0, then starts again at `limit`.
__forceinline__ unsigned atomicDec(unsigned* address, unsigned limit) {
  return simt::update(simt::Announced(address).word,
                      [=](unsigned old) SIMT_CHANGE { return old == 0 || old > limit ? limit : old - 1; });
}
#undef SIMT_CHANGE
