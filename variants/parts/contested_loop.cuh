// What a loop on the device must know of those who contest: where an iteration counts, and what the host knows of how
// many iterations are done. v29_device_loop introduces it.
#pragma once
#include <string>

#include "contest.cuh"
#include "contested.cuh"
#include "device_loop.cuh"

namespace ladder {

inline std::string refuse_contested_loop(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_contested(p, device, axes);
  return why.empty() ? refuse_loop() : why;
}

/// Phase `solve` of those who contest; iterate() is an assignment and update_moved().
template <class T, class Iterate, class Own>
void solve_contested(Run<T, Own>& s, const Iterate& iterate) {
  auto& recheck = s.own.refinement;
  auto& moved = s.own.incremental;
  const auto& few = s.own.filter;
  const FixedPoint& format = moved.format;
  const auto history = [](auto* first, int places) {
    return History{reinterpret_cast<unsigned*>(first), int(sizeof *first / sizeof(unsigned)), places};
  };
  Looped looped{.histories = {history(recheck.doubts, counted), history(moved.moves, counted_moves)},
                .changed = &moved.moves[counted_moves - 1].points,
                .key = {few.width, format.low, format.high, format.bits, format.words}};
  if (few.width > 0) looped.histories.push_back(history(few.contests, counted));
  solve_on_device(s, looped, iterate, [&](int done) { recheck.done = moved.done = done; });
}

}  // namespace ladder
