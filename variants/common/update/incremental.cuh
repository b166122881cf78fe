// New centroids from sums that are kept between iterations: only points whose label changed are subtracted from one sum
// and added to another. Sums are exact (reproducible_sum.cuh), so a value that was added can be subtracted again, and
// the centroids have the same bits in whatever order the atomics arrive. v25_incremental_update introduces it.
#pragma once
#include "../lloyd/feature_major.cuh"
#include "../lloyd/phases.cuh"
#include "dirty_clusters.cuh"
#include "reproducible_sum.cuh"

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

struct IncrementalSums {
  Extremes* extremes = nullptr;       // 1: the range of the points
  FixedPoint format;                  // chosen at upload
  unsigned long long* sum = nullptr;  // words x k x d
  int* count = nullptr;               // k: points of each cluster
  int32_t* previous_label = nullptr;  // n: the cluster whose sums hold the point, or -1. The labels of the iteration
                                      // before would do in a solve, but an assignment can be made twice
  Moved* moved = nullptr;             // n: list of the points that moved, in any order
  MoveCounters* moves = nullptr;      // kept_iterations_of_moves: iteration i since the restart is entry i
  MoveCounters* moves_host = nullptr;
  int full_update_share = 2;  // full re-sum if more than one point in this many has moved: a move costs two additions
  DirtyClusters dirty;
  int done = 0;      // updates since the restart
  int reported = 0;  // how many of them State::counters has
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

/// Widens `range` by the values x[begin .. end).
template <class T>
void find_range(cudaStream_t stream, const T* x, int64_t begin, int64_t end, Extremes* range, int multiprocessors);
/// Lists the points that moved, counts them in their new clusters, and clears the sums before a full re-sum.
void list_moved(cudaStream_t stream, const int32_t* label, const IncrementalSums& sums, MoveCounters* moves, int n,
                int k, int d, int multiprocessors);
/// Brings the sums up to date, after list_moved(). `rows`: the points, n x d.
template <class T>
void move_points(cudaStream_t stream, const T* rows, const int32_t* label, const IncrementalSums& sums,
                 const MoveCounters* moves, const FullUpdate& full, int n, int k, int d, int multiprocessors);
/// c = sum / count; a centroid without points stays.
template <class T>
void divide_exact(cudaStream_t stream, const IncrementalSums& sums, T* c, int k, int d);

// ---- phases

template <class T, class W>
void prepare_incremental(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  m.extremes = s.template device<Extremes>(1);
  m.sum = s.template device<unsigned long long>(size_t(FixedPoint::most_words) * s.k * s.d);
  m.count = s.template device<int>(s.k);
  m.previous_label = s.template device<int32_t>(s.n);
  m.moved = s.template device<Moved>(s.n);
  m.moves = s.template device<MoveCounters>(kept_iterations_of_moves);
  m.moves_host = s.template pinned<MoveCounters>(kept_iterations_of_moves);
}

template <class T, class W>
void clear_range(Run<T, W>& s) {
  const Extremes none;
  to_device(s, s.ws.incremental.extremes, &none, 1, "clearing the range of the points");
}

/// Widens the range by some of the points, `rows` (n x d) on the device.
template <class T, class W>
void widen_range(Run<T, W>& s, const T* rows, const RowRange& range) {
  const int64_t begin = int64_t(range.first) * s.d, count = int64_t(range.count) * s.d;
  find_range(s.stream, rows, begin, begin + count, s.ws.incremental.extremes, s.device_info.multiprocessors);
}

template <class T, class W>
void fetch_range(Run<T, W>& s, Extremes* to) {
  check(cudaMemcpyAsync(to, s.ws.incremental.extremes, sizeof *to, cudaMemcpyDeviceToHost, s.stream),
        "downloading the range of the points");
}

/// Chooses the format of the sums from this range. Throws Error where the points have none.
template <class T, class W>
void choose_format(Run<T, W>& s, const Extremes& range) {
  s.ws.incremental.format = fixed_point(range, s.points, s.n, s.d);
}
/// The same from all points, `rows` (n x d) on the device. Waits for the device.
template <class T, class W>
void choose_format(Run<T, W>& s, const T* rows) {
  Extremes range;
  clear_range(s);
  widen_range(s, rows, all_rows(s));
  fetch_range(s, &range);
  check(cudaStreamSynchronize(s.stream), "finding the range of the points");
  choose_format(s, range);
}

/// Empties all sums.
template <class T, class W>
void restart_incremental(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  m.done = m.reported = 0;
  const size_t words = size_t(m.format.words) * s.k * s.d;
  check(cudaMemsetAsync(m.sum, 0, words * sizeof *m.sum, s.stream), "clearing the sums");
  check(cudaMemsetAsync(m.count, 0, s.k * sizeof *m.count, s.stream), "clearing the counts");
  check(cudaMemsetAsync(m.previous_label, -1, s.n * sizeof *m.previous_label, s.stream),
        "clearing the previous labels");
  mark_all_dirty(m.dirty, s.k, s.stream);
}

/// Lists the points that moved. The host does not wait.
template <class T, class W>
const MoveCounters* list_moved(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  MoveCounters* const moves = m.moves + std::min(m.done, kept_iterations_of_moves - 1);
  if (m.done++ < loop_on_device) check(cudaMemsetAsync(moves, 0, sizeof *moves, s.stream), "clearing the moves");
  list_moved(s.stream, s.label, m, moves, s.n, s.k, s.d, s.device_info.multiprocessors);
  return moves;
}

template <class T, class W>
void move_points(Run<T, W>& s, const T* rows, const MoveCounters* moves, const FullUpdate& full = {}) {
  move_points(s.stream, rows, s.label, s.ws.incremental, moves, full, s.n, s.k, s.d, s.device_info.multiprocessors);
}

/// Centroids from the sums.
template <class T, class W>
void divide_exact(Run<T, W>& s) {
  divide_exact(s.stream, s.ws.incremental, s.c, s.k, s.d);
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
  auto& m = s.ws.incremental;
  check(cudaMemcpyAsync(m.moves_host, m.moves, std::min(m.done, kept_iterations_of_moves) * sizeof *m.moves,
                        cudaMemcpyDeviceToHost, s.stream),
        "downloading the moves");
}
template <class T, class W>
void report_moves(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  for (; m.reported < std::min(m.done, kept_iterations_of_moves); ++m.reported) {
    const auto moved = m.moves_host[m.reported].points;
    s.counters["points moved"].push_back(int64_t(moved));
    s.counters["points added anew"].push_back(moves_are_many(moved, s.n, m.full_update_share) ? s.n : 0);
  }
}

}  // namespace ladder
