// Sums of up to 16 clusters in a warp's registers, as floats; of more clusters in global memory. Sizes: has the pitch
// of a tile's rows and the quads of a row. v25b_register_sums introduces it.
#pragma once
#include "point_tile.cuh"

namespace ladder {

constexpr int most_features_of_sums = 128;  // four a lane
constexpr int most_tiles = 256;             // that a warp adds up in float
/// Products with the centroids take whole fragments.
constexpr int columns_of(int clusters) { return (clusters + mma_columns - 1) / mma_columns * mma_columns; }
/// Whose registers suffice.
constexpr int most_warps(int clusters, bool in_registers) { return !in_registers ? 8 : clusters <= 12 ? 16 : 12; }

/// The sizes that the kernel is compiled for.
inline int clusters_of(int k) { return k <= 8 ? 8 : k <= 12 ? 12 : k <= 16 ? 16 : k <= 32 ? 32 : most_clusters; }

/// The sums of four features, 4 lane .. 4 lane + 3, of all clusters.
template <int clusters>
struct RegisterSums {
  float of[clusters][4] = {};
  /// Adds the tile's points, and counts them as add_points does.
  template <class Stored, class Sizes>
  __device__ void add(const Stored* tile, int label, int (&count)[2], const Sizes& size) {
    const int lane = threadIdx.x % 32;
    const Stored* const features = tile + 4 * min(lane, size.quads - 1);
#pragma unroll
    for (int j = 0; j < clusters; ++j) {
      unsigned rest = __ballot_sync(all_lanes, label == j);
      if (lane == j) count[0] += __popc(rest);
      while (rest != 0) {
        const int row = 31 - __clz(int(rest));
        rest ^= 1u << row;
        const auto x4 = *reinterpret_cast<const Quad<Stored>*>(features + row * size.pitch);
#pragma unroll
        for (int e = 0; e < 4; ++e) of[j][e] += widen(x4.feature[e]);
      }
    }
  }
};

/// Adds the tile's points to `sum` (k x d) in global memory and to `count` (that of cluster j in lane j % 32).
template <class T, class Sizes>
__device__ void add_points(const T* tile, int label, double* sum, int (&count)[2], int k, int d, const Sizes& size) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < k; ++j) {
    const unsigned members = __ballot_sync(all_lanes, label == j);
    if (members == 0) continue;
    count[0] += lane == j ? __popc(members) : 0;  // no dynamic index: the two stay in registers
    count[1] += lane + 32 == j ? __popc(members) : 0;
    for (int f = lane; f < d; f += 32) {
      double part = 0;
      for (unsigned rest = members; rest != 0; rest &= rest - 1)
        part += double(widen(tile[(__ffs(rest) - 1) * size.pitch + f]));
      atomicAdd(&sum[j * d + f], part);
    }
  }
}

}  // namespace ladder
