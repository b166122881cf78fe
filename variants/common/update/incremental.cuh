// New centroids out of sums that stay from iteration to iteration: only points whose label changed touch them. The sums
// are exact (fixed_point.cuh), so that what was added can be taken away again, and centroids come out the same to the
// last bit in whatever order, and by whichever way, the points came. v25_incremental_update introduces it.
#pragma once
#include "../lloyd/feature_major.cuh"
#include "../lloyd/phases.cuh"
#include "../pruning/dirty_clusters.cuh"
#include "reproducible_sum.cuh"

namespace ladder {

/// A point that is in the sums of another cluster than that of its label, and which; -1: in none.
struct Moved {
  int32_t point, from;
};

/// Of one iteration.
struct MoveCounters {
  unsigned long long points;  ///< whose label is not that of the cluster that has them
};
constexpr int kept_iterations_of_moves = 1024;  ///< iterations of a solve whose moves are kept

struct IncrementalSums {
  Extremes* extremes = nullptr;       // 1: the range of the points
  FixedPoint format;                  // chosen at upload
  unsigned long long* sum = nullptr;  // words x k x d
  int* count = nullptr;               // k: points of each cluster
  int32_t* previous_label = nullptr;  // n: the cluster whose sums have the point, or -1. Labels of the iteration
                                      // before would do in a solve, but an assignment can be made twice
  Moved* moved = nullptr;             // n: a list of them, in no order
  MoveCounters *moves = nullptr,
               *moves_host = nullptr;  // kept_iterations_of_moves: those of iteration i since the restart are at i
  int share = 2;  // if more than one point in so many has moved, all are added up anew. A move takes a point away from
                  // the one, and adds it to the other: twice the work
  DirtyClusters dirty;
  int done = 0;  // updates since the restart
  int told = 0;  // how many of them State::counters has
};

/// Is it less work to add up all n points anew than to move these? `share`: IncrementalSums::share.
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

/// No point has been looked at for the range that the format of the sums is chosen by.
template <class T, class W>
void clear_range(Run<T, W>& s) {
  const Extremes none;
  to_device(s, s.ws.incremental.extremes, &none, 1, "clearing the range of the points");
}

/// A look at some of the points, `rows` (n x d) on the device.
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

/// Chooses the format of the sums by a look at all points, `rows` (n x d) on the device. Refuses what has none.
template <class T, class W>
void choose_format(Run<T, W>& s, const T* rows) {
  Extremes extremes;
  clear_range(s);
  widen_range(s, rows, all_rows(s));
  fetch_range(s, &extremes);
  check(cudaStreamSynchronize(s.stream), "looking for the range of the points");
  s.ws.incremental.format = fixed_point(extremes, s.points, s.n, s.d);
}

/// No sums have any points.
template <class T, class W>
void restart_incremental(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  m.done = m.told = 0;
  const size_t words = size_t(m.format.words) * s.k * s.d;
  check(cudaMemsetAsync(m.sum, 0, words * sizeof *m.sum, s.stream), "clearing the sums");
  check(cudaMemsetAsync(m.count, 0, s.k * sizeof *m.count, s.stream), "clearing the counts");
  check(cudaMemsetAsync(m.previous_label, -1, s.n * sizeof *m.previous_label, s.stream),
        "clearing who holds the points");
  mark_all_dirty(m.dirty, s.k, s.stream);
}

/// Adds `step` to the points of cluster j, of those lanes that are `mine`, and touches it. One of a warp's lanes with
/// the same j does so for all of them: where there are few clusters, all would meet.
__device__ inline void count_by_warp(int* count, const DirtyClusters& dirty, int j, int step, bool mine) {
  const unsigned same = __match_any_sync(0xffffffffu, mine ? j : -1);
  if (!mine || __ffs(int(same)) - 1 != int(threadIdx.x % 32)) return;
  atomicAdd(&count[j], step * __popc(same));
  dirty.mark(j);
}

constexpr int listed_each = 4;  // points of a thread

/// Lists the points that have moved, and counts them in their new clusters. One atomic a warp on their number.
__global__ void list_moved_kernel(const int32_t* label, int32_t* previous_label, Moved* moved, MoveCounters* moves,
                                  int* count, DirtyClusters dirty, int n) {
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % 32;
  const int64_t first = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x - lane) * listed_each + lane;
  int32_t from, to;
  const auto look = [&](int64_t i) {  // which lanes' points have moved
    from = i < n ? previous_label[i] : 0, to = i < n ? label[i] : 0;
    return __ballot_sync(all, from != to);
  };
  int listed = 0;
#pragma unroll  // all are on their way together
  for (int e = 0; e < listed_each; ++e) listed += __popc(look(first + e * 32));
  if (listed == 0) return;
  unsigned long long place = 0;
  if (lane == 0) place = atomicAdd(&moves->points, static_cast<unsigned long long>(listed));
  place = __shfl_sync(all, place, 0);
#pragma unroll 1  // the second look is at what is in the cache; four copies of the rest would have to be fetched
  for (int64_t i = first; i < first + listed_each * 32; i += 32) {
    const unsigned lanes = look(i);
    if (lanes == 0) continue;
    count_by_warp(count, dirty, from, -1, from != to && from >= 0);
    count_by_warp(count, dirty, to, 1, from != to);
    if (from != to) moved[place + __popc(lanes & ((1u << lane) - 1))] = {int32_t(i), from}, previous_label[i] = to;
    place += __popc(lanes);
  }
}

/// Where many have moved, the sums begin anew.
__global__ void clear_if_many_kernel(const MoveCounters* moves, int share, unsigned long long* sum, int words, int n,
                                     int k, int d) {
  if (!moves_are_many(moves->points, n, share)) return;
  const size_t size = size_t(words) * k * d, all = size_t(gridDim.x) * blockDim.x;
  for (size_t e = blockIdx.x * size_t(blockDim.x) + threadIdx.x; e < size; e += all) sum[e] = 0;
}

/// A thread per moved point and feature takes the value from one cluster's sums and adds it to another's; where many
/// have moved, one per point and feature adds it to its cluster's, unless `anew` says that others do. Neighbouring
/// threads have neighbouring features, and so neighbouring sums.
template <class T>
__global__ void move_kernel(const T* rows, const int32_t* label, const Moved* moved, const MoveCounters* moves,
                            int share, bool anew, unsigned long long* sum, FixedPoint format, int n, int k, int d) {
  const bool all = moves_are_many(moves->points, n, share);
  if (all && !anew) return;
  const auto work = int64_t(all ? n : moves->points);
  const int64_t begin = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, threads = int64_t(gridDim.x) * blockDim.x;
  // A step by as many elements as there are threads is one by points and features: nothing is divided in the loop.
  const int64_t points = threads / d;
  const int features = int(threads % d);
  int64_t at = begin / d;
  for (int f = int(begin % d); at < work; at += points, f += features) {
    if (f >= d) {
      f -= d;
      if (++at >= work) break;
    }
    const Moved move = all ? Moved{int32_t(at), -1} : moved[at];
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

/// Lists the points that have moved, and clears the sums where these are many. The host waits for nothing.
template <class T, class W>
const MoveCounters* list_moved(Run<T, W>& s) {
  auto& m = s.ws.incremental;
  MoveCounters* const moves = m.moves + std::min(m.done, kept_iterations_of_moves - 1);
  if (m.done++ < loop_on_device) check(cudaMemsetAsync(moves, 0, sizeof *moves, s.stream), "clearing the moves");
  launch(list_moved_kernel, blocks(s.n, 128 * listed_each), 128, 0, s.stream, s.label, m.previous_label, m.moved, moves,
         m.count, m.dirty, s.n);
  // As many blocks as run at a time: mostly few points move, and blocks that only end take their time, too.
  const int grid = std::min(blocks(int64_t(m.format.words) * s.k * s.d, 256), 8 * s.device_info.multiprocessors);
  launch(clear_if_many_kernel, grid, 256, 0, s.stream, moves, m.share, m.sum, m.format.words, s.n, s.k, s.d);
  return moves;
}

/// Moves those of the list; `anew`: as move_kernel. `rows`: the points, n x d.
template <class T, class W>
void move_points(Run<T, W>& s, const T* rows, const MoveCounters* moves, bool anew = true) {
  const auto& m = s.ws.incremental;
  const int grid = std::min(blocks(int64_t(s.n) * s.d, 256), 32 * s.device_info.multiprocessors);
  launch(move_kernel<T>, grid, 256, 0, s.stream, rows, s.label, m.moved, moves, m.share, anew, m.sum, m.format, s.n,
         s.k, s.d);
}

template <class T, class W>
void update_incremental(Run<T, W>& s, const T* rows) {
  const auto& m = s.ws.incremental;
  move_points(s, rows, list_moved(s));
  launch(exact_means_kernel<T>, blocks(int64_t(s.k) * s.d, 256), 256, 0, s.stream, m.sum, m.count, s.c, m.format, s.k,
         s.d);
}

/// What the iterations since the last download counted comes down with their result: no iteration waits for it. First
/// it is fetched; it is there to be told once the labels are.
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
  for (; m.told < std::min(m.done, kept_iterations_of_moves); ++m.told) {
    const auto moved = m.moves_host[m.told].points;
    s.counters["points moved"].push_back(int64_t(moved));
    s.counters["points added anew"].push_back(moves_are_many(moved, s.n, m.share) ? s.n : 0);
  }
}

}  // namespace ladder
