// Loops spread over the cores of the host.
//
// Whatever runs in them must write to places of its own, and sums must be taken per fixed-size piece of the work, never
// per thread: so every result of the harness has the same bits with any number of threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace ladder {

/// Threads that a parallel loop may use: the environment's LADDER_THREADS, or one per core.
inline int host_threads() {
  const char* wish = std::getenv("LADDER_THREADS");
  if (!wish || !*wish) return std::max(1, int(std::thread::hardware_concurrency()));
  char* end = nullptr;
  const long threads = std::strtol(wish, &end, 10);
  if (*end || threads < 1 || threads > 4096)
    throw Error("LADDER_THREADS is '" + std::string(wish) + "': give a number of threads from 1 to 4096");
  return int(threads);
}

/// Calls task(i) once for each i of [begin, end), in no order. An atomic counter deals them out one by one, so a task
/// should be worth some microseconds. The first exception ends the loop and is thrown again here.
template <class F>
void parallel_for(size_t begin, size_t end, const F& task) {
  if (begin >= end) return;
  std::atomic<size_t> next = begin;
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto work = [&] {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < end;) task(i);
    } catch (...) {
      next = end;
      const std::lock_guard guard(failure_lock);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers(std::min(size_t(host_threads()), end - begin) - 1);
    for (auto& helper : helpers) helper = std::jthread(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

/// Pieces that `count` items make, `grain` in each but the last.
inline size_t pieces(size_t count, size_t grain) { return (count + grain - 1) / grain; }

/// Calls task(piece, begin, end) for each piece of [0, count): the pieces depend on `grain` alone.
template <class F>
void parallel_pieces(size_t count, size_t grain, const F& task) {
  parallel_for(0, pieces(count, grain),
               [&](size_t piece) { task(piece, piece * grain, std::min(count, (piece + 1) * grain)); });
}

// Passes over arrays that would otherwise take one core longer than what they are about.
constexpr size_t pass_grain = size_t(1) << 18;

/// Of 0 .. count - 1, those for which is(i).
template <class F>
size_t count_where(size_t count, const F& is) {
  std::atomic<size_t> found = 0;
  parallel_pieces(count, pass_grain, [&](size_t, size_t begin, size_t end) {
    size_t mine = 0;
    for (size_t i = begin; i < end; ++i) mine += is(i);
    found += mine;
  });
  return found;
}

template <class T>
void parallel_fill(T* to, size_t count, T value) {
  parallel_pieces(count, pass_grain, [&](size_t, size_t begin, size_t end) { std::fill(to + begin, to + end, value); });
}

template <class T>
void parallel_copy(const T* from, size_t count, T* to) {
  parallel_pieces(count, pass_grain,
                  [&](size_t, size_t begin, size_t end) { std::copy(from + begin, from + end, to + begin); });
}

}  // namespace ladder
