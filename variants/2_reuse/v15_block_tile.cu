// v15: a tile of points in shared memory beside the tile of centroids, as block-tiled matrix products (GEMM) are
// written. In v14 a thread waits for its coordinates from global memory, and reads them once for every 32 centroids.
// Here a block computes a 128 x 128 block tile of products, and each thread a register tile of 8 x 8: 16 numbers from
// shared memory serve 64 multiply-adds, and a coordinate is read once for every 128 centroids.
#include "../../harness/contract/lesson.hpp"
#include "../common/device/warp_argmin.cuh"
#include "../common/lloyd/feature_major.cuh"
#include "../common/lloyd/norms.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

constexpr int tile = 128;           // points, and centroids, of a block
constexpr int width = 8;            // features per step
constexpr int thread_columns = 16;  // 16 x 16 threads: those of a row share points, those of a column centroids
constexpr int block = 256;
constexpr int each = 8;     // points, and centroids, of a thread, side by side
constexpr int padding = 4;  // words between rows of centroids, as in tile_pitch

/// The position in the tile of the `e`-th point of thread row `line`, or centroid of thread column `line`.
__device__ int position(int line, int e) { return line * each + e; }

// A float's 64 products leave room for two blocks on a multiprocessor, one computing while the other waits.
template <class T>
__global__ void __launch_bounds__(block, sizeof(T) == 4 ? 2 : 1)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int d) {
  __shared__ __align__(16) T points[width][tile];
  __shared__ __align__(16) T centroids[width][tile + padding];
  const int row = threadIdx.x / thread_columns, column = threadIdx.x % thread_columns, begin = blockIdx.x * tile;
  // Each step this thread copies 4 points of feature point_f, 32 apart, and 4 neighbouring features of one centroid.
  constexpr int copies = tile * width / block;
  const int point_f = threadIdx.x / 32, point = threadIdx.x % 32;
  const int centroid = threadIdx.x / 2, centroid_f = threadIdx.x % 2 * copies;

  T nearest[each];
  int best[each] = {};
  for (int e = 0; e < each; ++e) nearest[e] = std::numeric_limits<T>::infinity();
  for (int first = 0; first < k; first += tile) {
    T product[each][each] = {};
    for (int from = 0; from < d; from += width) {
      // 0 beyond the last feature or centroid; beyond the last point, that one again
      for (int q = 0; q < copies; ++q) {
        const int f = from + point_f, j = first + centroid, g = from + centroid_f + q;
        points[point_f][point + 32 * q] = f < d ? x[size_t(f) * n + min(begin + point + 32 * q, n - 1)] : T(0);
        centroids[centroid_f + q][centroid] = j < k && g < d ? c[size_t(j) * d + g] : T(0);
      }
      __syncthreads();  // the step's features are there
#pragma unroll
      for (int u = 0; u < width; ++u) {
        T frag_x[each], frag_c[each];
        for (int e = 0; e < each; ++e) frag_x[e] = points[u][position(row, e)];
        for (int e = 0; e < each; ++e) frag_c[e] = centroids[u][position(column, e)];
        for (int a = 0; a < each; ++a) {
          for (int b = 0; b < each; ++b) product[a][b] += frag_x[a] * frag_c[b];
        }
      }
      __syncthreads();  // no thread reads these any more
    }
    for (int b = 0; b < each; ++b) {
      const int j = first + position(column, b);
      if (j >= k) break;  // positions grow with b
      for (int a = 0; a < each; ++a) {
        const T distance = norm[j] - 2 * product[a][b];  // without |x|^2: may be negative
        if (distance < nearest[a]) nearest[a] = distance, best[a] = j;
      }
    }
  }
  // The 16 threads of a row hold the same points: argmin over them.
  for (int a = 0; a < each; ++a) {
    warp_argmin<thread_columns>(nearest[a], best[a]);
    const int i = begin + position(row, a);
    if (column == 0 && i < n) label[i] = best[a];
  }
}

template <class T>
struct Workspace {
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  compute_norms(s);
  launch(assign_kernel<T>, blocks(s.n, tile), block, 0, s.stream, s.x, s.c, norms(s), s.label, s.n, s.k, s.d);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_norms<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v15_block_tile", .base = "v14_block_size",
               .idea = "points staged in shared memory too, 8 x 8 products per thread",
               .expect =
                   "how matrix products are written; v14's wait for coordinates goes, and with it a third of the time "
                   "where K and D are large, although all threads wait for each step's loads, 8 features at a time; "
                   "where K or D is small, much of each tile is empty. "
                   "A larger step: to share two tiles, each thread needs other points and other centroids",
               .shows = "assign", .counter = "dram_bytes",
               .source = "V. Volkov and J. Demmel, Benchmarking GPUs to tune dense linear algebra, SC08",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tiles", "ceil(N / 128) * ceil(K / 128)"},
                          {"multiply_adds", "tiles * 128 * 128 * D"},
                          {"load_requests", "tiles * ceil(D / 8) * 64"},
                          {"sectors_per_load", "(B + 4 * B) / 2"},
                          {"shared_bytes", "reserved + 8 * (128 + 132) * B"},
                          {"bank_conflicts_load", "tiles * 8 * ceil(D / 8) * 8 * 8"},
                          {"occupancy_theoretical_percent", "occupancy(256, 128, shared_bytes)"}},
              .ask =
                  "Per multiply-add a tile of 128 x 128 loads 1/128 + 1/128 numbers from global memory, "
                  "whatever a thread holds. Why 8 x 8 products per thread, and not 4 x 4 in four times as many "
                  "threads?",
              .answer =
                  "For shared memory. Here 16 numbers serve 64 products, 1/4 each; with 4 x 4, 8 numbers would "
                  "serve 16, 1/2 each, and shared memory would be the limit.")
