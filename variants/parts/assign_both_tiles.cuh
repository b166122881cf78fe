// Labels by tiles of points and of centroids in shared memory, 8 x 8 products a thread. v12b_both_tiles introduces it;
// v25_delta_update keeps it.
#pragma once
#include "features.cuh"
#include "norms.cuh"

namespace ladder {
namespace both_tiles {

constexpr int tile = 128;   // points, and centroids, of a block
constexpr int width = 8;    // features per step
constexpr int block = 256;  // 16 x 16 threads
constexpr int each = 8;     // points, and centroids, of a thread: 4 and, half a tile further, 4
constexpr int spread = 4;   // words between rows of centroids, as in tile_pitch

/// The place within the tile of the `e`-th point of row `lane` of threads, or centroid of column `lane`. Fours, so that
/// a thread reads 16 bytes at once; two of them apart, so that the 16 bytes of neighbours lie in different banks.
__device__ inline int place(int lane, int e) { return e / 4 * (tile / 2) + lane * 4 + e % 4; }

// A float's 64 products leave room for two blocks on a multiprocessor, one computing while the other waits.
template <class T>
__global__ void __launch_bounds__(block, sizeof(T) == 4 ? 2 : 1)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int d) {
  __shared__ __align__(16) T points[2][width][tile];
  __shared__ __align__(16) T centroids[2][width][tile + spread];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16, begin = blockIdx.x * tile;
  // What this thread copies in a step: of one feature 4 points, 32 apart; of one centroid 4 neighbouring features.
  constexpr int copies = tile * width / block;
  const int f = threadIdx.x / 32, p = threadIdx.x % 32, t = threadIdx.x / 2, g = threadIdx.x % 2 * copies;
  T point[copies], centroid[copies];

  T nearest[each];
  int best[each] = {};
  for (int e = 0; e < each; ++e) nearest[e] = std::numeric_limits<T>::infinity();
  for (int first = 0; first < k; first += tile) {
    const auto load = [&](int from) {  // 0 beyond the last feature or centroid; beyond the last point, that one again
      for (int q = 0; q < copies; ++q) {
        point[q] = from + f < d ? x[size_t(from + f) * n + min(begin + p + 32 * q, n - 1)] : T(0);
        centroid[q] = first + t < k && from + g + q < d ? c[size_t(first + t) * d + from + g + q] : T(0);
      }
    };
    const auto store = [&](int to) {
      for (int q = 0; q < copies; ++q) points[to][f][p + 32 * q] = point[q], centroids[to][g + q][t] = centroid[q];
    };
    T product[each][each] = {};
    load(0);
    store(0);
    __syncthreads();  // the first step's features are there
    for (int from = 0, now = 0; from < d; from += width, now ^= 1) {
      const bool more = from + width < d;
      if (more) load(from + width);
#pragma unroll
      for (int u = 0; u < width; ++u) {
        T own[each], other[each];
        for (int e = 0; e < each; ++e) own[e] = points[now][u][place(row, e)];
        for (int e = 0; e < each; ++e) other[e] = centroids[now][u][place(column, e)];
        for (int a = 0; a < each; ++a) {
          for (int b = 0; b < each; ++b) product[a][b] += own[a] * other[b];
        }
      }
      if (more) store(now ^ 1);
      __syncthreads();  // one buffer is full, and nobody reads the other any more
    }
    for (int b = 0; b < each; ++b) {
      const int j = first + place(column, b);
      if (j >= k) break;  // places grow with b
      for (int a = 0; a < each; ++a) {
        const T distance = norm[j] - 2 * product[a][b];  // less |x|^2: it may be below 0
        if (distance < nearest[a]) nearest[a] = distance, best[a] = j;
      }
    }
  }
  // The 16 threads of a row hold the same points: the least of their distances, at equal ones the lower centroid.
  for (int a = 0; a < each; ++a) {
    for (int step = 1; step < 16; step *= 2) {
      const T distance = __shfl_xor_sync(0xffffffffu, nearest[a], step);
      const int j = __shfl_xor_sync(0xffffffffu, best[a], step);
      if (distance < nearest[a] || (distance == nearest[a] && j < best[a])) nearest[a] = distance, best[a] = j;
    }
    const int i = begin + place(row, a);
    if (column == 0 && i < n) label[i] = best[a];
  }
}

}  // namespace both_tiles

template <class T>
void assign_both_tiles(State<T>& s) {
  using namespace both_tiles;
  compute_norms(s);
  launch(assign_kernel<T>, blocks(s.n, tile), block, 0, s.stream, s.x, s.c, norms(s), s.label, s.n, s.k, s.d);
}

}  // namespace ladder
