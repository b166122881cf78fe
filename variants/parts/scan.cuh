// The nearest of all centroids, exactly, for a few rows or for many: for those of whom bounds said next to nothing. A
// block takes 8 rows at a time, one for each of its warps, and goes through centroids by tiles of 32, one for each
// lane, so that a feature of a centroid that is read, and made a double, serves 8 rows. Where rows are too few to give
// all blocks something to do, centroids are shared out, too: several blocks have a part of them each for the same 8
// rows, and the last one to end compares what they found. recheck.cuh calls it.
#pragma once
#include "exact.cuh"
#include "halves.cuh"

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
      return Exact{exact_sum_of_warp(exact_distance(row, c + int64_t(of) * d, d, threadIdx.x % 32, 32)), of};
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

constexpr int scan_block = 256;                 // 8 warps
constexpr int scan_rows = scan_block / 32;      // of a block
constexpr int scan_tile = 32, scan_depth = 64;  // centroids, and features, of a step

/// What a part of the centroids has for a row.
struct PartNearest {
  double distance;
  int centroid;
};

/// For those who share centroids out.
struct ScanParts {
  PartNearest* found = nullptr;  // of each block that may be under way: one for each of its rows
  int* ended = nullptr;          // as many: how many parts of a group of rows have ended; 0 between two launches
};

/// Into how many parts centroids are shared out where `groups` groups of rows are looked at by `blocks` blocks.
__host__ __device__ inline int scan_parts(int groups, int k, int blocks) {
  const int tiles = (k + scan_tile - 1) / scan_tile, parts = blocks / groups;
  return parts < 1 ? 1 : parts < tiles ? parts : tiles;
}

/// Gives rows row_at(0) .. row_at(scans - 1) of x their labels. All blocks of the grid call it, of scan_block threads.
template <class T, class RowAt>
__device__ void nearest_of_all(const T* __restrict__ x, const T* __restrict__ c, int32_t* __restrict__ label, int scans,
                               const RowAt& row_at, const ScanParts& shared_out, int k, int d) {
  __shared__ T centroids[scan_tile][scan_depth + 1];              // an odd pitch: lanes read different banks
  __shared__ __align__(16) double points[scan_depth][scan_rows];  // a feature of all rows is read at once
  __shared__ double shares[scan_rows][scan_rows][scan_tile];      // warp, row, centroid
  __shared__ bool last;
  if (scans == 0) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int groups = (scans + scan_rows - 1) / scan_rows, tiles = (k + scan_tile - 1) / scan_tile;
  const int parts = scan_parts(groups, k, gridDim.x);
  for (int unit = blockIdx.x; unit < groups * parts; unit += gridDim.x) {
    const int group = unit / parts, part = unit % parts, scanned = group * scan_rows + warp;
    const bool busy = scanned < scans;
    const T* const own = x + int64_t(busy ? row_at(scanned) : 0) * d;
    // The row whose features this thread copies.
    const int copied = group * scan_rows + int(threadIdx.x) % scan_rows;
    const T* const from = copied < scans ? x + int64_t(row_at(copied)) * d : nullptr;
    Nearest nearest;
    for (int tile = int(int64_t(tiles) * part / parts), end = int(int64_t(tiles) * (part + 1) / parts); tile < end;
         ++tile) {
      const int first_centroid = tile * scan_tile;
      double sum[scan_rows] = {};  // of this warp's share of the features
      for (int first = 0; first < d; first += scan_depth) {
        __syncthreads();  // nobody reads the step before any more
#pragma unroll
        for (int e = 0; e < scan_tile * scan_depth; e += scan_block) {
          const int line = (e + int(threadIdx.x)) / scan_depth, f = (e + int(threadIdx.x)) % scan_depth;
          centroids[line][f] =
              first_centroid + line < k && first + f < d ? c[int64_t(first_centroid + line) * d + first + f] : T(0);
        }
        for (int f = threadIdx.x / scan_rows; f < scan_depth; f += scan_block / scan_rows)
          points[f][threadIdx.x % scan_rows] = from && first + f < d ? double(from[first + f]) : 0.0;
        __syncthreads();
        const int features = min(scan_depth, d - first);
#pragma unroll 2
        for (int f = warp; f < features; f += scan_rows) {
          const double z = double(centroids[lane][f]);
#pragma unroll
          for (int r = 0; r < scan_rows; ++r) {
            const double diff = points[f][r] - z;
            sum[r] += diff * diff;
          }
        }
      }
      for (int r = 0; r < scan_rows; ++r) shares[warp][r][lane] = sum[r];
      __syncthreads();  // the next ones are written behind another barrier
      double distance = 0;
      for (int w = 0; w < scan_rows; ++w) distance += shares[w][warp][lane];
      const int j = first_centroid + lane;
      if (busy) nearest.see(j < k, distance, j, own, c, d);
    }
    if (parts == 1) {
      if (busy && lane == 0) label[row_at(scanned)] = nearest.centroid;
      continue;
    }
    PartNearest* const found = shared_out.found + int64_t(group) * parts * scan_rows;  // parts x rows
    if (busy && lane == 0) found[part * scan_rows + warp] = {nearest.distance, nearest.centroid};
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
      const PartNearest one = there ? found[(p + lane) * scan_rows + warp] : PartNearest{};
      all.see(there, one.distance, one.centroid, own, c, d);
    }
    if (lane == 0) label[row_at(scanned)] = all.centroid;
  }
}

/// Room for the parts of a grid of `blocks` blocks.
inline ScanParts take_scan_parts(Resources& s, int blocks) {
  return {s.device<PartNearest>(size_t(blocks) * scan_rows), s.device<int>(blocks)};
}
/// Before the first launch.
inline void clear_scan_parts(Resources& s, const ScanParts& parts, int blocks) {
  check(cudaMemsetAsync(parts.ended, 0, blocks * sizeof(int), s.stream), "clearing the parts of scans");
}

}  // namespace ladder
