// What the lanes of a warp do together. Lanes arrive one by one; the last one to arrive works out the results of all.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "worker.hpp"

namespace simt {
namespace {

bool is_shuffle(WarpOp op) { return op <= WarpOp::shuffle_xor; }

/// The lane that `lane` reads in a shuffle; itself where the source would be outside its part of the warp.
int source_lane(WarpOp op, int lane, int argument, int width) {
  const int first = lane / width * width;
  switch (op) {
    case WarpOp::shuffle:
      return first + (argument & (width - 1));
    case WarpOp::shuffle_up:
      return lane - argument >= first ? lane - argument : lane;
    case WarpOp::shuffle_down:
      return lane + argument < first + width ? lane + argument : lane;
    // As on a GPU: a lower part may be read, a higher one not.
    case WarpOp::shuffle_xor:
      return (lane ^ argument) < first + width ? lane ^ argument : lane;
    default:
      return lane;
  }
}

uint64_t combine(WarpOp op, uint64_t a, uint64_t b) {
  switch (op) {
    case WarpOp::add:
      return uint32_t(a + b);
    case WarpOp::min_signed:
      return uint32_t(std::min(int32_t(a), int32_t(b)));
    case WarpOp::max_signed:
      return uint32_t(std::max(int32_t(a), int32_t(b)));
    case WarpOp::min_unsigned:
      return std::min(uint32_t(a), uint32_t(b));
    case WarpOp::max_unsigned:
      return std::max(uint32_t(a), uint32_t(b));
    case WarpOp::bit_and:
      return a & b;
    case WarpOp::bit_or:
      return a | b;
    case WarpOp::bit_xor:
      return a ^ b;
    default:
      return a;
  }
}

template <class F>
void for_each_lane(unsigned lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

}  // namespace

uint64_t Worker::warp(WarpOp op, unsigned mask, uint64_t value, int argument, int width, std::source_location where) {
  Thread& thread = *current_;
  const int lane = this->lane(thread);
  if (!(mask >> lane & 1)) {
    fault(cudaErrorLaunchFailure, "a warp operation whose mask leaves out the calling lane " + std::to_string(lane),
          where);
  }
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    fault(cudaErrorLaunchFailure,
          "a shuffle of width " + std::to_string(width) + " (a power of two up to 32 is needed)", where);
  }
#ifdef SIMT_CHECKED
  find_unseen_writes();
#endif
  thread.op = op;
  thread.mask = mask;
  thread.value = value;
  thread.argument = argument;
  thread.width = width;
  thread.state = State::warp;
  thread.where = where;
  ++waiting_in_warps_;
  // try_warp makes the other lanes ready; this one, the last to come, simply goes on.
  if (!try_warp(thread)) {
    thread.fiber->suspend();
    return thread.result;
  }
  thread.state = State::running;
#ifdef SIMT_CHECKED
  refresh_moment();
#endif
  return thread.result;
}

// A warp operation is complete here: what counts per warp request sees all its lanes.
bool Worker::try_warp(Thread& thread) {
  const int first = rank(thread) / 32 * 32;
  Thread* lanes = &threads_[first];
  unsigned present = 0;  // lanes of the mask that take part: those that ended, or never were, do not
  // Lanes arrive in ascending order: scanning from the last one finds a missing lane at once.
  for (int l = std::min(32, size_ - first) - 1; l >= 0; --l) {
    if (!(thread.mask >> l & 1)) continue;
    if (!has_started(first + l)) return false;
    const Thread& other = lanes[l];
    if (other.state == State::done) continue;
    if (other.state != State::warp || other.op != thread.op || other.mask != thread.mask) return false;
    present |= 1u << l;
  }

#ifdef SIMT_CHECKED
  const int live = std::min(32, size_ - first);
  order_.warp_operation(first, present, std::popcount(present) == live);
#endif
  unsigned set = 0;  // lanes whose value is not 0
  bool have = false, all_equal = true;
  uint64_t combined = 0;
  for_each_lane(is_shuffle(thread.op) ? 0 : present, [&](int l) {
    const uint64_t value = lanes[l].value;
    if (value) set |= 1u << l;
    all_equal &= value == thread.value;
    combined = have ? combine(thread.op, combined, value) : value;
    have = true;
  });

  for_each_lane(present, [&](int l) {
    Thread& other = lanes[l];
    if (is_shuffle(thread.op)) {
      const int source = source_lane(thread.op, l, other.argument, other.width);
      if (!(present >> source & 1)) {
        current_ = &other;
        fault(cudaErrorLaunchFailure,
              "a shuffle in which lane " + std::to_string(l) + " reads lane " + std::to_string(source) +
                  ", which takes no part in it: an undefined value",
              other.where);
      }
      other.result = lanes[source].value;
    } else if (thread.op == WarpOp::ballot) {
      other.result = set;
    } else if (thread.op == WarpOp::match_all) {
      other.result = all_equal ? present : 0;
    } else if (thread.op == WarpOp::match_any) {
      other.result = 0;
      for_each_lane(present, [&](int k) { other.result |= uint64_t(lanes[k].value == other.value) << k; });
    } else {
      other.result = combined;
    }
  });
  // Before other warps, as a warp goes on as one: atomics give its lanes values that follow each other, as on a GPU.
  for (int l = 31; l >= 0; --l) {
    if (!(present >> l & 1)) continue;
    --waiting_in_warps_;
    if (&lanes[l] == &thread) continue;
    lanes[l].state = State::running;
    ready_.push_front(&lanes[l]);
  }
  return true;
}

unsigned Worker::active_mask(std::source_location where) {
  Thread& thread = *current_;
  wait(State::active_mask, where);
  return unsigned(thread.result);
}

/// Lanes of a warp that wait at the same place have converged there: they, and no others, are active together.
bool Worker::release_active_mask() {
  if (count(State::active_mask) == 0) return false;
  for (int first = 0; first < size_; first += 32) {
    const int end = std::min(first + 32, size_);
    for (int i = first; i < end; ++i) {
      if (threads_[i].state != State::active_mask) continue;
      unsigned together = 0;
      for (int j = i; j < end; ++j) {
        if (threads_[j].state == State::active_mask && same_place(threads_[j].where, threads_[i].where))
          together |= 1u << (j - first);
      }
      for_each_lane(together, [&](int l) {
        threads_[first + l].result = together;
        make_ready(threads_[first + l]);
      });
    }
  }
  return true;
}

}  // namespace simt
