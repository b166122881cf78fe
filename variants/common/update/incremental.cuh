// New centroids from sums that are kept between iterations: only points whose label changed are subtracted from one sum
// and added to another. Sums are exact (reproducible_sum.cuh), so a value that was added can be subtracted again, and the
// centroids have the same bits in whatever order the atomics arrive. v25_incremental_update introduces it.
#pragma once
#include "../lloyd/feature_major.cuh"
#include "../lloyd/row_range.cuh"
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
  const int grid = std::min(blocks(count, 256), 16 * s.device_info.multiprocessors);
  launch(extremes_kernel<T>, grid, 256, 0, s.stream, rows, s.ws.incremental.extremes, begin, begin + count);
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

/// Adds `step` to the count of cluster j and marks it dirty, for lanes that are `active`: one atomic for all lanes of a
/// warp with the same j, as with few clusters all would contend for one word.
__device__ inline void count_by_warp(int* count, const DirtyClusters& dirty, int j, int step, bool active) {
  const unsigned same = __match_any_sync(0xffffffffu, active ? j : -1);
  if (!active || __ffs(int(same)) - 1 != int(threadIdx.x % 32)) return;
  atomicAdd(&count[j], step * __popc(same));
  dirty.mark(j);
}

constexpr int points_per_lane = 4;

/// Lists the points that moved and updates the clusters' counts. A warp appends to the list with one atomic.
__global__ void list_moved_kernel(const int32_t* label, int32_t* previous_label, Moved* moved, MoveCounters* moves,
                                  int* count, DirtyClusters dirty, int n) {
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % 32;
  const int64_t first = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x - lane) * points_per_lane + lane;
  int32_t from, to;
  const auto ballot_moved = [&](int64_t i) {  // a bit for each lane whose point moved
    from = i < n ? previous_label[i] : 0, to = i < n ? label[i] : 0;
    return __ballot_sync(all, from != to);
  };
  int listed = 0;
#pragma unroll  // the loads of all points are in flight together
  for (int e = 0; e < points_per_lane; ++e) listed += __popc(ballot_moved(first + e * 32));
  if (listed == 0) return;
  unsigned long long index = 0;
  if (lane == 0) index = atomicAdd(&moves->points, static_cast<unsigned long long>(listed));
  index = __shfl_sync(all, index, 0);
#pragma unroll 1  // the second loads hit the cache; four copies of the body would cost instruction fetches
  for (int64_t i = first; i < first + points_per_lane * 32; i += 32) {
    const unsigned lanes = ballot_moved(i);
    if (lanes == 0) continue;
    count_by_warp(count, dirty, from, -1, from != to && from >= 0);
    count_by_warp(count, dirty, to, 1, from != to);
    if (from != to) moved[index + __popc(lanes & ((1u << lane) - 1))] = {int32_t(i), from}, previous_label[i] = to;
    index += __popc(lanes);
  }
}

/// Before a full re-sum: clears the sums.
__global__ void clear_if_many_kernel(const MoveCounters* moves, int share, unsigned long long* sum, int words, int n,
                                     int k, int d) {
  if (!moves_are_many(moves->points, n, share)) return;
  const size_t size = size_t(words) * k * d, all = size_t(gridDim.x) * blockDim.x;
  for (size_t e = blockIdx.x * size_t(blockDim.x) + threadIdx.x; e < size; e += all) sum[e] = 0;
}

/// What move_points() does where most points moved.
struct FullUpdate {
  bool skip = false;           ///< nothing: another kernel re-sums
  const int* order = nullptr;  ///< n: the points in this order; null: by their number
};

/// A thread per moved point and feature subtracts the value from one sum and adds it to another; in a full re-sum, one
/// per point and feature adds it. Neighbouring threads have neighbouring features, so their atomics are coalesced.
template <class T>
__global__ void move_kernel(const T* rows, const int32_t* label, const Moved* moved, const MoveCounters* moves,
                            int share, FullUpdate full, unsigned long long* sum, FixedPoint format, int n, int k,
                            int d) {
  const bool all = moves_are_many(moves->points, n, share);
  if (all && full.skip) return;
  const auto work = int64_t(all ? n : moves->points);
  const int64_t begin = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, threads = int64_t(gridDim.x) * blockDim.x;
  // A step by as many elements as there are threads is a step by whole points and some features: no division in the
  // loop.
  const int64_t points = threads / d;
  const int features = int(threads % d);
  int64_t index = begin / d;
  for (int f = int(begin % d); index < work; index += points, f += features) {
    if (f >= d) {
      f -= d;
      if (++index >= work) break;
    }
    const Moved move = all ? Moved{full.order ? full.order[index] : int32_t(index), -1} : moved[index];
    const int to = label[move.point];
    for_digits(double(rows[size_t(move.point) * d + f]), format, [&](int w, long long digit) {
      unsigned long long* const word = sum + size_t(w) * k * d + f;
      if (move.from >= 0) atomicAdd(word + size_t(move.from) * d, static_cast<unsigned long long>(-digit));
      atomicAdd(word + size_t(to) * d, static_cast<unsigned long long>(digit));
    });
  }
}

template <class T>
__global__ void exact_means_kernel(const unsigned long long* sum, const int* count, T* c, FixedPoint format, int k,
                                   int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t(k) * d || count[e / d] == 0) return;  // a centroid without points stays
  c[e] = mean_of<T>(SumWords(sum + e, size_t(k) * d, format), count[e / d], format);
}

/// Lists the points that moved, and clears the sums before a full re-sum. The host does not wait.
template <class T, class W>
const MoveCounters* list_moved(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  MoveCounters* const moves = m.moves + std::min(m.done, kept_iterations_of_moves - 1);
  if (m.done++ < loop_on_device) check(cudaMemsetAsync(moves, 0, sizeof *moves, s.stream), "clearing the moves");
  launch(list_moved_kernel, blocks(s.n, 128 * points_per_lane), 128, 0, s.stream, s.label, m.previous_label, m.moved,
         moves, m.count, m.dirty, s.n);
  // One wave of blocks: mostly few points move, and launching blocks that end at once takes time, too.
  const int grid = std::min(blocks(int64_t(m.format.words) * s.k * s.d, 256), 8 * s.device_info.multiprocessors);
  launch(clear_if_many_kernel, grid, 256, 0, s.stream, moves, m.full_update_share, m.sum, m.format.words, s.n, s.k,
         s.d);
  return moves;
}

/// Brings the sums up to date, after list_moved(). `rows`: the points, n x d.
template <class T, class W>
void move_points(Run<T, W>& s, const T* rows, const MoveCounters* moves, const FullUpdate& full = {}) {
  const auto& m = s.ws.incremental;
  const int grid = std::min(blocks(int64_t(s.n) * s.d, 256), 32 * s.device_info.multiprocessors);
  launch(move_kernel<T>, grid, 256, 0, s.stream, rows, s.label, m.moved, moves, m.full_update_share, full, m.sum,
         m.format, s.n, s.k, s.d);
}

/// Centroids from the sums.
template <class T, class W>
void divide_exact(Run<T, W>& s) {
  const auto& m = s.ws.incremental;
  launch(exact_means_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, m.sum, m.count, s.c, m.format, s.k,
         s.d);
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
