// The phases of v27b_neighbour_sums, for it and the rungs above it.
#pragma once
#include "neighbour_sums.cuh"
#include "row_bounds.cuh"

namespace ladder {

template <class T>
void prepare_ordered(State<T>& s) {
  prepare_bounded(s);
  s.template own<MovedSums>().share = s.axis("share");
  auto& few = s.template own<Few>();
  if (!few.order.row) few.order = take_order(s, s.n, s.k);  // sums want one, though no contest does
}

template <class T>
void forget_ordered(State<T>& s) {
  forget_bounded(s);
  check(cudaMemsetAsync(s.template own<Few>().order.count, 0, s.k * sizeof(int), s.stream), "clearing an order");
}
template <class T>
void restart_ordered(State<T>& s) {
  restart_rows(s);
  forget_ordered(s);
}

template <class T>
void assign_ordered(State<T>& s) {
  assign_bounded(s, true);
}

template <class T>
void update_ordered(State<T>& s) {
  const auto& few = s.template own<Few>();
  const Moves* const moves = list_moved(s);
  move_neighbours(s, s.x, few.order, few.candidates.guess, few.width > 0, moves);
  step_to_means(s);
}

}  // namespace ladder
