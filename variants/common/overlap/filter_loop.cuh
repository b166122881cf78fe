// What a loop on the device must know of those who contest: where an iteration counts, and what the host knows of how
// many iterations are done. v32_graph_loop introduces it.
#pragma once
#include <string>

#include "../pruning/filter.cuh"
#include "../pruning/pipeline.cuh"
#include "graph_loop.cuh"

namespace ladder {

inline std::string refuse_filtered_loop(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_filtered(p, device, axes);
  return why.empty() ? refuse_loop() : why;
}

/// Phase `solve` of those who contest; iterate() is an assignment and update_incremental().
template <class T, class Iterate, class W>
void solve_filtered(Run<T, W>& s, const Iterate& iterate) {
  auto& refine = s.ws.refinement;
  auto& moved = s.ws.incremental;
  const auto& few = s.ws.filter;
  const FixedPoint& format = moved.format;
  const auto history = [](auto* first, int places) {
    return History{reinterpret_cast<unsigned*>(first), int(sizeof *first / sizeof(unsigned)), places};
  };
  LoopBody looped{
      .histories = {history(refine.refine_counters, counted), history(moved.moves, kept_iterations_of_moves)},
      .changed = &moved.moves[kept_iterations_of_moves - 1].points,
      .key = {few.width, format.low, format.high, format.bits, format.words}};
  if (few.width > 0) looped.histories.push_back(history(few.counters, counted));
  solve_on_device(s, looped, iterate, [&](int done) { refine.done = moved.done = done; });
}

}  // namespace ladder
