// A contest only between what has changed. A row has met all centroids by the last assignment, and its label is the
// nearest of them, exactly. If its own centroid has stayed where it was (touched.cuh), only one that has not can be
// nearer now, or as near. So the rows go in two parts: those of touched clusters meet all centroids, all others touched
// ones alone, whose short rows are put side by side. The device parts them: a launch is the same for any part.
// v33_active_set introduces it; docs/certificate.md says why labels stay exact.
#pragma once
#include "../overlap/eager_assign.cuh"

namespace ladder {

/// How many there are of each.
struct Split {
  int own;        ///< rows of touched clusters; all rows, where two parts do not pay
  int others;     ///< all other rows
  int dirty;      ///< centroids
  int placed[2];  ///< where the next row of either part is listed
};

struct ActiveSet {
  Split* split = nullptr;       // 1
  int* rows = nullptr;          // n: those of touched clusters, then the others, both nearly in the order that stands
  int* dirty = nullptr;         // k: the centroids that are
  uint4* short_rows = nullptr;  // theirs, whole tiles of them
  bool proven = false;  // there was an update since the last assignment, and no other: what the sums hold was proven
};

/// A part of a contest; as it stands here, all of it.
struct ActivePart {
  const Split* split = nullptr;
  const int *own = nullptr, *dirty = nullptr;  // ActiveSet::rows; touched: those of the other rows
  __device__ const int* rows(const int* order) const {
    if (!split || split->others == 0) return order;
    return dirty ? own + split->own : own;
  }
  __device__ int count(int n) const { return !split ? n : dirty ? split->others : split->own; }
  __device__ int columns(int k) const { return dirty ? split->dirty : k; }
  __device__ int centroid(int column) const { return dirty ? dirty[column] : column; }
};

/// What a contest is multiplied in: a tile of columns, with as many rows as are multiplied at a time. A part takes as
/// many rounds as it has such rows, full or not.
struct Waves {
  int rows, columns;
  __device__ int64_t operator()(int of_rows, int of_columns) const {
    return (int64_t(of_rows) + rows - 1) / rows * ((int64_t(of_columns) + columns - 1) / columns);
  }
};

constexpr int split_block = 1024;

/// One block: which centroids are touched, and how many rows they have. Two parts have lists to be made, and a launch
/// more: less than an eighth of the rounds is not worth that.
[[maybe_unused]] static __global__ void __launch_bounds__(split_block)
    count_active_kernel(DirtyClusters dirty, const int* count, ActiveSet own, Waves rounds, FilterCounters* contest,
                        int n, int k) {
  constexpr int at_once = 4;  // centroids of a thread that are asked for together
  __shared__ int centroids, rows;
  if (threadIdx.x == 0) centroids = rows = 0;
  __syncthreads();
  int own_rows = 0;
  for (int first = threadIdx.x; first - int(threadIdx.x) < k; first += at_once * split_block) {
    bool mine[at_once];
#pragma unroll
    for (int e = 0; e < at_once; ++e) mine[e] = first + e * split_block < k && dirty[first + e * split_block];
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      const int j = first + e * split_block, place = warp_compact(&centroids, mine[e]);
      if (mine[e]) own.dirty[place] = j, own_rows += count[j];
    }
  }
  atomicAdd(&rows, own_rows);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const bool pays = 8 * (rounds(rows, k) + rounds(n - rows, centroids)) <= 7 * rounds(n, k);
  const int others = pays ? n - rows : 0;
  *own.split = {n - others, others, centroids, {0, n - others}};
  contest->settled_rows = others, contest->skipped_centroids = others > 0 ? k - centroids : 0;
}

/// Lists the rows of either part, a warp some neighbours, which stay neighbours; and puts short rows of touched
/// centroids side by side. What is left of the last tile has the last of them again: nobody asks who that is.
template <class By>
__global__ void partition_kernel(const int* __restrict__ order, const int* __restrict__ guess,
                                 const uint4* __restrict__ c, DirtyClusters dirty, ActiveSet own, int chunks, int n) {
  constexpr unsigned all = 0xffffffffu;
  const Split& split = *own.split;
  if (split.others == 0) return;
  const int lane = threadIdx.x % 32;
  const int64_t thread = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, first = thread / 32 * 32 * listed_each;
  int row[listed_each], found[2] = {};  // of touched clusters, and others
  unsigned lanes[listed_each][2];
#pragma unroll  // all are on their way together
  for (int e = 0; e < listed_each; ++e) row[e] = first + e * 32 + lane < n ? order[first + e * 32 + lane] : -1;
#pragma unroll
  for (int e = 0; e < listed_each; ++e) {
    const bool changed = row[e] >= 0 && dirty[guess[row[e]]];
    lanes[e][0] = __ballot_sync(all, changed), lanes[e][1] = __ballot_sync(all, row[e] >= 0 && !changed);
    for (int p = 0; p < 2; ++p) found[p] += __popc(lanes[e][p]);
  }
  int place = 0;
  if (lane < 2) place = atomicAdd(&own.split->placed[lane], lane == 0 ? found[0] : found[1]);
  int to[2] = {__shfl_sync(all, place, 0), __shfl_sync(all, place, 1)};
#pragma unroll
  for (int e = 0; e < listed_each; ++e) {
    for (int p = 0; p < 2; ++p) {
      if (lanes[e][p] >> lane & 1) own.rows[to[p] + __popc(lanes[e][p] & ((1u << lane) - 1))] = row[e];
      to[p] += __popc(lanes[e][p]);
    }
  }
  constexpr int tile = By::Tile::columns;
  const int64_t columns = (int64_t(split.dirty) + tile - 1) / tile * tile;
  for (int64_t e = thread; e < columns * chunks; e += int64_t(gridDim.x) * blockDim.x) {
    const int column = int(e / chunks), chunk = int(e % chunks);
    const int j = own.dirty[min(column, split.dirty - 1)];
    own.short_rows[By::chunk(column, chunk)] = c[By::chunk(j, chunk)];
  }
}

// ---- the host's side

/// As DeviceFilter, of what has changed.
template <int width>
struct ActiveSetFilter : DeviceFilter<width> {
  using All = DeviceFilter<width>;
  template <class T, class W>
  static void contest(Run<T, W>& s, const ProjectionFilter& few, FilterCounters* contest) {
    auto& own = s.ws.active;
    const Waves rounds{All::rows_at_once(s.device_info.multiprocessors), All::Tile::columns};
    const bool single_wave = s.n <= rounds.rows;  // as many as each part takes
    if (!std::exchange(own.proven, false) || single_wave) return All::contest(s, few, contest, ActivePart{});
    const auto& moved = s.ws.incremental;
    launch(count_active_kernel, 1, split_block, 0, s.stream, moved.dirty, moved.count, own, rounds, contest, s.n, s.k);
    launch(partition_kernel<All>, blocks(s.n, 256 * listed_each), 256, 0, s.stream, few.order.row, few.candidates.guess,
           few.c, moved.dirty, own, width / 8, s.n);
    All::contest(s, few, contest, ActivePart{own.split, own.rows});
    ProjectionFilter settled_rows = few;
    settled_rows.c = own.short_rows;
    All::contest(s, settled_rows, contest, ActivePart{own.split, own.rows, own.dirty});
  }
};

/// After prepare_eager; IncrementalSums::touched is there.
template <class T, class W>
void prepare_active_set(Run<T, W>& s) {
  auto& few = s.ws.filter;
  if (!wants_filter(s)) return;
  few.parted = true;
  const int width = s.axis("width") == by_pilot ? widest : s.axis("width");
  auto& own = s.ws.active;
  own.split = s.template device<Split>(1);
  own.rows = s.template device<int>(s.n);
  own.dirty = s.template device<int>(s.k);
  own.short_rows = s.template device<uint4>(NarrowMainloopSm80<widest>::padded_columns(s.k) * (width / 8));
}

template <class T, class W>
void restart_active_set(Run<T, W>& s) {
  restart_eager(s);
  s.ws.active.proven = false;
}
template <class T, class W>
void update_active_set(Run<T, W>& s) {
  update_ordered(s);
  s.ws.active.proven = true;
}

}  // namespace ladder
