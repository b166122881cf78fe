// The phases of v27b_neighbour_sums, for it and the rungs above it.
#pragma once
#include "neighbour_sums.cuh"
#include "row_bounds.cuh"

namespace ladder {

struct Ordered {
  Standing standing;
  int* first_guess = nullptr;  // n: before there are labels
};

template <class T>
void prepare_ordered(State<T>& s) {
  prepare_bounded(s);
  s.template own<MovedSums>().share = s.axis("share");
  auto& few = s.template own<Few>();
  if (!few.order.row) few.order = take_order(s, s.n, s.k);  // sums want one, though no contest does
  s.template own<Ordered>() = {{Standing::not_at_all, s.template device<Standing::State>(1)}, few.candidates.guess};
}

template <class T>
void forget_ordered(State<T>& s) {
  forget_bounded(s);
  const auto& own = s.template own<Ordered>();
  s.template own<Few>().candidates.guess = own.first_guess;
  check(cudaMemsetAsync(own.standing.state, 0, sizeof *own.standing.state, s.stream), "forgetting an order");
}
template <class T>
void restart_ordered(State<T>& s) {
  restart_rows(s);
  forget_ordered(s);
}

template <class T, template <int> class By = Contestants>
void assign_ordered(State<T>& s) {
  assign_bounded<T, By>(s, true);
}

/// The clusters that have the points are the next guesses.
template <class T>
void update_ordered(State<T>& s) {
  auto& few = s.template own<Few>();
  Standing standing = s.template own<Ordered>().standing;
  if (few.width == 0) standing.share = 0;
  const Moves* const moves = list_moved(s);
  move_neighbours(s, s.x, few.order, standing, moves);
  few.candidates.guess = s.template own<MovedSums>().holds;
  step_to_means(s);
}

}  // namespace ladder
