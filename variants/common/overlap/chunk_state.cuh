// What a chunk of the rows needs to be assigned as a problem of its own: slices of the whole problem's operands, and
// operands of some rows alone. v45_overlapped_upload introduces it.
#pragma once
#include "../pruning/active_set.cuh"

namespace ladder {

// ---- the full-dimension assignment

/// fp16 operands of some of the rows, once the frame is chosen.
template <class T, class W>
void quantize_full_dimension(Run<T, W>& s, const RowRange& range) {
#ifdef __CUDACC__
  quantize_rows_sm90<EpilogueBoundColumns>(s, range);
#else
  quantize_rows(s, range);
#endif
}

/// Makes `chunk`, a run of these rows alone, share what was prepared and quantized for all of them.
template <class T, class W>
void slice_full_dimension(Run<T, W>& s, const RowRange& range, Run<T, W>& chunk) {
  chunk.ws.rows.points = s.ws.rows.points + size_t(range.first) * s.d;
  chunk.ws.refinement = s.ws.refinement;
#ifdef __CUDACC__
  chunk.ws.warpgroup = s.ws.warpgroup;
  chunk.ws.warpgroup.rows = s.ws.warpgroup.rows.from(range.first);
  chunk.ws.gathered = s.ws.gathered;
  chunk.ws.undecided = s.ws.undecided;
#else
  auto& operands = chunk.ws.certified = s.ws.certified;
  operands.x.part[0] += size_t(range.first) * operands.x.pitch;
  operands.point += range.first;
#endif
}

// ---- the filter

/// The same of short rows. `same_centroids`: their short rows are there already.
template <class T, class W>
void slice_projection(Run<T, W>& s, const RowRange& range, Run<T, W>& chunk, bool same_centroids) {
  slice_full_dimension(s, range, chunk);
  chunk.ws.order = s.ws.order;
  auto& f = chunk.ws.filter = s.ws.filter;
  f.x += size_t(range.first) * (f.width / 8), f.square += range.first;
  f.centroids_ready = same_centroids;
  chunk.ws.directions = s.ws.directions;
}

/// `chunk` uses its share of `bounds`.
template <class T, class W>
void slice_bounds(const DistanceBounds& bounds, const RowRange& range, Run<T, W>& chunk) {
  chunk.ws.bounds = {bounds.cached + range.first, bounds.travelled};
}

/// Before assignments that do not follow a restart.
template <class T, class W>
void begin_assignments(Run<T, W>& s) {
  check(cudaMemsetAsync(s.ws.order.rows.count, 0, s.k * sizeof(int), s.stream), "clearing the counts of guesses");
  clear_brute_force_parts(s, s.ws.refinement.parts, s.ws.refinement.blocks);
}

/// The next assignment counts at entry `index` of these arrays.
template <class T, class W>
void count_at(Run<T, W>& s, RefineCounters* refine_counters, FilterCounters* counters, int index) {
  s.ws.refinement.refine_counters = refine_counters, s.ws.refinement.done = index;
  s.ws.filter.counters = counters;
}

}  // namespace ladder
