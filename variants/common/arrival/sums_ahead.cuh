// The first update begun under the upload: when a chunk has its labels, its points are counted, sorted by cluster and
// added to the sums, in the unit of sampled_unit.cuh, while the next chunk is copied. The first update of a solve that
// takes these labels (overlap/eager_assign.cuh) then sorts all points and divides. A chunk with a value that the unit
// does not hold is not added, nor is any later one, and all sums are discarded. The kernels are in sums_ahead.cu.
// v50_sums_ahead introduces it.
#pragma once
#include "sampled_unit.cuh"

namespace ladder {

struct SumsAhead {
  MoveCounters* added = nullptr;  // max_chunks: points of each chunk that are added: all or, out of the unit, none
  bool ready = false;             // since the restart: sums and counts are those of the labels found ahead
  bool taken = false;             // the first update since the restart has taken them
};

// ---- launchers (sums_ahead.cu)

/// Counts the n points of a chunk in their clusters and sorts them: order.row. *added becomes n, or 0 where the points
/// so far are not within the format.
void sort_chunk(cudaStream_t stream, const int32_t* label, const RowOrder& order, const IncrementalSums& sums,
                MoveCounters* added, int n, int k);
/// The points of all n labels are in the sums: *moves says that all have moved.
void adopt_labels(cudaStream_t stream, const int32_t* label, const IncrementalSums& sums, MoveCounters* moves, int n);

// ---- phases

template <class T, class W>
void prepare_sums_ahead(Run<T, W>& s) {
  s.ws.ahead.added = s.template device<MoveCounters>(max_chunks);
}

/// Adds a chunk that was just assigned to the sums; before the first one, clears them.
template <class T, class W>
void add_ahead(Run<T, W>& s, const RowRange& range) {
  if (!s.ws.unit.begun) return;
  const int chunk = s.ws.eager.chunks - 1;
  if (chunk == 0) clear_exact_sums(s);
  MoveCounters* const added = s.ws.ahead.added + chunk;
  const int32_t* const label = s.ws.eager.label + range.first;
  const auto& order = s.ws.order.rows;
  sort_chunk(s.stream, label, order, s.ws.sums, added, range.count, s.k);
  segmented_sums(s.stream, s.x + size_t(range.first) * s.d, order.row, label, s.ws.sums, added, range.count, s.k, s.d,
                 s.device_info.multiprocessors);
}

/// At a restart: keeps the sums where the labels found ahead will be taken.
template <class T, class W>
void reset_but_sums_ahead(Run<T, W>& s) {
  auto& ahead = s.ws.ahead;
  ahead.ready = s.ws.sums.kept = s.ws.eager.reuse && s.ws.unit.fits;
  ahead.taken = false;
  reset_active_set(s);
}

/// The update, the first one from the sums that are there.
template <class T, class W>
void update_or_adopt(Run<T, W>& s) {
  auto& ahead = s.ws.ahead;
  auto& m = s.ws.sums;
  if (!std::exchange(ahead.ready, false)) return update_active_set(s);
  ahead.taken = true;
  MoveCounters* const moves = next_moves(s);
  mark_all_dirty(m.dirty, s.k, s.stream);
  adopt_labels(s.stream, s.label, m, moves, s.n);
  sort_for_filter(s, moves);
  step_to_means(s);
  s.ws.active.proven = true;
}

/// For each reported iteration: the points whose sums were there before the solve.
template <class T, class W>
void report_sums_ahead(Run<T, W>& s) {
  auto& reported = s.counters["points summed ahead"];
  const size_t iterations = s.counters["rows rechecked"].size();
  if (reported.empty() && iterations > 0) reported.push_back(s.ws.ahead.ready || s.ws.ahead.taken ? s.n : 0);
  reported.resize(iterations, 0);
}

}  // namespace ladder
