// The nearest of all centroids, exactly, for a few rows or for many: for those of whom bounds said next to nothing. A
// block takes 8 rows at a time, one for each of its warps, and goes through centroids by tiles of 32 and steps of 256
// bytes of features: the next step is on its way from global memory while the sums of this one are made. Where rows are
// too few to give all blocks something to do, centroids are shared out, too: several blocks have a part of them each
// for the same 8 rows, and the last one to end compares what they found. recheck.cuh calls it.
#pragma once
#include <cuda_pipeline.h>

#include "../device/double_double.cuh"
#include "../gemm/fp16_rows.cuh"

namespace ladder {

/// The nearest of the centroids seen so far, of one row: a warp keeps it, the same in all its lanes. Distances are
/// known in double; only those that double cannot tell apart are looked at to 100 bits.
struct Nearest {
  static constexpr int none = std::numeric_limits<int>::max();
  double distance = std::numeric_limits<double>::infinity();  // in double
  int centroid = none;

  /// The warp sees a centroid for each lane: j at `seen`, a squared distance that is off by less than (d + 8) 2^-53 of
  /// it; `valid`: there is one. Each has all d features of `row`, and of the centroids c.
  template <class T>
  __device__ void see(bool valid, double seen, int j, const T* row, const T* c, int d) {
    constexpr unsigned all = 0xffffffffu;
    double least = valid ? seen : std::numeric_limits<double>::infinity();
    for (int half = 16; half > 0; half /= 2) least = min(least, __shfl_xor_sync(all, least, half));
    least = min(least, distance);
    // What is farther by more than twice what both sums are off by is farther.
    const auto farther = [&](double one) { return one * (1 - (d + 8) * 0x1p-51) > least; };
    unsigned open = __ballot_sync(all, valid && !farther(seen));
    if (open == 0) return;
    const bool kept = centroid != none && !farther(distance);
    if (!kept && __popc(open) == 1) {
      const int lane = __ffs(open) - 1;
      distance = __shfl_sync(all, seen, lane), centroid = __shfl_sync(all, j, lane);
      return;
    }
    const auto exactly = [&](int of) {
      return Exact{exact_warp_sum(exact_distance(row, c + int64_t(of) * d, d, threadIdx.x % 32, 32)), of};
    };
    Exact best;
    if (kept) best = exactly(centroid);
    for (; open != 0; open &= open - 1) {
      const int lane = __ffs(open) - 1;
      const Exact here = exactly(__shfl_sync(all, j, lane));
      const double there = __shfl_sync(all, seen, lane);
      if (nearer(here, best)) best = here, distance = there;
    }
    centroid = best.centroid;
  }
};

constexpr int brute_force_block = 256;                    // 8 warps
constexpr int brute_force_rows = brute_force_block / 32;  // of a block
constexpr int brute_force_tile = 32;                      // centroids of a step
template <class T>
constexpr int brute_force_depth = 256 / sizeof(T);  // features of a step

/// A step in shared memory. Lanes that read features of 16 centroids meet in no bank, those that write features of a
/// point in few; a feature of two points is read at once.
template <class T>
struct BruteForceStage {
  T centroids[brute_force_tile][brute_force_depth<T> + 1];
  alignas(16) double points[brute_force_depth<T>][brute_force_rows + 2];
};

/// What a part of the centroids has for a row.
struct PartialNearest {
  double distance;
  int centroid;
};

/// For those who share centroids out.
struct BruteForceParts {
  PartialNearest* found = nullptr;  // of each block that may be under way: one for each of its rows
  int* ended = nullptr;             // as many: how many parts of a group of rows have ended; 0 between two launches
};

/// Into how many parts centroids are shared out where `groups` groups of rows are looked at by `blocks` blocks.
__host__ __device__ inline int brute_force_parts(int groups, int k, int blocks) {
  const int tiles = (k + brute_force_tile - 1) / brute_force_tile, parts = blocks / groups;
  return parts < 1 ? 1 : parts < tiles ? parts : tiles;
}

/// Gives rows row_at(0) .. row_at(scans - 1) of x their labels. All blocks of the grid call it, of brute_force_block
/// threads.
template <class T, class RowAt>
__device__ void nearest_by_brute_force(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label,
                                       int brute_force, const RowAt& row_at, const BruteForceParts& shared_out, int k,
                                       int d) {
  __shared__ BruteForceStage<T> steps[2];  // one is written while another is still read
  __shared__ double shares[brute_force_rows][brute_force_rows][brute_force_tile];  // warp, row, centroid
  __shared__ bool last;
  if (brute_force == 0) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // A lane makes sums of 4 rows and 2 centroids, `column` and 16 further: it reads less than for 8 rows and one.
  const int column = lane % 16, upper = lane / 16 * 4;
  const int groups = (brute_force + brute_force_rows - 1) / brute_force_rows,
            tiles = (k + brute_force_tile - 1) / brute_force_tile;
  const int parts = brute_force_parts(groups, k, gridDim.x);
  constexpr int depth = brute_force_depth<T>;
  int turn = 0;  // whose step is next
  for (int unit = blockIdx.x; unit < groups * parts; unit += gridDim.x) {
    const int group = unit / parts, part = unit % parts, scanned = group * brute_force_rows + warp;
    const bool busy = scanned < brute_force;
    const T* const own = x + int64_t(row_at(min(scanned, brute_force - 1))) * d;
    const int end = int(int64_t(tiles) * (part + 1) / parts);
    int tile = int(int64_t(tiles) * part / parts);
    T point[depth / 32];  // of the next step: they become doubles on their way
    // Begins to fetch a step, each warp its own row and 4 of the centroids. Where there is no centroid, or no feature,
    // what was there stays; nobody looks at it.
    const auto fetch = [&](int of_tile, int first, BruteForceStage<T>& to) {
#pragma unroll
      for (int f = 0; f < depth; f += 32) point[f / 32] = first + f + lane < d ? own[first + f + lane] : T(0);
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
    fetch(tile, 0, steps[turn]);
    for (; tile < end; ++tile) {
      double sum[2][4] = {};  // of this warp's share of the features
      for (int first = 0; first < d; first += depth) {
        BruteForceStage<T>& here = steps[turn];
        turn ^= 1;
#pragma unroll
        for (int f = 0; f < depth; f += 32) here.points[f + lane][warp] = double(point[f / 32]);
        __pipeline_wait_prior(0);
        __syncthreads();  // the step is there for all, and nobody reads the one before any more
        // The next one, of this tile or the first of the next tile, comes while sums are made of this one.
        const bool more = first + depth < d;
        if (more || tile + 1 < end) fetch(more ? tile : tile + 1, more ? first + depth : 0, steps[turn]);
        const int features = min(depth, d - first);
#pragma unroll 2
        for (int f = warp; f < features; f += brute_force_rows) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const double z = double(here.centroids[column + 16 * j][f]);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const double diff = here.points[f][upper + r] - z;
              sum[j][r] += diff * diff;
            }
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) shares[warp][upper + e % 4][column + e / 4 * 16] = sum[e / 4][e % 4];
      __syncthreads();  // the next ones are written behind another barrier
      double distance = 0;
      for (int w = 0; w < brute_force_rows; ++w) distance += shares[w][warp][lane];
      const int j = tile * brute_force_tile + lane;
      if (busy) nearest.see(j < k, distance, j, own, c, d);
    }
    if (parts == 1) {
      if (busy && lane == 0) label[row_at(scanned)] = nearest.centroid;
      continue;
    }
    PartialNearest* const found = shared_out.found + int64_t(group) * parts * brute_force_rows;  // parts x rows
    if (busy && lane == 0) found[part * brute_force_rows + warp] = {nearest.distance, nearest.centroid};
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();  // what this block found is there before it has ended,
      last = atomicAdd(&shared_out.ended[group], 1) == parts - 1;
      __threadfence();  // and who is the last sees what all have
      if (last) shared_out.ended[group] = 0;
    }
    __syncthreads();
    if (!last || !busy) continue;
    Nearest all;
    for (int p = 0; p < parts; p += 32) {
      const bool there = p + lane < parts;
      const PartialNearest one = there ? found[(p + lane) * brute_force_rows + warp] : PartialNearest{};
      all.see(there, one.distance, one.centroid, own, c, d);
    }
    if (lane == 0) label[row_at(scanned)] = all.centroid;
  }
}

/// Room for the parts of a grid of `blocks` blocks.
inline BruteForceParts allocate_brute_force_parts(Resources& s, int blocks) {
  return {s.device<PartialNearest>(size_t(blocks) * brute_force_rows), s.device<int>(blocks)};
}
/// Before the first launch.
inline void clear_brute_force_parts(Resources& s, const BruteForceParts& parts, int blocks) {
  check(cudaMemsetAsync(parts.ended, 0, blocks * sizeof(int), s.stream), "clearing the parts of scans");
}

}  // namespace ladder
