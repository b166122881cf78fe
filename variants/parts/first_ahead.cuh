// The first assignment, of each piece of the points while the next ones arrive. It needs the initial centroids, which
// come behind the first pieces. A piece is a smaller problem: it gets a State of its own, in which everything that is
// kept of rows begins with its first one, and all the rest is that of the whole problem; what assigns all points
// assigns these. What is found is kept aside until a restart knows whether it holds: by then the harness may ask for
// other centroids, or a point may have left the unit. v30_first_under_upload introduces it.
#pragma once
#include "overlapped.cuh"

namespace ladder {

struct FirstAhead {
  int32_t* label = nullptr;     // n
  RowBound* known = nullptr;    // n
  double* travelled = nullptr;  // k: no centroid has gone anywhere yet
  Doubts* doubts = nullptr;     // most_pieces: of each piece that was assigned, as its lists begin anew
  Contest* contests = nullptr;  // likewise
  int pieces = 0;               // that were
  bool sent = false;            // no restart was since the upload: s.c is what Pieces::initial has
  bool holds = false;           // it is the next assignment's
  bool taken = false;           // it was the first one's, since the restart
};

/// What was found ahead, as if it was found now; doubts and contest are 0.
static __global__ void take_ahead_kernel(FirstAhead ahead, int32_t* label, RowBound* known, Doubts* doubts,
                                         Contest* contest, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) label[i] = ahead.label[i], known[i] = ahead.known[i];
  if (i >= ahead.pieces) return;
  const Doubts& doubted = ahead.doubts[i];
  const Contest& contested = ahead.contests[i];
  atomicAdd(&doubts->pairs, doubted.pairs), atomicAdd(&doubts->scans, doubted.scans);
  atomicAdd(&doubts->few, doubted.few);
  atomicAdd(&contest->contested, contested.contested), atomicAdd(&contest->candidates, contested.candidates);
  atomicAdd(&contest->left, contested.left), atomicAdd(&contest->listed, contested.listed);
  atomicAdd(&contest->looked_at, contested.looked_at);
}

// ---- the host's side

template <class T, class Own>
void prepare_first_ahead(Run<T, Own>& s) {
  prepare_overlapped(s);
  s.own.chunks.alignment = NarrowTile<widest>::rows;  // whole tiles: none reads the next piece's rows
  if (!wants_few(s)) return;
  auto& own = s.own.eager;
  own.label = s.template device<int32_t>(s.n);
  own.known = s.template device<RowBound>(s.n);
  own.travelled = s.template device<double>(s.k);
  own.doubts = s.template device<Doubts>(most_pieces);
  own.contests = s.template device<Contest>(most_pieces);
}

/// Before the first piece.
template <class T, class Own>
void begin_ahead(Run<T, Own>& s) {
  const auto& own = s.own.eager;
  const auto& recheck = s.own.refinement;
  const auto clear = [&](auto* what, size_t count, int byte = 0) {
    check(cudaMemsetAsync(what, byte, count * sizeof *what, s.stream), "clearing what is found ahead");
  };
  clear(own.known, s.n, -1), clear(own.travelled, s.k), clear(own.doubts, most_pieces),
      clear(own.contests, most_pieces);
  clear(s.own.filter.order.count, s.k);
  clear_scan_parts(s, recheck.parts, recheck.blocks);
}

/// Labels of these rows, for the centroids s.c, with the halves and short rows that they have by now.
template <class T, template <int> class By, class Own>
void assign_ahead(Run<T, Own>& s, const RowRange& range) {
  auto& own = s.own.eager;
  Problem<T> problem = s.problem;
  problem.n = range.count;
  Run<T, Own> part(problem, s.device_info);
  part.stream = s.stream, part.axes = s.axes;
  part.x = s.x + size_t(range.first) * s.d, part.c = s.c, part.label = own.label + range.first;
  part.own.rows.points = part.x;
  share_all_features(s, range, part);
  part.own.bounds = {own.known + range.first, own.travelled};
  auto& recheck = part.own.refinement = s.own.refinement;
  recheck.doubts = own.doubts, recheck.done = own.pieces;
  auto& few = part.own.filter = s.own.filter;
  few.x += size_t(range.first) * (few.width / 8), few.square += range.first;
  few.candidates.guess = s.own.order.first_guess;
  few.contests = own.contests, few.shortened = own.pieces > 0;
  assign_ordered<T, By>(part);
  ++own.pieces;
}

template <class T, template <int> class By = Contestants, class Own>
void upload_first_ahead(Run<T, Own>& s) {
  auto& own = s.own.eager;
  own.pieces = 0, own.sent = true, own.holds = false;
  // With less than the rows of two warpgroups for each multiprocessor a piece would take as long as with them.
  const int pieces = std::clamp(s.n / (2 * group_rows * s.device_info.multiprocessors), 1, s.axis("pieces"));
  upload_overlapped(
      s, pieces,
      [&](const RowRange& range) {
        if (range.first == 0) s.own.chunks.left.await(s.stream);
        if (s.own.filter.width == 0) return;
        if (own.pieces == 0) begin_ahead(s);
        assign_ahead<T, By>(s, range);
      },
      [&] { send_initial(s, s.own.chunks.copies.stream); });
}

template <class T, class Own>
void restart_first_ahead(Run<T, Own>& s) {
  auto& own = s.own.eager;
  const auto& pieces = s.own.chunks;
  const bool same = std::exchange(own.sent, false) &&
                    std::memcmp(pieces.initial, s.problem.centroids, size_t(s.k) * s.d * sizeof(T)) == 0;
  if (!same) restart_ahead(s);
  finish_overlapped(s);
  own.holds = same && own.pieces > 0 && !pieces.again;
  own.taken = false;
}

template <class T, template <int> class By = Contestants, class Own>
void assign_first_ahead(Run<T, Own>& s) {
  auto& own = s.own.eager;
  if (!std::exchange(own.holds, false)) return assign_ordered<T, By>(s);
  own.taken = true;
  Doubts* const doubts = next_doubts(s);
  launch(take_ahead_kernel, blocks(std::max(s.n, most_pieces), 256), 256, 0, s.stream, own, s.label, s.own.bounds.known,
         doubts, contest_of(s, doubts), s.n);
}

template <class T, class Own>
void download_first_ahead(Run<T, Own>& s) {
  download_overlapped(s);
  auto& told = s.counters["points assigned ahead"];
  const size_t iterations = s.counters["rows rechecked"].size();
  if (told.empty() && iterations > 0) told.push_back(s.own.eager.taken ? s.n : 0);
  told.resize(iterations, 0);
}

}  // namespace ladder
