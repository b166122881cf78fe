// v14: a tile of points in shared memory beside the tile of centroids. In v13 a thread waits for its coordinates from
// global memory, and reads them once for every 32 centroids. Here a block computes 128 x 128 products and each thread
// 8 x 8 of them: 16 numbers from shared memory serve 64 multiply-adds, and a coordinate is read once for every 128
// centroids. While 8 features are multiplied, the next 8 are on their way: loaded to registers before the
// multiplications, stored to the other of two buffers after them.
#include "../common/lloyd/feature_major.cuh"
#include "../common/lloyd/norms.cuh"
#include "../common/update/lane_private.cuh"

namespace {
using namespace ladder;

constexpr int tile = 128;   // points, and centroids, of a block
constexpr int width = 8;    // features per step
constexpr int block = 256;  // 16 x 16 threads
constexpr int each = 8;     // points, and centroids, of a thread: 4 and, half a tile further, 4
constexpr int spread = 4;   // words between rows of centroids, as in tile_pitch

/// The place within the tile of the `e`-th point of row `lane` of threads, or centroid of column `lane`. Fours, so that
/// a thread reads 16 bytes at once; two of them apart, so that the 16 bytes of neighbours lie in different banks.
__device__ int place(int lane, int e) { return e / 4 * (tile / 2) + lane * 4 + e % 4; }

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
    warp_argmin<16>(nearest[a], best[a]);
    const int i = begin + place(row, a);
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

LADDER_VARIANT(.id = "v14_block_tile", .base = "v13_block_size",
               .idea = "points staged in shared memory too, 8 x 8 products per thread",
               .expect =
                   "how matrix products are written; v13's wait for coordinates goes, and with it half the time or "
                   "more where K and D are large; where K or D is small, much of each tile is empty. "
                   "A larger step: to share two tiles, each thread needs other points and other centroids",
               .shows = "assign", .counter = "dram_bytes",
               .source = "V. Volkov and J. Demmel, Benchmarking GPUs to tune dense linear algebra, SC08",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .f32 = phases<float>, .f64 = phases<double>)
