// A group of points per lane, compared with a tile of centroids whose rows are vectors of 16 bytes. v03e_point_group
// introduces it.
#pragma once
#include "../lloyd/vector_load.cuh"

namespace ladder {

__host__ __device__ inline int row_vectors(int d, size_t element_bytes) { return int((d * element_bytes + 15) / 16); }
/// Of a row in shared memory, in vectors; odd: 8 lanes read a vector of their rows from 32 banks.
__host__ __device__ inline int row_pitch(int vectors) { return vectors | 1; }

/// Copies rows of d numbers to rows of vectors, all threads of the block together.
template <int threads, class T>
__device__ void copy_rows(Vec16<T>* to, const T* from, int rows, int d, int vectors, int pitch) {
  for (int e = threadIdx.x; e < rows * vectors; e += threads) {
    const int row = e / vectors, v = e % vectors;
    to[row * pitch + v] = load_vec16(from + size_t(row) * d + v * Vec16<T>::size, d - v * Vec16<T>::size, d);
  }
}

/// Compares `group` points with rows begin, begin + step, ... of a tile of `count` rows, whose row 0 is centroid
/// `first`; points.vector(i, v) is vector v of point i.
template <int group, class Nearest, class Points, class T>
__device__ void compare(Nearest (&nearest)[group], const Points& points, const int (&point)[group],
                        const Vec16<T>* tile, int first, int begin, int step, int count, int vectors, int pitch) {
  for (int j = begin; j < count; j += step) {
    T distance[group] = {};
    for (int v = 0; v < vectors; ++v) {
      const Vec16<T> centroid = tile[j * pitch + v];
#pragma unroll
      for (int r = 0; r < group; ++r) add_squares(distance[r], points.vector(point[r], v), centroid);
    }
#pragma unroll
    for (int r = 0; r < group; ++r) nearest[r].insert(distance[r], first + j);
  }
}

}  // namespace ladder
