// Kernels of incremental.cuh.
#include "incremental.cuh"

namespace ladder {
namespace {

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
    move_feature(sum, format, double(rows[size_t(move.point) * d + f]), f, move.from, to, k, d);
  }
}

}  // namespace

void list_moved(cudaStream_t stream, const int32_t* label, const IncrementalSums& m, MoveCounters* moves, int n, int k,
                int d, int multiprocessors) {
  launch(list_moved_kernel, blocks(n, 128 * points_per_lane), 128, 0, stream, label, m.previous_label, m.moved, moves,
         m.count, m.dirty, n);
  // One wave of blocks: mostly few points move, and launching blocks that end at once takes time, too.
  const int grid = std::min(blocks(int64_t(m.format.words) * k * d, 256), 8 * multiprocessors);
  launch(clear_if_many_kernel, grid, 256, 0, stream, moves, m.full_update_share, m.sum, m.format.words, n, k, d);
}

template <class T>
void move_points(cudaStream_t stream, const T* rows, const int32_t* label, const IncrementalSums& m,
                 const MoveCounters* moves, const FullUpdate& full, int n, int k, int d, int multiprocessors) {
  const int grid = std::min(blocks(int64_t(n) * d, 256), 32 * multiprocessors);
  launch(move_kernel<T>, grid, 256, 0, stream, rows, label, m.moved, moves, m.full_update_share, full, m.sum, m.format,
         n, k, d);
}

template void move_points<float>(cudaStream_t, const float*, const int32_t*, const IncrementalSums&,
                                 const MoveCounters*, const FullUpdate&, int, int, int, int);
template void move_points<double>(cudaStream_t, const double*, const int32_t*, const IncrementalSums&,
                                  const MoveCounters*, const FullUpdate&, int, int, int, int);

}  // namespace ladder
