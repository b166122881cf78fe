// Bounds that the products of warpgroups bring along. What a bound takes besides the product of two rows is itself a
// sum of products of something of the point and something of the centroid, so it goes into the rows, as a few columns
// more: what the tensor core adds up is not below the score then, and a look at a tile reads nothing but its products.
// All rows must be in one unit for that (common_unit.cuh), in which no point is longer than 4096. docs/certificate.md
// has the proof, by these names. v24c_bound_columns introduces it.
//
// Rows of D features, with k = accumulation(of all steps that are multiplied):
//   point:    y_1 .. y_D, lost,                kept,                                4096,  4096
//   centroid: z_1 .. z_D, whole (1 + 1.1 k),   lost (1 + 1.1 k) + 1.1 k kept,       high,  low
// with whole >= |z|, lost >= what the halves before it lose, kept >= their nominal length, and 4096 (high + low) >=
// -|z|^2 / 2 (1 - 1.1 k) + 8 k. Behind them, zeros.
#pragma once
#include "common_unit.cuh"
#include "two_greatest.cuh"

namespace ladder {

constexpr int wide_columns = 4;
constexpr double score_unit = 0x1p12;

/// What is kept of a row beside its halves.
struct WideLengths {
  double whole, kept, lost;
};
__host__ __device__ inline WideLengths wide_lengths(const Rounded& row, int features) {
  const double whole = sqrt(row.whole) * (1 + of_doubles);
  return {whole, sqrt(row.kept) * (1 + of_doubles) + nominal_excess(features),
          sqrt(row.lost) * (1 + of_doubles) + of_doubles * whole};
}

/// The columns of a row.
struct WideColumns {
  __half of[wide_columns];
};
__host__ __device__ inline WideColumns columns_of_point(const WideLengths& y) {
  const __half unit = __double2half(score_unit);
  return {half_up(y.lost), half_up(y.kept), unit, unit};
}
/// `k`: the accumulation.
__host__ __device__ inline WideColumns columns_of_centroid(const WideLengths& z, double k) {
  const bool far = !(z.whole < far_length);
  const double score = (far ? far_score : -z.whole * z.whole / 2 * (1 - 1.1 * k) * (1 - 4 * of_doubles) + 8 * k);
  const __half high = __hneg(half_up(-score / score_unit));
  const __half low = half_up(score / score_unit - double(__half2float(high)));
  if (far) return {__half(), __half(), high, low};
  return {half_up(z.whole * (1 + 1.1 * k)), half_up(z.lost * (1 + 1.1 * k) + 1.1 * k * z.kept), high, low};
}
/// Of a centroid that does not exist: below all others, whose scores are above -1.6 * 2^27.
__host__ __device__ inline WideColumns columns_of_nobody() {
  const __half least = __double2half(-65504);
  return {__half(), __half(), least, least};
}

/// Not above the score of a pair, of which a product that is not above `upper` is known, and both rows' columns. A
/// centroid that is far away, the only one whose second column is 0, has no such bound.
__host__ __device__ inline float lower_of_columns(float upper, const WideColumns& y, const WideColumns& z, float k) {
  const auto product = [&](int e) { return __half2float(y.of[e]) * __half2float(z.of[e]); };  // exact
  if (__half2float(z.of[1]) == 0) return -std::numeric_limits<float>::infinity();
  const float loss = product(0) + product(1), score = fabsf(product(2) + product(3));
  const float width = fmaf(2.03f, loss, fmaf(4 * k + 0x1p-18f, score, 16 * k + 0x1p-11f));
  return upper - fmaf(0x1p-22f, fabsf(upper), width);
}

/// One row, by a warp: its features as halve_words() has them, with place(word), then columns(lengths), then zeros.
template <class Place, class Value, class Columns>
__device__ void widen_row(const Place& place, int words, int d, int exponent, const Value& value,
                          const Columns& columns) {
  const auto word_at = [&](int, int word) -> __half2& { return place(word); };
  const Rounded row = halve_words<1>(word_at, words, d, exponent, value);
  __syncwarp();  // the words that the columns go to have been written
  if (threadIdx.x % 32 != 0) return;
  const WideColumns last = columns(wide_lengths(row, 2 * words));
  for (int e = 0; e < wide_columns; ++e) reinterpret_cast<__half*>(&place((d + e) / 2))[(d + e) % 2] = last.of[e];
}

/// As halve_group_points_kernel.
template <class T>
__global__ void widen_points_kernel(const T* rows, View<T> view, uint4* halves, int n, int64_t padded, int steps,
                                    int d) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (i >= padded) return;  // a whole warp at a time
  const auto place = [&](int word) -> __half2& {
    return reinterpret_cast<__half2*>(halves)[point_place(i, word, steps)];
  };
  widen_row(
      place, steps * mma_depth / 2, d, short_exponent(d), [&](int f) { return i < n ? view(rows, i, f, d) : 0.0; },
      columns_of_point);
}

/// As halve_group_centroids_kernel.
template <class T, int columns>
__global__ void widen_centroids_kernel(const T* c, View<T> view, unsigned char* tiles, const int* length, int k,
                                       int64_t padded, int steps, int d) {
  const int64_t j = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (j >= padded || (length && *length == 0)) return;  // a whole warp at a time
  unsigned char* const tile = tiles + j / columns * WarpgroupTile<columns, NoFacts>::tile_bytes(steps);
  const auto place = [&](int word) -> __half2& {
    return reinterpret_cast<__half2*>(tile)[centroid_place<columns>(int(j % columns), word)];
  };
  double square = 0;
  for (int f = threadIdx.x % 32; j < k && f < d; f += 32) square += view(c, j, f, d) * view(c, j, f, d);
  const double whole = scalbn(sqrt(sum_of_warp(square)), short_exponent(d));
  const bool near = j < k && whole < far_length;
  widen_row(
      place, steps * mma_depth / 2, d, short_exponent(d), [&](int f) { return near ? view(c, j, f, d) : 0.0; },
      [&](WideLengths z) {
        if (j >= k) return columns_of_nobody();
        if (!near) z.whole = far_length;
        return columns_of_centroid(z, accumulation(steps * mma_depth));
      });
}

#ifdef __CUDACC__
/// The bound is within the product.
struct BoundsWithin {
  using Facts = NoFacts;
  int d;
  float accumulation;
  /// As BoundsBeside::lower.
  template <class Tile>
  __device__ float lower(float upper, const uint4* x, const unsigned char* c, int64_t row, int j, int steps) const {
    const auto* const point = reinterpret_cast<const __half*>(x);
    const auto* const centroid = reinterpret_cast<const __half*>(c + j / Tile::width * Tile::tile_bytes(steps));
    WideColumns y, z;
    for (int e = 0; e < wide_columns; ++e) {
      const int word = (d + e) / 2, half = (d + e) % 2;
      y.of[e] = point[point_place(row, word, steps) * 2 + half];
      z.of[e] = centroid[centroid_place<Tile::width>(j % Tile::width, word) * 2 + half];
    }
    return lower_of_columns(upper, y, z, accumulation);
  }
};
#endif

// ---- the host's side

struct FactsWithin {
  using Facts = NoFacts;
  static constexpr int more_features = wide_columns;
  template <class T, class Own>
  static void halve_points(Run<T, Own>& s, const T* points, const View<T>& view, const WarpgroupRows& rows, int count,
                           int64_t padded) {
    launch(widen_points_kernel<T>, blocks(padded * 32, 256), 256, 0, s.stream, points, view, rows.x, count, padded,
           rows.plan.steps, s.d);
  }
  template <int columns, class T, class Own>
  static void halve_centroids(Run<T, Own>& s, const View<T>& view, const WarpgroupRows& rows, const int* length) {
    const int64_t padded = WarpgroupTile<columns, NoFacts>::padded_columns(s.k);
    launch(widen_centroids_kernel<T, columns>, blocks(padded * 32, 256), 256, 0, s.stream, s.c, view, rows.c, length,
           s.k, padded, rows.plan.steps, s.d);
  }
};

/// As ByTwoGreatest, which keeps and decides the rows that are not proven.
struct ByBoundColumns : FactsWithin, KeptByTwo {
#ifdef __CUDACC__
  template <int columns, int window, bool streamed, bool listed>
  static constexpr auto kernel = assign_by_two_kernel<BoundsWithin, columns, window, streamed, listed>;
  template <class T>
  static BoundsWithin bounds(const State<T>& s, const WarpgroupRows& rows) {
    return {s.d, float(accumulation(rows.plan.steps * mma_depth) * (1 + 0x1p-20))};
  }
#endif
};

}  // namespace ladder
