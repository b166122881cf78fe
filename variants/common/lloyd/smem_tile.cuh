// A tile of centroids in shared memory: `width` features of `tile` centroids, feature by feature. First used by
// v08_shared_tiles.
#pragma once
#include "feature_major.cuh"

namespace ladder {

/// Words from one feature of a tile to the next. Four more than the tile is wide: neighbouring threads write
/// neighbouring features, which would otherwise all fall into one bank. Rows stay 16-byte aligned, for loads of 16
/// bytes.
template <int tile>
constexpr int tile_pitch = tile + 4;

/// Copies the features [from, from + width) of the centroids [first, first + tile) to `shared`; 0 beyond the last of
/// either. All threads of the block must call it. Threads read what others have written, hence two barriers: the first
/// ends the reads of the tile before, the second the writes of this one.
template <int tile, class T>
__device__ void stage_tile(T* shared, const T* c, int first, int from, int width, int k, int d) {
  __syncthreads();
  for (int e = threadIdx.x; e < tile * width; e += blockDim.x) {
    const int t = e / width, f = e % width;  // neighbouring threads read neighbouring words
    const bool exists = first + t < k && from + f < d;
    shared[f * tile_pitch<tile> + t] = exists ? c[size_t(first + t) * d + from + f] : T(0);
  }
  __syncthreads();
}

/// Features per tile: all, or as many as 16 KB hold, so that several blocks fit a multiprocessor.
template <int tile, class T>
int tile_width(int d) {
  return std::min(d, int((16 << 10) / (tile_pitch<tile> * sizeof(T))));
}
template <int tile, class T>
size_t tile_bytes(int width) {
  return size_t(width) * tile_pitch<tile> * sizeof(T);
}

}  // namespace ladder
