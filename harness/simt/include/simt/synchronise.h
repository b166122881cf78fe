// Barriers, and what the lanes of a warp do together: shuffles, votes, reductions, matches.
#pragma once
#include <cstring>
#include <type_traits>

#include "runtime.h"

inline void __syncthreads() { simt_block_barrier(0); }
inline int __syncthreads_count(int predicate) { return simt_block_barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return simt_block_barrier(predicate != 0) != 0; }
inline int __syncthreads_and(int predicate) { return simt_block_barrier(predicate == 0) == 0; }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/// The threads of a block share one OS thread: only the compiler could reorder what they see.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

namespace simt {
/// A warp operation on any value of up to 8 bytes.
template <class T>
T warp(WarpOp op, unsigned mask, T value, int argument = 0, int width = 32) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "lanes exchange values of at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = simt_warp(op, mask, bits, argument, width);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace simt

inline void __syncwarp(unsigned mask = 0xffffffffu) { simt_warp(simt::WarpOp::sync, mask, 0, 0, 32); }
inline unsigned __activemask() { return simt_active_mask(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return simt::warp(simt::WarpOp::shuffle, mask, value, lane, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return simt::warp(simt::WarpOp::shuffle_up, mask, value, int(delta), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return simt::warp(simt::WarpOp::shuffle_down, mask, value, int(delta), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  return simt::warp(simt::WarpOp::shuffle_xor, mask, value, lane_mask, width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return unsigned(simt_warp(simt::WarpOp::ballot, mask, predicate != 0, 0, 32));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

inline unsigned __reduce_add_sync(unsigned mask, unsigned value) { return simt::warp(simt::WarpOp::add, mask, value); }
inline int __reduce_add_sync(unsigned mask, int value) { return simt::warp(simt::WarpOp::add, mask, value); }
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return simt::warp(simt::WarpOp::min_unsigned, mask, value);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return simt::warp(simt::WarpOp::max_unsigned, mask, value);
}
inline int __reduce_min_sync(unsigned mask, int value) { return simt::warp(simt::WarpOp::min_signed, mask, value); }
inline int __reduce_max_sync(unsigned mask, int value) { return simt::warp(simt::WarpOp::max_signed, mask, value); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return simt::warp(simt::WarpOp::bit_and, mask, value);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return simt::warp(simt::WarpOp::bit_or, mask, value);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return simt::warp(simt::WarpOp::bit_xor, mask, value);
}

namespace simt {
template <class T>
unsigned match(WarpOp op, unsigned mask, T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "lanes match values of at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return unsigned(simt_warp(op, mask, bits, 0, 32));
}
}  // namespace simt
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return simt::match(simt::WarpOp::match_any, mask, value);
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate) {
  const unsigned same = simt::match(simt::WarpOp::match_all, mask, value);
  *predicate = same != 0;
  return same;
}
