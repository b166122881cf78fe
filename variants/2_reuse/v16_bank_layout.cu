// v16: bank conflicts. In v15 a thread's 8 centroids lie side by side, so the 16-byte reads of neighbouring threads
// begin 32 bytes apart: 8 threads span 64 banks, two turns where one would do. Here a thread's centroids are 4 and,
// half a tile further, 4: neighbours read neighbouring 16 bytes, from different banks.
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
constexpr int each = 8;     // points, and centroids, of a thread: 4 and, half a tile further, 4
constexpr int padding = 4;  // words between rows of centroids, as in tile_pitch

/// The position in the tile of the `e`-th point of thread row `line`, or centroid of thread column `line`. Groups of 4,
/// so that a thread reads 16 bytes at once; two groups half a tile apart, so that neighbours read from different banks.
__device__ int position(int line, int e) { return e / 4 * (tile / 2) + line * 4 + e % 4; }

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
      for (int q = 0; q < copies;
           ++q) {  // 0 beyond the last feature or centroid; beyond the last point, that one again
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

LADDER_VARIANT(.id = "v16_bank_layout", .base = "v15_block_tile",
               .idea = "a thread's centroids lie in two groups, so that neighbours read from different banks",
               .expect =
                   "of the four 16-byte reads of a feature, the two of centroids take two turns instead of four; the "
                   "points' are broadcasts. 64 multiply-adds of a warp take 16 turns of the scheduler, its reads 4 to "
                   "6: some percent where K and D are large",
               .shows = "assign", .counter = "bank_conflicts_load",
               .source = "NVIDIA, CUDA C++ Programming Guide, Shared Memory",
               .arithmetic = {.form = Arithmetic::Form::expanded}, .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"tiles", "ceil(N / 128) * ceil(K / 128)"},
                          {"multiply_adds", "tiles * 128 * 128 * D"},
                          {"load_requests", "tiles * ceil(D / 8) * 64"},
                          {"sectors_per_load", "(B + 4 * B) / 2"},
                          {"shared_bytes", "reserved + 8 * (128 + 132) * B"},
                          {"bank_conflicts_load", "0"},
                          {"occupancy_theoretical_percent", "occupancy(256, 128, shared_bytes)"}},
              .ask =
                  "Eight centroids side by side are 32 bytes. Why do the 16-byte reads of eight neighbours take "
                  "two turns, and of two groups of four one?",
              .answer =
                  "A turn delivers 128 bytes, one word from each of 32 banks. Reads that begin 32 bytes apart "
                  "span 256 bytes: two lanes per bank. Reads that begin 16 bytes apart span 128: one turn.")
