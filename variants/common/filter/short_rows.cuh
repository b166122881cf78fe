// Upper bounds of all scores x.c from rows of a few dozen halves. A point a and a centroid b are split into their
// coordinates in some directions P and the length of the rest: y = P^T a + r. Then y.z <= a.b + |r_y| |r_z|
// (Cauchy-Schwarz), plus terms for the fp16 rounding of a and b, for directions that are not quite orthonormal, and for
// the tensor core's sums. Each term is a product of something of the point and something of the centroid, so the bound
// is one product of two short rows. docs/certificate.md has the proof, by these names. v35_short_rows introduces it.
//
// A row of `width` halves, w = width - bound_columns directions (zeros where there are fewer):
//   point:    a_1 .. a_w,  lost,           kept,                    rest,            4096,  4096,  T.high,  T.low
//   centroid: b_1 .. b_w,  kept (1 + 2k),  lost (1 + 2k) + 2k kept, rest (1 + 2k),   high,  low,   4096,    4096
// with kept >= |a|, lost >= |P r|, rest >= |r|, 4096 (high + low) >= -|z|^2 / 2 (1 - 2k), and k = accumulation(width).
// Lengths are in the unit in which no point is longer than 4096. T is the point's threshold, which makes the sign of
// the product the answer. It changes in each iteration and a search for the largest bound has none, so a point's row
// has zeros there; thresholds are stored apart and replace the zeros when the row is loaded.
#pragma once
#include "../certified/common_unit.cuh"
#include "../certified/error_bound.cuh"

namespace ladder {

constexpr int bound_columns = 7;
constexpr int loss_columns = 3;               // the first of them: what the product may be off by
constexpr int max_projected_features = 4096;  // features of which the defect is known well enough
constexpr int widest = 128;                   // halves of a short row

/// Rows of an array of short rows: whole tiles of all kernels.
inline int64_t padded_short_rows(int count) { return int64_t(blocks(count, 256)) * 256; }

/// Calls body.template operator()<width>().
template <class F>
void dispatch_width(int width, const F& body) {
  dispatch<32, 48, 64, 96, 128>(width, body);
}

/// By how much at most sums of d products, in double, put a projection off, relative to the row's length: each is off
/// by (d + 2) 2^-53 times the length of its direction, below sqrt(2), and there are at most 128 of them.
__host__ __device__ inline double of_projection(int d) { return (d + 16) * 0x1p-49; }

/// Upper bounds of three lengths of a row: of its coordinates as halves, of what their rounding lost, and of what lies
/// outside the directions.
struct ProjectedRow {
  double kept, lost, rest;
};

/// Splits a row, by a warp: `coordinate(k)` is its coordinate in direction k, `square` the square of its length, both
/// in the row's unit; `put(k, half)` stores a half. Directions whose defect is 1 or more (or NaN) are ignored: they may
/// be so long that the bounds of rounding, and the range of halves, do not hold.
template <class Coordinate, class Put>
__device__ ProjectedRow split_projection(int directions, int d, double square, double defect,
                                         const Coordinate& coordinate, const Put& put) {
  double kept = 0, lost = 0, cross = 0;
  const bool sound = defect < 1;  // false for NaN, too
  for (int k = threadIdx.x % 32; k < directions; k += 32) {
    const double exact = sound ? coordinate(k) : 0;
    const __half half = __double2half(exact);
    const double a = double(__half2float(half)), off = exact - a;  // without rounding
    kept += a * a, lost += off * off, cross += a * off;
    put(k, half);
  }
  kept = warp_sum(kept), lost = warp_sum(lost), cross = warp_sum(cross);
  const double whole = sqrt(square) * (1 + of_doubles), length = sqrt(kept) * (1 + of_doubles);
  const double off = of_projection(d) * whole;
  // |r|^2 = |y|^2 - 2 a.Py + |P^T a|^2, and Py = a + what was lost.
  const double strain = sound ? defect * length : 0;
  const double rest = square * (1 + 4 * of_doubles) - kept - 2 * cross + strain * length + 2 * off * length;
  return {length, (sqrt(lost) * (1 + of_doubles) + off + strain) * (1 + of_doubles),
          sqrt(max(rest, 0.0) + 0x1p-36 * square) * (1 + of_doubles)};
}

/// The last columns of a centroid, by one thread. A centroid that is far away, or padding, has zeros in all other
/// columns. `square`: its squared length, infinite for padding. half(f) is a reference to half f.
template <class Half>
__device__ void write_centroid_columns(const Half& half, int width, double square, const ProjectedRow& parts) {
  const auto last = [&](int e) -> __half& { return half(width - bound_columns + e); };
  const double k = accumulation(width);
  const bool far = !(square < far_length * far_length);
  last(0) = half_up(far ? 0 : parts.kept * (1 + 2 * k));
  last(1) = half_up(far ? 0 : parts.lost * (1 + 2 * k) + 2 * k * parts.kept);
  last(2) = half_up(far ? 0 : parts.rest * (1 + 2 * k));
  const double score = (far ? far_score : -square / 2 * (1 - 2 * k) * (1 - 4 * of_doubles)) * 0x1p-12;
  const __half high = __hneg(half_up(-score));
  last(3) = high, last(4) = half_up(score - double(__half2float(high)));
  last(5) = last(6) = __double2half(0x1p12);
}

/// With this threshold (a half, times 4096) every product is at least 0.
constexpr double all_reach = 0x1.cp15;

/// T, as the last word of a row: with it, the product of a point with any centroid whose squared distance is at most
/// `distance` is not negative. `square`: the point's squared length. Both in units of the short row, with a relative
/// error below 2^-39. Every centroid reaches the threshold of an outlier row.
__host__ __device__ inline uint32_t threshold(double square, double distance, int width) {
  const double score = (square * (1 - 0x1p-38) - distance * (1 + 0x1p-38)) / 2;
  const double needed = (-score + threshold_excess(score, width)) * 0x1p-12;
  const double all = is_outlier(square) ? all_reach : fmin(needed, all_reach);  // fmin: also where needed is NaN
  const __half high = __double2half(all), low = half_up(all - double(__half2float(high)));
  return uint32_t(__half_as_ushort(low)) << 16 | __half_as_ushort(high);
}

/// The score that a candidate's bound reaches, from a threshold: -T, rounded down.
__device__ inline float score_to_reach(uint32_t threshold) {
  const auto half = [&](int e) {
    return double(__half2float(__ushort_as_half((unsigned short)(threshold >> 16 * e))));
  };
  const double score = -0x1p12 * (half(0) + half(1));  // exact
  return float(score - fabs(score) * 0x1p-23);
}

// ---- writing short rows; a whole warp calls these with the row's coordinates and squared length

/// Points: short rows, and squared lengths. Rows from `count` on, up to `padded`, are zeros; outlier rows have zeros in
/// place of coordinates and lengths.
template <int width>
struct WritePoints {
  uint4* rows;     // padded x width halves
  double* square;  // count
  const double* defect;
  int count;
  int64_t padded;
  int d;
  template <class Coordinate>
  __device__ void operator()(int64_t i, const Coordinate& coordinate, double length) const {
    if (i >= padded) return;
    __half* const row = reinterpret_cast<__half*>(rows) + i * width;
    const bool outlier = is_outlier(length);
    const ProjectedRow parts = split_projection(
        width - bound_columns, d, outlier ? 0 : length, *defect, [&](int k) { return outlier ? 0 : coordinate(k); },
        [&](int k, __half half) { row[k] = half; });
    if (threadIdx.x % 32 != 0) return;
    __half* const last = row + width - bound_columns;
    last[0] = half_up(parts.lost), last[1] = half_up(parts.kept), last[2] = half_up(parts.rest);
    last[3] = last[4] = __double2half(0x1p12);
    last[5] = last[6] = __double2half(0);
    if (i < count) square[i] = length;
  }
};

/// Where half f of row j is.
template <int width>
struct RowMajor {
  __device__ int64_t operator()(int64_t j, int f) const { return j * width + f; }
};

/// Centroids: short rows. Those from `count` on, up to `padded`, are far away.
template <int width, class Offset>
struct WriteCentroids {
  uint4* rows;  // padded x width halves
  const double* defect;
  int count;
  int64_t padded;
  int d;
  double* square = nullptr;  // count: squared lengths, where they are wanted
  template <class Coordinate>
  __device__ void operator()(int64_t j, const Coordinate& coordinate, double length) const {
    if (j >= padded) return;
    if (square && j < count && threadIdx.x % 32 == 0) square[j] = length;
    if (j >= count) length = std::numeric_limits<double>::infinity();
    const auto half = [&](int f) -> __half& { return reinterpret_cast<__half*>(rows)[Offset()(j, f)]; };
    const bool far = !(length < far_length * far_length);
    const ProjectedRow parts = split_projection(
        width - bound_columns, d, far ? 0 : length, *defect, [&](int k) { return far ? 0 : coordinate(k); },
        [&](int k, __half value) { half(k) = value; });
    if (threadIdx.x % 32 == 0) write_centroid_columns(half, width, length, parts);
  }
};

}  // namespace ladder
