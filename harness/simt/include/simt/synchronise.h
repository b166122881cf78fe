// Barriers, and what the lanes of a warp do together: shuffles, votes, reductions, matches.
#pragma once
#include <bit>
#include <cstring>
#include <type_traits>

#include "runtime.h"

inline void __syncthreads(simt::Where where = simt::Where::current()) { simt_block_barrier(0, where); }
inline int __syncthreads_count(int predicate, simt::Where where = simt::Where::current()) {
  return simt_block_barrier(predicate != 0, where);
}
inline int __syncthreads_or(int predicate, simt::Where where = simt::Where::current()) {
  return simt_block_barrier(predicate != 0, where) != 0;
}
inline int __syncthreads_and(int predicate, simt::Where where = simt::Where::current()) {
  return simt_block_barrier(predicate == 0, where) == 0;
}

#ifdef __SANITIZE_ADDRESS__
inline void __threadfence() { simt_fence(); }
inline void __threadfence_system() { simt_fence(); }
inline void __threadfence_block() { simt_fence(); }
#else
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/// The threads of a block share one OS thread: only the compiler could reorder what they see.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
#endif

namespace simt {
#ifdef __SANITIZE_THREAD__
/// A module to be counted: a call of simt_warp that g++ leaves out where nothing needs its result, with the arithmetic
/// before it, as nvcc does. g++ knows no such call that it would not move behind a branch, too; an asm stays in place.
inline uint64_t exchange(WarpOp op, unsigned mask, uint64_t bits, int argument, int width, Where where) {
  static_assert(sizeof where == 8 && std::is_trivially_copyable_v<Where>);
  uint64_t result;
  register int eighth asm("r8") = width;
  register uint64_t ninth asm("r9") = std::bit_cast<uint64_t>(where);
  asm("call simt_warp@PLT"
      : "=a"(result), "+D"(op), "+S"(mask), "+d"(bits), "+c"(argument), "+r"(eighth), "+r"(ninth)
      :
      : "r10", "r11", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  return result;
}
#else
inline uint64_t exchange(WarpOp op, unsigned mask, uint64_t bits, int argument, int width, Where where) {
  return simt_warp(op, mask, bits, argument, width, where);
}
#endif

/// A warp operation on any value of up to 8 bytes.
template <class T>
T warp(WarpOp op, unsigned mask, T value, int argument, int width, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "lanes exchange values of at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(op, mask, bits, argument, width, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace simt

inline void __syncwarp(unsigned mask = 0xffffffffu, simt::Where where = simt::Where::current()) {
  simt_warp(simt::WarpOp::sync, mask, 0, 0, 32, where);
}
inline unsigned __activemask(simt::Where where = simt::Where::current()) { return simt_active_mask(where); }

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::shuffle, mask, value, lane, width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::shuffle_up, mask, value, int(delta), width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::shuffle_down, mask, value, int(delta), width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::shuffle_xor, mask, value, lane_mask, width, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simt::Where where = simt::Where::current()) {
  return unsigned(simt_warp(simt::WarpOp::ballot, mask, predicate != 0, 0, 32, where));
}
inline int __any_sync(unsigned mask, int predicate, simt::Where where = simt::Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, simt::Where where = simt::Where::current()) {
  return __ballot_sync(mask, predicate == 0, where) == 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::add, mask, value, 0, 32, where);
}
inline int __reduce_add_sync(unsigned mask, int value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::add, mask, value, 0, 32, where);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::min_unsigned, mask, value, 0, 32, where);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::max_unsigned, mask, value, 0, 32, where);
}
inline int __reduce_min_sync(unsigned mask, int value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::min_signed, mask, value, 0, 32, where);
}
inline int __reduce_max_sync(unsigned mask, int value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::max_signed, mask, value, 0, 32, where);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::bit_and, mask, value, 0, 32, where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::bit_or, mask, value, 0, 32, where);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, simt::Where where = simt::Where::current()) {
  return simt::warp(simt::WarpOp::bit_xor, mask, value, 0, 32, where);
}

namespace simt {
template <class T>
unsigned match(WarpOp op, unsigned mask, T value, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "lanes match values of at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return unsigned(simt_warp(op, mask, bits, 0, 32, where));
}
}  // namespace simt
template <class T>
unsigned __match_any_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  return simt::match(simt::WarpOp::match_any, mask, value, where);
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate, simt::Where where = simt::Where::current()) {
  const unsigned same = simt::match(simt::WarpOp::match_all, mask, value, where);
  *predicate = same != 0;
  return same;
}
