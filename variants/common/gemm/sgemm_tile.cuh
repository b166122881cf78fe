// Points and centroids as the kernels of matrix products read them: in tiles of whole steps, with zeros beyond the last
// row and the last feature, so that the main loop tests nothing; and which of a tile's products are a thread's own.
// v18_register_tile introduces it; v20_async_copy keeps it.
#pragma once
#include "../lloyd/norms.cuh"
#include "../lloyd/overflow_check.cuh"
#include "../lloyd/vector_load.cuh"
#include "../update/block_private.cuh"

namespace ladder {

constexpr int step = 8;            // features that are staged at once
constexpr int tile_columns = 16;   // threads side by side: each has other centroids, and the same points
constexpr int most_products = 64;  // of a thread with doubles: 128 of its 255 registers. Floats have twice as many

/// How `block` threads, each with `points` points, share the products of a tile of points and a tile of centroids.
template <class T, int points, int block>
struct MicroTile {
  static constexpr int size = Vec16<T>::size;
  static constexpr int rows = block / tile_columns;                                                 // of threads
  static constexpr int centroids = std::min<int>(8, most_products*(8 / sizeof(T)) / points);        // of a thread
  static constexpr int wide_points = rows * points, wide_centroids = tile_columns * centroids;      // of the tile
  static constexpr int point_pieces = wide_points / size, centroid_pieces = wide_centroids / size;  // of a feature
  /// Blocks whose registers fit a multiprocessor: 64 of a thread's hold products, or 128.
  static constexpr int resident = (points * centroids * sizeof(T) == 256 ? 512 : 256) / block;

  /// This thread's row and column. A warp has 4 rows and 8 columns, whose lanes differ in the bits 1, 2 and 3: so each
  /// lane reads its centroids where its neighbour (lane ^ 1) does, and its points where lane ^ 2 does. Then loads of 16
  /// bytes take two turns of shared memory, a half warp each; in another order they take up to four.
  int row, column;
  __device__ MicroTile() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / 2 * 4 + lane / 16 * 2 + lane % 2;
    column = warp % 2 * 8 + lane / 2 % 8;
  }
  /// Where in the tile the thread's e-th point is, or centroid: pieces of 16 bytes, next to those of its neighbours.
  __device__ int point(int e) const { return (e / size * rows + row) * size + e % size; }
  __device__ int centroid(int e) const { return (e / size * tile_columns + column) * size + e % size; }
};

template <class T>
struct PackedOperands {
  int points = 0, block = 0;                // of the kernel that suits this problem
  int wide_points = 0, wide_centroids = 0;  // of its tiles
  int steps = 0;                            // of a tile
  T *x = nullptr, *c = nullptr;
};

/// `count` rows (row-major, or feature by feature) to tiles of `wide` rows: in each, feature after feature.
template <class T, Layout layout>
__global__ void tile_kernel(const T* from, T* to, int count, int d, int wide, int features) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, tile = e / wide / features;
  const int64_t i = tile * wide + e % wide;
  if (tile > (count - 1) / wide) return;
  const int f = int(e / wide % features);
  to[e] = i < count && f < d ? from[element<layout>(int(i), f, count, d)] : T(0);
}

/// Elements of `count` rows in such tiles.
inline size_t tiled(int count, int wide, int steps) { return size_t(blocks(count, wide)) * wide * steps * step; }

template <class T, Layout layout>
void to_tiles(State<T>& s, const T* from, T* to, int count, int wide, int steps) {
  launch(tile_kernel<T, layout>, blocks(int64_t(tiled(count, wide, steps)), 256), 256, 0, s.stream, from, to, count,
         s.d, wide, steps * step);
}

/// Room for sums, norms and tiles. Those of the points take the place in which the rows arrive.
template <class T, class W>
void prepare_tiles(Run<T, W>& s) {
  prepare_sums(s);
  prepare_square_range(s);
  auto& tiles = s.ws.tiles;
  tiles.points = s.axis("points"), tiles.block = s.axis("block");
  // Large tiles are worth it only where every multiprocessor has one.
  const auto idle = [&] {
    return blocks(s.n, tiles.points * tiles.block / tile_columns) < s.device_info.multiprocessors;
  };
  if (idle()) tiles.block = 128;
  if (idle()) tiles.points = 8;
  dispatch<8, 16>(tiles.points, [&]<int points>() {
    dispatch<128, 256>(tiles.block, [&]<int block>() {
      using Tile = MicroTile<T, points, block>;
      tiles.wide_points = Tile::wide_points, tiles.wide_centroids = Tile::wide_centroids;
    });
  });
  tiles.steps = blocks(s.d, step);
  tiles.x = s.template device<T>(tiled(s.n, tiles.wide_points, tiles.steps));
  tiles.c = s.template device<T>(tiled(s.k, tiles.wide_centroids, tiles.steps));
  s.ws.rows.points = tiles.x;
  s.ws.norms.c = s.template device<T>(s.k);
}

template <class T, class W>
void upload_tiles(Run<T, W>& s) {
  const auto& tiles = s.ws.tiles;
  upload_features(s);
  refuse_square_range(s);  // while the rows are where they arrived
  to_tiles<T, Layout::features>(s, s.x, tiles.x, s.n, tiles.wide_points, tiles.steps);
}

/// Once per iteration.
template <class T, class W>
void tile_centroids(Run<T, W>& s) {
  const auto& tiles = s.ws.tiles;
  to_tiles<T, Layout::rows>(s, s.c, tiles.c, s.k, tiles.wide_centroids, tiles.steps);
}

}  // namespace ladder
