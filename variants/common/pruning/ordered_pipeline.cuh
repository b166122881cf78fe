// The phases of v29_segmented_sums, for it and the rungs above it.
#pragma once
#include "../update/segmented.cuh"
#include "distance_bounds.cuh"

namespace ladder {

struct ClusterOrder {
  SortState standing;
  int* first_guess = nullptr;  // n: before there are labels
};

template <class T, class W>
void prepare_ordered(Run<T, W>& s) {
  prepare_bounds(s);
  s.ws.incremental.share = s.axis("share");
  auto& few = s.ws.filter;
  if (!few.order.row) few.order = allocate_order(s, s.n, s.k);  // sums want one, though no contest does
  s.ws.order = {{SortState::not_at_all, s.template device<SortState::State>(1)}, few.candidates.guess};
}

template <class T, class W>
void reset_ordered(Run<T, W>& s) {
  reset_bounds(s);
  const auto& own = s.ws.order;
  s.ws.filter.candidates.guess = own.first_guess;
  check(cudaMemsetAsync(own.standing.state, 0, sizeof *own.standing.state, s.stream), "forgetting an order");
}
template <class T, class W>
void restart_ordered(Run<T, W>& s) {
  restart_rows(s);
  reset_ordered(s);
}

template <class T, template <int> class By = DeviceFilter, class W>
void assign_ordered(Run<T, W>& s) {
  assign_with_bounds<T, By>(s, true);
}

/// The clusters that have the points are the next guesses.
template <class T, class W>
void update_ordered(Run<T, W>& s) {
  auto& few = s.ws.filter;
  SortState standing = s.ws.order.standing;
  if (few.width == 0) standing.share = 0;
  const MoveCounters* const moves = list_moved(s);
  sum_segments(s, s.x, few.order, standing, moves);
  few.candidates.guess = s.ws.incremental.previous_label;
  step_to_means(s);
}

}  // namespace ladder
