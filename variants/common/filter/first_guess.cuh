// The first guesses: of each row, the centroid with the largest bound. v38_first_guess introduces it.
#pragma once
#include "filter_sm80.cuh"

namespace ladder {

// ---- launchers (first_guess.cu)

/// The largest bound of each row, by mma.sync: o.candidates.guess. Counts the rows of each guess in `order`.
void max_bound(FilterSm80, int width, cudaStream_t stream, const FilterOperands& o, const RowOrder& order);

/// One block: the exclusive prefix sum of `order`'s counts.
void begin_order(cudaStream_t stream, const RowOrder& order, int k);

// ---- phases

/// In the first iteration, from short rows, the rows' guesses and their order. Later the guesses are the previous
/// labels, and the update has sorted the rows.
template <class Form, class T, class W>
void make_first_guesses(Run<T, W>& s) {
  if (s.ws.sums.done > 0) return;
  max_bound(Form(), s.ws.filter.width, s.stream, filter_operands(s, nullptr), s.ws.order.rows);
  begin_order(s.stream, s.ws.order.rows, s.k);
}

}  // namespace ladder
