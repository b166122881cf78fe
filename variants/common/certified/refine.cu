// The kernels of refine.cuh: exact comparison of two candidates, and brute force over all centroids. A block
// takes 8 rows at a time, one per warp, and goes through the centroids in tiles of 32 and steps of 256 bytes of
// features: cp.async copies the next step while the sums of this one are computed. Where the rows are too few to occupy
// all blocks, the centroids are shared out, too: several blocks take a part of them each for the same 8 rows, and the
// last block to end compares their results.
#include "refine.cuh"

#include <cuda_pipeline.h>

#include "../device/exact_order.cuh"
#include "../device/warp.cuh"

namespace ladder {
namespace {

/// The nearest centroid of one row so far: kept by a warp, the same in all its lanes. Distances are in double; those
/// that double cannot tell apart are compared exactly (device/exact_order.cuh).
struct Nearest {
  static constexpr int none = std::numeric_limits<int>::max();
  double distance = std::numeric_limits<double>::infinity();
  int centroid = none;

  /// One more centroid per lane: centroid j at the squared distance `current`, which is off by less than
  /// (d + 8) 2^-53 of it; lanes without `valid` have none. All d features of `row` and of the centroids c are at hand.
  template <class T>
  __device__ void insert(bool valid, double current, int j, const T* row, const T* c, int d) {
    constexpr unsigned all = 0xffffffffu;
    const double lowest = min(warp_min(valid ? current : std::numeric_limits<double>::infinity()), distance);
    // A difference above twice the errors of both sums is a proof.
    const auto farther = [&](double value) { return value * (1 - (d + 8) * 0x1p-51) > lowest; };
    unsigned open = __ballot_sync(all, valid && !farther(current));
    if (open == 0) return;
    const bool kept = centroid != none && !farther(distance);
    if (!kept && __popc(open) == 1) {
      const int lane = __ffs(open) - 1;
      distance = __shfl_sync(all, current, lane), centroid = __shfl_sync(all, j, lane);
      return;
    }
    if (!kept) centroid = none;
    for (; open != 0; open &= open - 1) {
      const int lane = __ffs(open) - 1, candidate = __shfl_sync(all, j, lane);
      const double rounded = __shfl_sync(all, current, lane);
      if (centroid == none || nearer<32>(candidate, centroid, row, c, d)) centroid = candidate, distance = rounded;
    }
  }
};

template <class T>
constexpr int brute_force_depth = 256 / sizeof(T);  // features of a step

/// A step in shared memory. Reading a feature of 16 centroids has no bank conflict, writing features of a point few; a
/// feature of two points is read at once.
template <class T>
struct BruteForceStage {
  T centroids[brute_force_tile][brute_force_depth<T> + 1];
  alignas(16) double points[brute_force_depth<T>][brute_force_rows + 2];
};

/// Labels of the rows row_at(0) .. row_at(brute_force - 1) of x. Called by all threads of all blocks of the grid,
/// brute_force_block threads each.
template <class T, class RowAt>
__device__ void nearest_by_brute_force(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                                       int brute_force, const RowAt& row_at, const BruteForceParts& scratch, int k,
                                       int d) {
  __shared__ BruteForceStage<T> stages[2];  // one is copied while the other is read
  __shared__ double shares[brute_force_rows][brute_force_rows][brute_force_tile];  // warp, row, centroid
  __shared__ bool last;
  if (brute_force == 0) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // A lane sums for 4 rows and 2 centroids, `column` and column + 16: fewer reads than for 8 rows and one centroid.
  const int column = lane % 16, upper = lane / 16 * 4;
  const int groups = (brute_force + brute_force_rows - 1) / brute_force_rows,
            tiles = (k + brute_force_tile - 1) / brute_force_tile;
  const int parts = brute_force_parts(groups, k, gridDim.x);
  constexpr int depth = brute_force_depth<T>;
  int stage = 0;  // the next step's
  for (int unit = blockIdx.x; unit < groups * parts; unit += gridDim.x) {
    const int group = unit / parts, part = unit % parts, index = group * brute_force_rows + warp;
    const bool busy = index < brute_force;
    const T* const row = x + int64_t(row_at(min(index, brute_force - 1))) * d;
    const int end = int(int64_t(tiles) * (part + 1) / parts);
    int tile = int(int64_t(tiles) * part / parts);
    T point[depth / 32];  // of the next step, to be converted to double
    // Starts the copy of a step: each warp its row and 4 of the centroids. Places beyond the last centroid or feature
    // keep old values, which are not read.
    const auto fetch = [&](int of_tile, int first, BruteForceStage<T>& to) {
#pragma unroll
      for (int f = 0; f < depth; f += 32) point[f / 32] = first + f + lane < d ? row[first + f + lane] : T(0);
      const T* from = c + (int64_t(of_tile) * brute_force_tile + warp) * d + first + lane;
#pragma unroll
      for (int line = warp; line < brute_force_tile; line += brute_force_rows, from += int64_t(brute_force_rows) * d) {
#pragma unroll
        for (int f = 0; f < depth; f += 32)
          if (of_tile * brute_force_tile + line < k && first + f + lane < d)
            __pipeline_memcpy_async(&to.centroids[line][f + lane], from + f, sizeof(T));
      }
      __pipeline_commit();
    };
    Nearest nearest;
    fetch(tile, 0, stages[stage]);
    for (; tile < end; ++tile) {
      double sum[2][4] = {};  // over this warp's share of the features
      for (int first = 0; first < d; first += depth) {
        BruteForceStage<T>& current = stages[stage];
        stage ^= 1;
#pragma unroll
        for (int f = 0; f < depth; f += 32) current.points[f + lane][warp] = double(point[f / 32]);
        __pipeline_wait_prior(0);
        __syncthreads();  // the step is visible to all, and the one before is free
        // The next step, of this tile or the first of the next tile, is copied while this one is summed.
        const bool more = first + depth < d;
        if (more || tile + 1 < end) fetch(more ? tile : tile + 1, more ? first + depth : 0, stages[stage]);
        const int features = min(depth, d - first);
#pragma unroll 2
        for (int f = warp; f < features; f += brute_force_rows) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const double z = double(current.centroids[column + 16 * j][f]);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const double diff = current.points[f][upper + r] - z;
              sum[j][r] += diff * diff;
            }
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) shares[warp][upper + e % 4][column + e / 4 * 16] = sum[e / 4][e % 4];
      __syncthreads();  // the next shares are written after another barrier
      double distance = 0;
      for (int w = 0; w < brute_force_rows; ++w) distance += shares[w][warp][lane];
      const int j = tile * brute_force_tile + lane;
      if (busy) nearest.insert(j < k, distance, j, row, c, d);
    }
    if (parts == 1) {
      if (busy && lane == 0) label[row_at(index)] = nearest.centroid;
      continue;
    }
    PartialNearest* const found = scratch.found + int64_t(group) * parts * brute_force_rows;  // parts x rows
    if (busy && lane == 0) found[part * brute_force_rows + warp] = {nearest.distance, nearest.centroid};
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();  // this block's results are visible before its end is counted,
      last = atomicAdd(&scratch.ended[group], 1) == parts - 1;
      __threadfence();  // and the last block reads all results after the count
      if (last) scratch.ended[group] = 0;
    }
    __syncthreads();
    if (!last || !busy) continue;
    Nearest all;
    for (int p = 0; p < parts; p += 32) {
      const bool valid = p + lane < parts;
      const PartialNearest part = valid ? found[(p + lane) * brute_force_rows + warp] : PartialNearest{};
      all.insert(valid, part.distance, part.centroid, row, c, d);
    }
    if (lane == 0) label[row_at(index)] = all.centroid;
  }
}

/// Pairs first, a warp per row; then brute force.
template <class T>
__global__ void __launch_bounds__(brute_force_block, refine_blocks_per_sm)
    refine_kernel(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                  const UndecidedPair* undecided_pairs, const RefineCounters* refine_counters, BruteForceParts parts,
                  int n, int k, int d) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int index = blockIdx.x * warps + threadIdx.x / 32; index < refine_counters->pairs; index += gridDim.x * warps) {
    const UndecidedPair pair = undecided_pairs[index];
    const bool is_first = nearer<32>(pair.first, pair.second, x + size_t(pair.row) * d, c, d);
    if (lane == 0) label[pair.row] = is_first ? pair.first : pair.second;
  }
  const auto row_at = [&](int index) { return undecided_pairs[n - 1 - index].row; };
  nearest_by_brute_force(x, c, label, refine_counters->brute_force, row_at, parts, k, d);
}

}  // namespace

template <class T>
void refine_rows(const T* x, const T* c, int32_t* label, const Refinement& refinement,
                 const RefineCounters* refine_counters, int n, int k, int d, cudaStream_t stream) {
  launch(refine_kernel<T>, refinement.blocks, brute_force_block, 0, stream, x, c, label, refinement.undecided_pairs,
         refine_counters, refinement.parts, n, k, d);
}
template void refine_rows(const float*, const float*, int32_t*, const Refinement&, const RefineCounters*, int, int, int,
                          cudaStream_t);
template void refine_rows(const double*, const double*, int32_t*, const Refinement&, const RefineCounters*, int, int,
                          int, cudaStream_t);

}  // namespace ladder
