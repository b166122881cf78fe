// Kernels of active_set.cuh.
//
// for cuda: 90a
#include "../device/warp_compact.cuh"
#include "active_set.cuh"

namespace ladder {
namespace {

constexpr int split_block = 1024, points_per_lane = 4;

/// One block: lists the dirty centroids and counts their rows. A split costs two lists and a launch more: it must save
/// at least an eighth of the waves.
__global__ void __launch_bounds__(split_block)
    count_active_kernel(DirtyClusters dirty, const int* count, ActiveSet active, Waves waves, FilterCounters* counters,
                        int n, int k) {
  constexpr int loads = 4;  // of a thread in flight
  __shared__ int centroids, rows;
  if (threadIdx.x == 0) centroids = rows = 0;
  __syncthreads();
  int thread_rows = 0;
  for (int first = threadIdx.x; first - int(threadIdx.x) < k; first += loads * split_block) {
    bool is_dirty[loads];
#pragma unroll
    for (int e = 0; e < loads; ++e) is_dirty[e] = first + e * split_block < k && dirty[first + e * split_block];
#pragma unroll
    for (int e = 0; e < loads; ++e) {
      const int j = first + e * split_block, index = warp_compact(&centroids, is_dirty[e]);
      if (is_dirty[e]) active.dirty[index] = j, thread_rows += count[j];
    }
  }
  atomicAdd(&rows, thread_rows);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const bool pays = 8 * (waves(rows, k) + waves(n - rows, centroids)) <= 7 * waves(n, k);
  const int clean = pays ? n - rows : 0;
  *active.split = {n - clean, clean, centroids, {0, n - clean}};
  counters->settled_rows = clean, counters->skipped_centroids = clean > 0 ? k - centroids : 0;
}

/// Lists the rows of either part; a warp's rows stay neighbours. Copies the short rows of dirty centroids side by side;
/// the padding of the last tile repeats the last of them, and the filter ignores columns behind split.dirty.
template <int width, ShortRowLayout layout>
__global__ void partition_kernel(const int* __restrict__ order, const int* __restrict__ guess,
                                 const uint4* __restrict__ c, DirtyClusters dirty, ActiveSet active, int n) {
  constexpr unsigned all = 0xffffffffu;
  const FilterSplit& split = *active.split;
  if (split.clean_rows == 0) return;
  const int lane = threadIdx.x % 32;
  const int64_t thread = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, first = thread / 32 * 32 * points_per_lane;
  int row[points_per_lane], found[2] = {};  // rows of dirty clusters, and others
  unsigned lanes[points_per_lane][2];
#pragma unroll  // loads in flight together
  for (int e = 0; e < points_per_lane; ++e) row[e] = first + e * 32 + lane < n ? order[first + e * 32 + lane] : -1;
#pragma unroll
  for (int e = 0; e < points_per_lane; ++e) {
    const bool is_dirty = row[e] >= 0 && dirty[guess[row[e]]];
    lanes[e][0] = __ballot_sync(all, is_dirty), lanes[e][1] = __ballot_sync(all, row[e] >= 0 && !is_dirty);
    for (int p = 0; p < 2; ++p) found[p] += __popc(lanes[e][p]);
  }
  int index = 0;
  if (lane < 2) index = atomicAdd(&active.split->next[lane], lane == 0 ? found[0] : found[1]);
  int to[2] = {__shfl_sync(all, index, 0), __shfl_sync(all, index, 1)};
#pragma unroll
  for (int e = 0; e < points_per_lane; ++e) {
    for (int p = 0; p < 2; ++p) {
      if (lanes[e][p] >> lane & 1) active.rows[to[p] + __popc(lanes[e][p] & ((1u << lane) - 1))] = row[e];
      to[p] += __popc(lanes[e][p]);
    }
  }
  constexpr int tile = short_row_tile, chunks = width / 8;
  const int64_t columns = (int64_t(split.dirty) + tile - 1) / tile * tile;
  for (int64_t e = thread; e < columns * chunks; e += int64_t(gridDim.x) * blockDim.x) {
    const int column = int(e / chunks), chunk = int(e % chunks);
    const int j = active.dirty[min(column, split.dirty - 1)];
    active.short_rows[short_row_chunk<width, layout>(column, chunk)] = c[short_row_chunk<width, layout>(j, chunk)];
  }
}

}  // namespace

void split_active_set(int width, ShortRowLayout layout, cudaStream_t stream, const FilterOperands& o,
                      const DirtyClusters& dirty, const int* count, const ActiveSet& active, const Waves& waves) {
  launch(count_active_kernel, 1, split_block, 0, stream, dirty, count, active, waves, o.counters, o.n, o.k);
  dispatch_width(width, [&]<int width>() {
    const auto partition = [&]<ShortRowLayout layout>() {
      launch(partition_kernel<width, layout>, blocks(o.n, 256 * points_per_lane), 256, 0, stream, o.order,
             o.candidates.guess, o.c, dirty, active, o.n);
    };
    dispatch_layout(layout, partition);
  });
}

}  // namespace ladder
