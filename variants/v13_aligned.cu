// v13: D is padded with zeros to a multiple of 32, so that every tile has the same 32 features: no remainder, and a
// loop of known length. v12 has a last tile of another width and computes its bounds. Zeros change no product; they
// cost memory (see peak_device_bytes) and time, at D = 2 sixteenfold.
#include "parts/centroid_tile.cuh"
#include "parts/norms.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

constexpr int width = 32;           // features per tile, and what D is padded to a multiple of
constexpr int most_threads = 1024;  // 64 registers each, enough for the distances of one point

size_t padded(int d) { return size_t(blocks(d, width)) * width; }

template <class T>
struct Own {
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_sums(s);
  s.own.rows.points = s.x;  // where the points arrive, n x d
  s.x = s.template device<T>(padded(s.d) * s.n);
  s.own.norms.c = s.template device<T>(s.k);
}

template <class T>
void upload_padded(Run<T, Own<T>>& s) {
  upload_features(s);
  check(cudaMemsetAsync(s.x + size_t(s.d) * s.n, 0, (padded(s.d) - s.d) * s.n * sizeof(T), s.stream),
        "padding the points");
}

template <class T, int tile, int points>
__global__ void __launch_bounds__(most_threads / points)
    assign_kernel(const T* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, int n, int k, int d) {
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
      stage_tile<tile>(part, c, first, from, width, k, d);
#pragma unroll 4
      for (int f = 0; f < width; ++f) {
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
void assign(Run<T, Own<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // with 4 points, 128 of a thread's 255 registers hold distances
  compute_norms(s);
  const int block = s.axis("block");
  int points = s.axis("points");
  while (block * points > most_threads) points /= 2;
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < block * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    launch(assign_kernel<T, tile, points>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width), s.stream,
           s.x, s.c, norms(s), s.label, s.n, s.k, s.d);
  });
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload_padded<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v13_aligned", .base = "v12_block_size", .idea = "D padded with zeros to a multiple of 32",
               .expect =
                   "the article left it out to save memory; 2 % more of it at D = 408, 16 times as much at D = 2; "
                   "points stored by features are aligned anyway, so only the remainder's bounds are saved",
               .shows = "assign", .counter = "sectors_per_load", .source = "000 (named, not done)",
               .arithmetic = {.form = Arithmetic::Form::expanded},
               .axes = {{"points", {1, 2, 4}, 4}, {"block", range(32, 1024, 32), 128}}, .f32 = phases<float>,
               .f64 = phases<double>)
