// The first assignment, of each piece of the points while the next ones arrive. It needs the initial centroids, which
// come behind the first pieces. A piece is a smaller problem: it gets a State of its own, in which everything that is
// kept of rows begins with its first one, and all the rest is that of the whole problem; what assigns all points
// assigns these. What is found is kept aside until a restart knows whether it holds: by then the harness may ask for
// other centroids, or a point may have left the unit. v34_overlapped_upload introduces it.
#pragma once
#include "overlapped_phases.cuh"

namespace ladder {

struct EagerAssignment {
  int32_t* label = nullptr;                   // n
  DistanceBound* known = nullptr;             // n
  double* travelled = nullptr;                // k: no centroid has gone anywhere yet
  RefineCounters* refine_counters = nullptr;  // max_chunks: of each piece that was assigned, as its lists begin anew
  FilterCounters* counters = nullptr;         // likewise
  int pieces = 0;                             // that were
  bool sent = false;                          // no restart was since the upload: s.c is what Pieces::initial has
  bool previous_label = false;                // it is the next assignment's
  bool taken = false;                         // it was the first one's, since the restart
};

/// What was found ahead, as if it was found now; doubts and contest are 0.
static __global__ void reuse_eager_kernel(EagerAssignment ahead, int32_t* label, DistanceBound* known,
                                          RefineCounters* refine_counters, FilterCounters* contest, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) label[i] = ahead.label[i], known[i] = ahead.known[i];
  if (i >= ahead.pieces) return;
  const RefineCounters& doubted = ahead.refine_counters[i];
  const FilterCounters& candidate_rows = ahead.counters[i];
  atomicAdd(&refine_counters->pairs, doubted.pairs), atomicAdd(&refine_counters->brute_force, doubted.brute_force);
  atomicAdd(&refine_counters->few, doubted.few);
  atomicAdd(&contest->candidate_rows, candidate_rows.candidate_rows),
      atomicAdd(&contest->candidates, candidate_rows.candidates);
  atomicAdd(&contest->left, candidate_rows.left), atomicAdd(&contest->listed, candidate_rows.listed);
  atomicAdd(&contest->exact_distances, candidate_rows.exact_distances);
}

// ---- the host's side

template <class T, class W>
void prepare_eager(Run<T, W>& s) {
  prepare_overlapped(s);
  s.ws.chunks.alignment = NarrowMainloopSm80<widest>::rows;  // whole tiles: none reads the next piece's rows
  if (!wants_filter(s)) return;
  auto& own = s.ws.eager;
  own.label = s.template device<int32_t>(s.n);
  own.known = s.template device<DistanceBound>(s.n);
  own.travelled = s.template device<double>(s.k);
  own.refine_counters = s.template device<RefineCounters>(max_chunks);
  own.counters = s.template device<FilterCounters>(max_chunks);
}

/// Before the first piece.
template <class T, class W>
void begin_eager(Run<T, W>& s) {
  const auto& own = s.ws.eager;
  const auto& refine = s.ws.refinement;
  const auto clear = [&](auto* what, size_t count, int byte = 0) {
    check(cudaMemsetAsync(what, byte, count * sizeof *what, s.stream), "clearing what is found ahead");
  };
  clear(own.known, s.n, -1), clear(own.travelled, s.k), clear(own.refine_counters, max_chunks),
      clear(own.counters, max_chunks);
  clear(s.ws.filter.order.count, s.k);
  clear_brute_force_parts(s, refine.parts, refine.blocks);
}

/// Labels of these rows, for the centroids s.c, with the halves and short rows that they have by now.
template <class T, template <int> class By, class W>
void assign_eager(Run<T, W>& s, const RowRange& range) {
  auto& own = s.ws.eager;
  Problem<T> problem = s.problem;
  problem.n = range.count;
  Run<T, W> part(problem, s.device_info);
  part.stream = s.stream, part.axes = s.axes;
  part.x = s.x + size_t(range.first) * s.d, part.c = s.c, part.label = own.label + range.first;
  part.ws.rows.points = part.x;
  share_all_features(s, range, part);
  part.ws.bounds = {own.known + range.first, own.travelled};
  auto& refine = part.ws.refinement = s.ws.refinement;
  refine.refine_counters = own.refine_counters, refine.done = own.pieces;
  auto& few = part.ws.filter = s.ws.filter;
  few.x += size_t(range.first) * (few.width / 8), few.square += range.first;
  few.candidates.guess = s.ws.order.first_guess;
  few.counters = own.counters, few.shortened = own.pieces > 0;
  assign_ordered<T, By>(part);
  ++own.pieces;
}

template <class T, template <int> class By = DeviceFilter, class W>
void upload_eager(Run<T, W>& s) {
  auto& own = s.ws.eager;
  own.pieces = 0, own.sent = true, own.previous_label = false;
  // With less than the rows of two warpgroups for each multiprocessor a piece would take as long as with them.
  const int pieces = std::clamp(s.n / (2 * warpgroup_rows * s.device_info.multiprocessors), 1, s.axis("pieces"));
  upload_overlapped(
      s, pieces,
      [&](const RowRange& range) {
        if (range.first == 0) s.ws.chunks.left.await(s.stream);
        if (s.ws.filter.width == 0) return;
        if (own.pieces == 0) begin_eager(s);
        assign_eager<T, By>(s, range);
      },
      [&] { send_initial(s, s.ws.chunks.copies.stream); });
}

template <class T, class W>
void restart_eager(Run<T, W>& s) {
  auto& own = s.ws.eager;
  const auto& pieces = s.ws.chunks;
  const bool same = std::exchange(own.sent, false) &&
                    std::memcmp(pieces.initial, s.problem.centroids, size_t(s.k) * s.d * sizeof(T)) == 0;
  if (!same) send_initial_centroids(s);
  finish_overlapped(s);
  own.previous_label = same && own.pieces > 0 && !pieces.again;
  own.taken = false;
}

template <class T, template <int> class By = DeviceFilter, class W>
void assign_or_reuse(Run<T, W>& s) {
  auto& own = s.ws.eager;
  if (!std::exchange(own.previous_label, false)) return assign_ordered<T, By>(s);
  own.taken = true;
  RefineCounters* const refine_counters = next_refine_counters(s);
  launch(reuse_eager_kernel, blocks(std::max(s.n, max_chunks), 256), 256, 0, s.stream, own, s.label, s.ws.bounds.known,
         refine_counters, next_filter_counters(s, refine_counters), s.n);
}

template <class T, class W>
void download_eager(Run<T, W>& s) {
  download_overlapped(s);
  auto& told = s.counters["points assigned ahead"];
  const size_t iterations = s.counters["rows rechecked"].size();
  if (told.empty() && iterations > 0) told.push_back(s.ws.eager.taken ? s.n : 0);
  told.resize(iterations, 0);
}

}  // namespace ladder
