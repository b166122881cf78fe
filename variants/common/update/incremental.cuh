// New centroids from sums that are kept between iterations: only points whose label changed are subtracted from one sum
// and added to another. Sums are exact (exact_sums.cuh), so a value that was added can be subtracted again, and the
// centroids have the same bits in whatever order the atomics arrive. v33_incremental_update introduces it.
#pragma once
#include "../pruning/dirty_clusters.cuh"
#include "exact_sums.cuh"

namespace ladder {

/// A point whose label differs from the cluster whose sums hold it, and that cluster; -1: no sums hold it.
struct Moved {
  int32_t point, from;
};

/// Of one iteration.
struct MoveCounters {
  unsigned long long points;  ///< that moved
};
constexpr int kept_iterations_of_moves = 1024;  ///< iterations of a solve whose counters are kept

struct IncrementalSums : ExactSums {
  int32_t* previous_label = nullptr;  // n: the cluster whose sums hold the point, or -1. The labels of the iteration
                                      // before would do in a solve, but an assignment can be made twice
  Moved* moved = nullptr;             // n: list of the points that moved, in any order
  MoveCounters* moves = nullptr;      // kept_iterations_of_moves: iteration i since the restart is entry i
  MoveCounters* moves_host = nullptr;
  int full_update_share = 2;  // full re-sum if more than one point in this many has moved: a move costs two additions
  DirtyClusters dirty;
  int done = 0;       // updates since the restart
  int reported = 0;   // how many of them State::counters has
  bool kept = false;  // the next restart leaves sums and counts as they are (arrival/sums_ahead.cuh)
};

/// Is a full re-sum of all n points less work than moving these? `share`: IncrementalSums::full_update_share.
__host__ __device__ inline bool moves_are_many(unsigned long long moved, int n, int share) {
  return share * moved > unsigned(n);
}

/// What move_points() does where most points moved.
struct FullUpdate {
  bool skip = false;           ///< nothing: another kernel re-sums
  const int* order = nullptr;  ///< n: the points in this order; null: by their number
};

// ---- launchers (incremental.cu); `multiprocessors` bounds their grids

/// Lists the points that moved, counts them in their new clusters, and clears the sums before a full re-sum.
void list_moved(cudaStream_t stream, const int32_t* label, const IncrementalSums& sums, MoveCounters* moves, int n,
                int k, int d, int multiprocessors);
/// Brings the sums up to date, after list_moved(). `rows`: the points, n x d.
template <class T>
void move_points(cudaStream_t stream, const T* rows, const int32_t* label, const IncrementalSums& sums,
                 const MoveCounters* moves, const FullUpdate& full, int n, int k, int d, int multiprocessors);

// ---- phases

template <class T, class W>
void prepare_incremental(Run<T, W>& s, size_t behind = 0) {
  prepare_exact_sums(s, behind);
  auto& m = s.ws.sums;
  m.previous_label = s.template device<int32_t>(s.n);
  m.moved = s.template device<Moved>(s.n);
  m.moves = s.template device<MoveCounters>(kept_iterations_of_moves);
  m.moves_host = s.template pinned<MoveCounters>(kept_iterations_of_moves);
}

/// Empties all sums.
template <class T, class W>
void restart_incremental(Run<T, W>& s) {
  auto& m = s.ws.sums;
  if (!std::exchange(m.kept, false)) clear_exact_sums(s);
  m.done = m.reported = 0;
  check(cudaMemsetAsync(m.previous_label, -1, s.n * sizeof *m.previous_label, s.stream),
        "clearing the previous labels");
  mark_all_dirty(m.dirty, s.k, s.stream);
}

/// The counters of the update that begins now: zeros.
template <class T, class W>
MoveCounters* next_moves(Run<T, W>& s) {
  auto& m = s.ws.sums;
  MoveCounters* const moves = m.moves + std::min(m.done, kept_iterations_of_moves - 1);
  if (m.done++ < loop_on_device) check(cudaMemsetAsync(moves, 0, sizeof *moves, s.stream), "clearing the moves");
  return moves;
}

/// Lists the points that moved. The host does not wait.
template <class T, class W>
const MoveCounters* list_moved(Run<T, W>& s) {
  auto& m = s.ws.sums;
  MoveCounters* const moves = next_moves(s);
  list_moved(s.stream, s.label, m, moves, s.n, s.k, s.d, s.device_info.multiprocessors);
  return moves;
}

template <class T, class W>
void move_points(Run<T, W>& s, const T* rows, const MoveCounters* moves, const FullUpdate& full = {}) {
  move_points(s.stream, rows, s.label, s.ws.sums, moves, full, s.n, s.k, s.d, s.device_info.multiprocessors);
}

template <class T, class W>
void update_incremental(Run<T, W>& s, const T* rows) {
  move_points(s, rows, list_moved(s));
  divide_exact(s);
}

/// The counters of the iterations since the last download travel with the result: no iteration waits for them. First
/// they are fetched; once the labels are on the host, so are they.
template <class T, class W>
void fetch_move_counters(Run<T, W>& s) {
  auto& m = s.ws.sums;
  check(cudaMemcpyAsync(m.moves_host, m.moves, std::min(m.done, kept_iterations_of_moves) * sizeof *m.moves,
                        cudaMemcpyDeviceToHost, s.stream),
        "downloading the moves");
}
template <class T, class W>
void report_moves(Run<T, W>& s) {
  auto& m = s.ws.sums;
  for (; m.reported < std::min(m.done, kept_iterations_of_moves); ++m.reported) {
    const auto moved = m.moves_host[m.reported].points;
    s.counters["points moved"].push_back(int64_t(moved));
    s.counters["points added anew"].push_back(moves_are_many(moved, s.n, m.full_update_share) ? s.n : 0);
  }
}

}  // namespace ladder
