// The exact label of every row that the bounds did not prove. A row with two candidates: a warp compares the two
// exactly (device/exact_order.cuh). A row with more: all centroids in double, shared out among blocks, and exactly
// where double cannot tell two apart. The kernels are in refine.cu. v25_refine introduces it.
#pragma once
#include "undecided.cuh"

namespace ladder {

constexpr int brute_force_block = 256;                    // 8 warps
constexpr int brute_force_rows = brute_force_block / 32;  // of a block: a row per warp
constexpr int brute_force_tile = 32;                      // centroids of a step
constexpr int refine_blocks_per_sm = 4;

/// The nearest centroid of a row within one part of the centroids.
struct PartialNearest {
  double distance;
  int centroid;
};

/// Scratch memory of blocks that share out the centroids of the same rows.
struct BruteForceParts {
  PartialNearest* found = nullptr;  // blocks x brute_force_rows
  int* ended = nullptr;             // blocks: parts of a group of rows that have ended; 0 between two launches
};

/// Number of parts into which the centroids are shared out where `blocks` blocks search for `groups` groups of rows.
__host__ __device__ inline int brute_force_parts(int groups, int k, int blocks) {
  const int tiles = (k + brute_force_tile - 1) / brute_force_tile, parts = blocks / groups;
  return parts < 1 ? 1 : parts < tiles ? parts : tiles;
}

struct Refinement : UndecidedRows {
  int blocks = 0;  // of the refining kernel
  BruteForceParts parts;
};

/// Stores the exact labels of the rows in the list: pairs from the front of undecided_pairs, rows that are compared
/// with all centroids from its back. x: n x d, c: k x d, row-major. T: float or double.
template <class T>
void refine_rows(const T* x, const T* c, int32_t* label, const Refinement& refinement,
                 const RefineCounters* refine_counters, int n, int k, int d, cudaStream_t stream);

// ---- host side

/// Scratch memory for a grid of `blocks` blocks.
inline BruteForceParts allocate_brute_force_parts(Resources& s, int blocks) {
  return {s.device<PartialNearest>(size_t(blocks) * brute_force_rows), s.device<int>(blocks)};
}
/// Before the first launch.
inline void clear_brute_force_parts(Resources& s, const BruteForceParts& parts, int blocks) {
  check(cudaMemsetAsync(parts.ended, 0, blocks * sizeof(int), s.stream), "clearing the parts of brute force");
}

template <class T, class W>
void prepare_refinement(Run<T, W>& s) {
  prepare_undecided(s);
  auto& refinement = s.ws.refinement;
  refinement.blocks = refine_blocks_per_sm * s.device_info.multiprocessors;
  refinement.parts = allocate_brute_force_parts(s, refinement.blocks);
}

template <class T, class W>
void reset_refinement(Run<T, W>& s) {
  reset_undecided(s);
  clear_brute_force_parts(s, s.ws.refinement.parts, s.ws.refinement.blocks);
}
template <class T, class W>
void restart_refinement(Run<T, W>& s) {
  restart_rows(s);
  reset_refinement(s);
}

template <class T, class W>
void refine(Run<T, W>& s, const RefineCounters* refine_counters) {
  refine_rows<T>(s.ws.rows.points, s.c, s.label, s.ws.refinement, refine_counters, s.n, s.k, s.d, s.stream);
}

}  // namespace ladder
