// The phases of v27b_neighbour_sums, for it and the rungs above it.
#pragma once
#include "neighbour_sums.cuh"
#include "row_bounds.cuh"

namespace ladder {

struct Ordered {
  Standing standing;
  int* first_guess = nullptr;  // n: before there are labels
};

template <class T, class Own>
void prepare_ordered(Run<T, Own>& s) {
  prepare_bounded(s);
  s.own.incremental.share = s.axis("share");
  auto& few = s.own.filter;
  if (!few.order.row) few.order = take_order(s, s.n, s.k);  // sums want one, though no contest does
  s.own.order = {{Standing::not_at_all, s.template device<Standing::State>(1)}, few.candidates.guess};
}

template <class T, class Own>
void forget_ordered(Run<T, Own>& s) {
  forget_bounded(s);
  const auto& own = s.own.order;
  s.own.filter.candidates.guess = own.first_guess;
  check(cudaMemsetAsync(own.standing.state, 0, sizeof *own.standing.state, s.stream), "forgetting an order");
}
template <class T, class Own>
void restart_ordered(Run<T, Own>& s) {
  restart_rows(s);
  forget_ordered(s);
}

template <class T, template <int> class By = Contestants, class Own>
void assign_ordered(Run<T, Own>& s) {
  assign_bounded<T, By>(s, true);
}

/// The clusters that have the points are the next guesses.
template <class T, class Own>
void update_ordered(Run<T, Own>& s) {
  auto& few = s.own.filter;
  Standing standing = s.own.order.standing;
  if (few.width == 0) standing.share = 0;
  const Moves* const moves = list_moved(s);
  move_neighbours(s, s.x, few.order, standing, moves);
  few.candidates.guess = s.own.incremental.holds;
  step_to_means(s);
}

}  // namespace ladder
