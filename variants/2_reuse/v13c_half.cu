// v13c: the points that distances are computed from are kept as halves (fp16), two features of a point in one word. v13
// reads 4 bytes (in double 8) for each coordinate and tile of centroids, here it is 2; where K is small, those reads
// are what an iteration waits for. Half2 pays for loads alone. Its multiply-adds are twice as fast as float's, but a
// sum in half is good for 11 bits less log2 D, none at all at D = 2048: products are added up in the element type, and
// centroids stay in it. A half ends at 65504 and loses bits below 2^-14, so points are scaled by the power of two that
// brings the largest value near the top: exact, and undone in the distance. The update reads the points as they are, so
// that centroids are true means; the halves lie where the rows arrived, which nobody reads any more.
#include <cuda_fp16.h>

#include "../common/lloyd/norms.cuh"
#include "../common/lloyd/smem_tile.cuh"
#include "../common/update/lane_private.cuh"

namespace {
using namespace ladder;

constexpr int most_threads = 1024;  // 64 registers each, enough for the distances of one point

template <class T>
struct Halves {
  __half2* x = nullptr;  // (d + 1) / 2 x n: features f and f + 1 of a point, scaled; 0 beyond the last
  int* top = nullptr;    // the exponent of the largest value
  T scale = 1;
};

template <class T, int tile, int points>
__global__ void __launch_bounds__(most_threads / points)
    assign_kernel(const __half2* __restrict__ x, const T* __restrict__ c, const T* __restrict__ norm,
                  int32_t* __restrict__ label, T factor, int n, int k, int d, int width) {
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
      const int here = min(width, d + d % 2 - from);  // whole pairs: 0 lies beyond the last feature, here as there
      stage_tile<tile>(part, c, first, from, here, k, d);
#pragma unroll 4
      for (int f = 0; f < here; f += 2) {
        float2 own[points];
        for (int p = 0; p < points; ++p) own[p] = __half22float2(x[size_t(from + f) / 2 * n + i[p]]);
        for (int t = 0; t < tile; ++t) {
          for (int p = 0; p < points; ++p) {
            product[p][t] += own[p].x * part[f * tile_pitch<tile> + t];
            product[p][t] += own[p].y * part[(f + 1) * tile_pitch<tile> + t];
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      for (int t = 0; t < tile; ++t) {
        if (first + t >= k) break;
        const T distance = norm[first + t] - factor * product[p][t];  // less |x|^2: it may be below 0
        if (distance < nearest[p]) nearest[p] = distance, best[p] = first + t;
      }
    }
  }
  for (int p = 0; p < points; ++p) {
    if (row + p * int(blockDim.x) < n) label[i[p]] = best[p];
  }
}

template <class T>
struct Workspace {
  Halves<T> halves;
  Norms<T> norms;
  Rows<T> rows;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_norms(s);
  auto& own = s.ws.halves;
  // A row of one feature takes a whole word as well: 4 bytes, no more than it took as it arrived.
  own.x = reinterpret_cast<__half2*>(s.ws.rows.points);
  own.top = s.template device<int>(1);
}

/// The exponent of the largest value, by threads that go through the values together.
template <class T>
__global__ void max_exponent_kernel(const T* x, int* top, int64_t count) {
  T largest = 0;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < count; e += threads) {
    largest = max(largest, std::abs(x[e]));
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(top, std::ilogb(largest));
}

/// One thread per point and pair of features. A double is rounded once, too.
template <class T>
__global__ void round_kernel(const T* x, __half2* halves, T scale, int n, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e >= int64_t((d + 1) / 2) * n) return;
  const int i = int(e % n), f = int(e / n) * 2;
  const auto rounded = [&](int feature) {
    return __double2half(feature < d ? double(x[size_t(feature) * n + i] * scale) : 0.0);
  };
  halves[e] = __halves2half2(rounded(f), rounded(f + 1));
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  auto& own = s.ws.halves;
  const int64_t count = int64_t(s.n) * s.d;
  check(cudaMemsetAsync(own.top, 0x80, sizeof(int), s.stream), "clearing the exponent");  // far below all
  launch(max_exponent_kernel<T>, int(std::min<int64_t>(blocks(count, 256), 8 * s.device_info.multiprocessors)), 256, 0,
         s.stream, s.x, own.top, count);
  int top = 0;
  check(cudaMemcpyAsync(&top, own.top, sizeof top, cudaMemcpyDeviceToHost, s.stream), "downloading the exponent");
  check(cudaStreamSynchronize(s.stream), "looking for the largest value");
  constexpr int most = std::numeric_limits<T>::max_exponent - 2;  // factor = 2 / scale is a number, too
  own.scale = std::ldexp(T(1), std::clamp(14 - std::max(top, -most), -most, most));
  launch(round_kernel<T>, blocks(int64_t((s.d + 1) / 2) * s.n, 256), 256, 0, s.stream, s.x, own.x, own.scale, s.n, s.d);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  constexpr int tile = 128 / sizeof(T);  // with 4 points, 128 of a thread's 255 registers hold distances
  compute_norms(s);
  const auto& own = s.ws.halves;
  const int block = s.axis("block");
  int points = s.axis("points");
  while (block * points > most_threads) points /= 2;
  // Several points per thread are worth it only where every multiprocessor still has a block.
  while (points > 1 && s.n < block * points * s.device_info.multiprocessors) points /= 2;
  dispatch<1, 2, 4>(points, [&]<int points>() {
    const int width = tile_width<tile, T>(s.d + s.d % 2) / 2 * 2;
    launch(assign_kernel<T, tile, points>, blocks(s.n, block * points), block, tile_bytes<tile, T>(width), s.stream,
           own.x, s.c, norms(s), s.label, 2 / own.scale, s.n, s.k, s.d, width);
  });
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v13c_half", .base = "v13_block_size", .idea = "distances from points stored as fp16",
               .expect =
                   "half the bytes per pass: up to twice as fast at K = 10, D = 100, where reading the points is all; "
                   "nothing at K = 5000, where multiply-adds are. Labels differ wherever two centroids are 0.05 % "
                   "apart; the upload takes two more passes. A larger step, for the sake of those: the range of a half "
                   "asks for a scale, and a scale for the largest value",
               .shows = "assign", .counter = "dram_bytes", .source = "000",
               .arithmetic = {.form = Arithmetic::Form::expanded, .input_roundoff = 0x1p-11},
               .axes = {{"points", {1, 2, 4}, 4}, {"block", range(32, 1024, 32), 128}}, .f32 = phases<float>,
               .f64 = phases<double>)
