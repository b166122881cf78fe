// v12: the block size is a tuning axis. v11 fixes 256 threads. A block waits at two barriers per tile: with few large
// blocks on a multiprocessor everybody waits at once, with several small ones the others go on; but each block stages
// the tile for itself, so smaller ones copy more. The registers of a multiprocessor are shared out among
// the threads of a block: up to 256 of them can hold the distances of 4 points each, up to 512 of 2, beyond that of 1.
#include "parts/centroid_tile.cuh"
#include "parts/norms.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

constexpr int most_threads = 1024;  // 64 registers each, enough for the distances of one point

template <class T, int tile, int points>
__global__ void __launch_bounds__(most_threads / points)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int d, int width) {
  T* part = dynamic_shared<T>();                                   // width x tile
  const int row = blockIdx.x * blockDim.x * points + threadIdx.x;  // its points: row, row + blockDim.x, ...
  int i[points], best[points] = {};
  T nearest[points];
  // Without a point, the last one: all threads must reach the barriers.
  for (int p = 0; p < points; ++p) i[p] = min(row + p * int(blockDim.x), n - 1);
  for (int p = 0; p < points; ++p) nearest[p] = std::numeric_limits<T>::infinity();
  for (int first = 0; first < k; first += tile) {
    T product[points][tile] = {};
    for (int from = 0; from < d; from += width) {
      const int here = min(width, d - from);
      stage_tile<tile>(part, c, first, from, here, k, d);
#pragma unroll 4
      for (int f = 0; f < here; ++f) {
        T own[points];
        for (int p = 0; p < points; ++p) own[p] = x[size_t(from + f) * n + i[p]];
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            product[p][t] += own[p] * part[f * tile_pitch<tile> + t];
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (first + t >= k) break;
        const T distance = norm[first + t] - 2 * product[p][t];  // less |x|^2: it may be below 0
        if (distance < nearest[p]) nearest[p] = distance, best[p] = first + t;
      }
    }
  }
  for (int p = 0; p < points; ++p) {
    if (row + p * int(blockDim.x) < n) label[i[p]] = best[p];
  }
}

template <class T>
struct Own {
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(Run<T, Own<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // with 4 points, 128 of a thread's 255 registers hold distances
  compute_norms(s);
  const int block = s.axis("block");
  int points = s.axis("points");
  while (block * points > most_threads) points /= 2;
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < block * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    const int width = tile_width<tile, T>(s.d);
    launch(assign_kernel<T, tile, points>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width), s.stream,
           s.x, s.c, norms(s), s.label, s.n, s.k, s.d, width);
  });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_norms<T>,
                                   .upload = upload_features<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v12_block_size", .base = "v11_norms", .idea = "the block size is a tuning axis",
               .expect =
                   "Titan X: 12 -> 7.3 minutes, from blocks of 1024 to 256 or 512; with some 200 registers per "
                   "thread, 64 to 128 should be best, and beyond 256 fewer points per thread cost more loads",
               .shows = "assign", .counter = "occupancy_achieved_percent", .source = "000",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {1, 2, 4}, 4}, {"block", range(32, 1024, 32), 128, {256, 512}}},
               .f32 = phases<float>, .f64 = phases<double>)
