// Atomics of CUDA, for the types that CUDA has them for. All are relaxed, as on a GPU.
// One function holds every read-modify-write that the CPU has no single instruction for.
#pragma once
#include <type_traits>

namespace simt {
template <class T, class... Allowed>
concept one_of = (std::is_same_v<T, Allowed> || ...);
template <class T>
concept atomic_integer = one_of<T, int, unsigned, unsigned long long>;
template <class T>
concept atomic_ordered = one_of<T, int, unsigned, long long, unsigned long long>;

/// *address = change(*address) in one step; the value before it.
template <class T, class Change>
T atomic_update(T* address, Change change) {
  T before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do {
    after = change(before);
  } while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}
}  // namespace simt

template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, float, double> T atomicAdd(T* address,
                                                                                       std::type_identity_t<T> value) {
  if constexpr (std::is_floating_point_v<T>)
    return simt::atomic_update(address, [=](T old) { return old + value; });
  else
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires simt::one_of<T, int, unsigned> T atomicSub(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires simt::atomic_ordered<T> T atomicMin(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
requires simt::atomic_ordered<T> T atomicMax(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return old < value ? value : old; });
}
template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, float> T atomicExch(T* address,
                                                                                std::type_identity_t<T> value) {
  T before;
  __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
  return before;
}
template <class T>
requires simt::one_of<T, int, unsigned, unsigned long long, unsigned short> T atomicCAS(T* address,
                                                                                        std::type_identity_t<T> compare,
                                                                                        std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
template <class T>
requires simt::atomic_integer<T> T atomicAnd(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires simt::atomic_integer<T> T atomicOr(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires simt::atomic_integer<T> T atomicXor(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}
/// Counts up to `limit`, then starts again at 0.
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return simt::atomic_update(address, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}
/// Counts down to 0, then starts again at `limit`.
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return simt::atomic_update(address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
