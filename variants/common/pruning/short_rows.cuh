// Bounds of all scores from a few directions. Points and centroids are seen as their coordinates in some directions P,
// and the length of what is left of them: y = P^T a + r. Then y.z <= a.b + |r_y| |r_z| (Cauchy-Schwarz), and a few more
// terms for what a is off by as halves, for directions that are not quite orthonormal and for the tensor core's sums.
// Each term is a product of something of the point and something of the centroid, so the bound is one product of two
// short rows of halves. docs/certificate.md has the proof, by these names. v29_rank_selection introduces it.
//
// A row of `width` halves, w = width - bound_columns directions (zeros where there are fewer):
//   point:    a_1 .. a_w,  lost,           kept,                    rest,            4096,  4096,  T.high,  T.low
//   centroid: b_1 .. b_w,  kept (1 + 2k),  lost (1 + 2k) + 2k kept, rest (1 + 2k),   high,  low,   4096,    4096
// with kept >= |a|, lost >= |P r|, rest >= |r|, 4096 (high + low) >= -|z|^2 / 2 (1 - 2k), and k = accumulation(width).
// Lengths are in the unit in which no point is longer than 4096. T is the point's threshold, which makes the product's
// sign the answer. It changes from one iteration to the next, and a guess does without: so a point's row has zeros
// there, and thresholds are kept beside the rows, to take the place of the zeros where they are asked for.
#pragma once
#include "../certified/common_scale.cuh"
#include "../certified/error_bound.cuh"
#include "dirty_clusters.cuh"
#include "pca.cuh"

namespace ladder {

constexpr int bound_columns = 7;
constexpr int loss_columns = 3;  // the first of them: what the product may be off by

/// By how much at most sums of d products, in double, put a projection off, relative to the row's length: each is off
/// by (d + 2) 2^-53 times the length of its direction, below sqrt(2), and there are at most 128 of them.
__host__ __device__ inline double of_projection(int d) { return (d + 16) * 0x1p-49; }

/// What is known of a row of length `whole` beside the halves of its coordinates.
struct ProjectedRow {
  double kept, lost, rest;
};

/// Splits a row, by a warp: `coordinate(k)` is its coordinate in direction k, `square` the square of its length, both
/// in the row's unit; `put(k, half)` keeps a half. Directions whose defect is not below 1 are not looked at: some may
/// be so long that what is said of roundings, and of the range of halves, is not true of them.
template <class Coordinate, class Put>
__device__ ProjectedRow split_projection(int directions, int d, double square, double defect,
                                         const Coordinate& coordinate, const Put& put) {
  double kept = 0, lost = 0, cross = 0;
  const bool sound = defect < 1;  // a number, too
  for (int k = threadIdx.x % 32; k < directions; k += 32) {
    const double here = sound ? coordinate(k) : 0;
    const __half half = __double2half(here);
    const double a = double(__half2float(half)), off = here - a;  // exact
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

/// The last columns of a point, by one thread. `row` is its short row.
__device__ inline void write_point_columns(__half* row, int width, const ProjectedRow& parted) {
  __half* const last = row + width - bound_columns;
  last[0] = half_up(parted.lost), last[1] = half_up(parted.kept), last[2] = half_up(parted.rest);
  last[3] = last[4] = __double2half(0x1p12);
  last[5] = last[6] = __double2half(0);
}

/// The last columns of a centroid, by one thread; nothing of a centroid that is far away, or not there, may remain in
/// the others. `square` is that of its length, infinite for one that is not there. Its half f goes to half(f), a
/// __half&.
template <class Half>
__device__ void write_centroid_columns(const Half& half, int width, double square, const ProjectedRow& parted) {
  const auto last = [&](int e) -> __half& { return half(width - bound_columns + e); };
  const double k = accumulation(width);
  const bool far = !(square < far_length * far_length);
  last(0) = half_up(far ? 0 : parted.kept * (1 + 2 * k));
  last(1) = half_up(far ? 0 : parted.lost * (1 + 2 * k) + 2 * k * parted.kept);
  last(2) = half_up(far ? 0 : parted.rest * (1 + 2 * k));
  const double score = (far ? far_score : -square / 2 * (1 - 2 * k) * (1 - 4 * of_doubles)) * 0x1p-12;
  const __half high = __hneg(half_up(-score));
  last(3) = high, last(4) = half_up(score - double(__half2float(high)));
  last(5) = last(6) = __double2half(0x1p12);
}

/// The short row of a centroid, by a warp: as split_projection() and write_centroid_columns().
template <class Half>
__device__ void write_centroid(const Half& half, int width, double square, double defect, const double* coordinates,
                               int d) {
  const bool far = !(square < far_length * far_length);
  const ProjectedRow parted = split_projection(
      width - bound_columns, d, far ? 0 : square, defect, [&](int k) { return far ? 0 : coordinates[k]; },
      [&](int k, __half value) { half(k) = value; });
  if (threadIdx.x % 32 == 0) write_centroid_columns(half, width, square, parted);
}

/// What is known of a squared distance.
struct Interval {
  double low, high;
};

/// From the short rows of a point and a centroid, without a look at themselves, and their squared lengths: (4) of
/// docs/certificate.md holds for either sign. halves(e): eight halves of the centroid's row, from the 8 e-th on.
template <int width, class Halves>
__device__ Interval distance_interval(const uint4* point, double point_square, const Halves& halves,
                                      double centroid_square) {
  double product = 0, loss = 0;
#pragma unroll
  for (int e = 0; e < width / 8; ++e) {
    const uint4 left = point[e], right = halves(e);
    __half a[8], b[8];
    std::memcpy(a, &left, sizeof a), std::memcpy(b, &right, sizeof b);
#pragma unroll
    for (int f = 0; f < 8; ++f) {
      const int column = e * 8 + f;
      const double both = double(__half2float(a[f]) * __half2float(b[f]));  // exact
      if (column < width - bound_columns) product += both;
      if (column >= width - bound_columns && column < width - bound_columns + loss_columns) loss += both;
    }
  }
  if (!(centroid_square < far_length * far_length)) return {0, std::numeric_limits<double>::infinity()};
  const double squares = point_square + centroid_square, unknown = 2 * loss + 0x1p-36 * squares;
  return {max(squares - 2 * product - unknown, 0.0), squares - 2 * product + unknown};
}

/// A threshold of this, a half, lets every centroid's product reach 0.
constexpr double all_reach = 0x1.cp15;

/// T, as the last word of a row. With it, no product of a point is below 0 with a centroid that is not farther than
/// `distance`, a squared one; `square` is that of the point's length. Both in units of the short row, and known to
/// 2^-39.
__host__ __device__ inline uint32_t threshold(double square, double distance, int width) {
  const double score = (square * (1 - 0x1p-38) - distance * (1 + 0x1p-38)) / 2;
  const double needed = (-score + 2 * accumulation(width) * fabs(score) + 1) * 0x1p-12;
  const double all = fmin(needed, all_reach);  // of what is no number, too
  const __half high = __double2half(all), low = half_up(all - double(__half2float(high)));
  return uint32_t(__half_as_ushort(low)) << 16 | __half_as_ushort(high);
}

// ---- the short rows of many

/// Rows first, first + apart, ..., `count` of them. Of few rows, those that are not touched may be left out.
struct RowSubset {
  int64_t first = 0, apart = 1;
  int count = 0;
  DirtyClusters dirty = {};
  __host__ __device__ int64_t operator()(int i) const { return first + i * apart; }
};

/// Coordinates and squared lengths of rows, in the unit of short rows; each row is shown to `finish(i, coordinates,
/// square)` by a whole warp. Directions from width - bound_columns on are not looked at. Where there are many rows: a
/// block has 16 for each group of threads, so that what is read of the directions serves all of them; a thread has a
/// direction.
template <int width>
struct ManyRowsTile {
  static constexpr int block = 256, features = 32;  // features of a step
  static constexpr int groups = block / width;      // of rows
  static constexpr int each = 16, rows = groups * each;
  static constexpr int pitch = rows + 2;  // values of a feature: two of them can be read at once
  static constexpr int values = features * pitch, coordinates = rows * width, words = std::max(values, coordinates);
};

template <int width, class T, class Finish>
__global__ void __launch_bounds__(256)
    project_points_kernel(const T* __restrict__ x, Frame<T> view, Directions directions, RowSubset chosen, int d,
                          Finish finish) {
  using P = ManyRowsTile<width>;
  // features x pitch: the rows' values; at the end rows x width: their coordinates
  __shared__ __align__(16) double values[P::words];
  __shared__ double squares[P::rows];
  static_assert(P::rows <= P::block && P::each % 2 == 0);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, begin = blockIdx.x * P::rows;
  const int group = threadIdx.x / width, direction = threadIdx.x % width;
  const double unit = scalbn(1.0, view.exponent() + short_exponent(d));
  double sum[P::each] = {}, square = 0;
  for (int first = 0; first < d; first += P::features) {
    __syncthreads();  // nobody reads the step before any more
#pragma unroll 4
    for (int r = warp; r < P::rows; r += P::block / 32) {
      const int f = first + lane;
      double value = 0;
      if (begin + r < chosen.count && f < d)
        value = (double(x[chosen(begin + r) * d + f]) - double(view.centre[f])) * unit;
      values[lane * P::pitch + r] = value;
    }
    __syncthreads();
    const int features = min(P::features, d - first);
    for (int f = 0; threadIdx.x < P::rows && f < features; ++f) {
      const double value = values[f * P::pitch + threadIdx.x];
      square += value * value;
    }
    if (group >= P::groups) continue;
    const double* const shares = directions.at + int64_t(first) * max_directions + direction;
#pragma unroll 8  // so many loads are on their way together
    for (int f = 0; f < features; ++f) {
      const double share = shares[f * max_directions];
      const auto* const own = reinterpret_cast<const double2*>(values + f * P::pitch + group * P::each);
#pragma unroll
      for (int r = 0; r < P::each / 2; ++r) sum[2 * r] += share * own[r].x, sum[2 * r + 1] += share * own[r].y;
    }
  }
  __syncthreads();  // nobody reads the rows' values any more
  if (group < P::groups) {
    for (int r = 0; r < P::each; ++r) values[(group * P::each + r) * width + direction] = sum[r];
  }
  if (threadIdx.x < P::rows) squares[threadIdx.x] = square;
  __syncthreads();
  for (int r = warp; r < P::rows; r += P::block / 32) finish(begin + r, values + r * width, squares[r]);
}

/// As many rows as there are centroids would leave most of the device idle, one thread with a direction: here several
/// have some of the features each, and a block has few rows. A thread has two directions, so that what it reads of the
/// rows serves two products: to read it takes longer than to multiply it.
template <int width>
struct CentroidRowsTile {
  static constexpr int block = width < 96 ? 128 : 256;      // with many directions, more threads share out the features
  static constexpr int features = 128;                      // of a step
  static constexpr int threads = width / 2;                 // have the same features
  static constexpr int parts = block / threads;             // of the features: threads have the same directions
  static constexpr int rows = 8, each = rows * 32 / block;  // of a warp: it fetches them, and finishes them
  // Blocks of a multiprocessor, at least: of few directions, those of K = 5000 run all at a time.
  static constexpr int resident = width < 96 ? 5 : 2;
};

template <int width, class T, class Finish>
__global__ void __launch_bounds__(CentroidRowsTile<width>::block, CentroidRowsTile<width>::resident)
    project_centroids_kernel(const T* __restrict__ x, Frame<T> view, Directions directions, RowSubset chosen, int d,
                             Finish finish) {
  using P = CentroidRowsTile<width>;
  __shared__ __align__(16) double values[P::features][P::rows + 2];  // of a feature two rows can be read at once
  __shared__ double sums[P::parts][P::rows][width], squares[P::rows];
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * P::each;  // own: the first row of this warp
  const int part = threadIdx.x / P::threads, direction = threadIdx.x % P::threads * 2;
  const int64_t begin = int64_t(blockIdx.x) * P::rows, any = begin + threadIdx.x % P::rows;
  if (!__syncthreads_or(any >= chosen.count || chosen.dirty[int(any)])) return;
  const T* from[P::each];
  for (int r = 0; r < P::each; ++r)
    from[r] = begin + own + r < chosen.count ? x + chosen(int(begin) + own + r) * d : nullptr;
  const double unit = scalbn(1.0, view.exponent() + short_exponent(d));
  double sum[P::rows][2] = {}, square[P::each] = {};
  for (int first = 0; first < d; first += P::features) {
    __syncthreads();  // nobody reads the step before any more
#pragma unroll
    for (int e = lane; e < P::features; e += 32) {
      const int f = first + e;
#pragma unroll
      for (int r = 0; r < P::each; ++r) {
        const double value = from[r] && f < d ? (double(from[r][f]) - double(view.centre[f])) * unit : 0;
        values[e][own + r] = value;
        square[r] += value * value;
      }
    }
    __syncthreads();
    if (part >= P::parts) continue;
    const double* const shares = directions.at + int64_t(first) * max_directions + direction;
    const int features = min(P::features, d - first);
#pragma unroll 4  // so many loads are on their way together
    for (int f = part; f < features; f += P::parts) {
      const auto share = *reinterpret_cast<const double2*>(shares + f * max_directions);
      const auto* const both = reinterpret_cast<const double2*>(values[f]);
#pragma unroll
      for (int r = 0; r < P::rows / 2; ++r) {
        sum[2 * r][0] += share.x * both[r].x, sum[2 * r + 1][0] += share.x * both[r].y;
        sum[2 * r][1] += share.y * both[r].x, sum[2 * r + 1][1] += share.y * both[r].y;
      }
    }
  }
  for (int r = 0; part < P::parts && r < P::rows; ++r)
    for (int e = 0; e < 2; ++e) sums[part][r][direction + e] = sum[r][e];
  for (int r = 0; r < P::each; ++r) {
    square[r] = warp_sum(square[r]);
    if (lane == 0) squares[own + r] = square[r];
  }
  __syncthreads();
  for (int r = own; r < own + P::each; ++r) {
    double* const coordinates = sums[0][r];
    for (int k = lane; k < width; k += 32) {
      for (int e = 1; e < P::parts; ++e) coordinates[k] += sums[e][r][k];
    }
    __syncwarp();
    finish(begin + r, coordinates, squares[r]);
  }
}

/// Of the rows that are chosen, and of those up to `padded` that are not there: they are shown as zeros.
template <int width, class T, class Finish>
void project_many(cudaStream_t stream, const T* x, const Frame<T>& view, const Directions& directions,
                  const RowSubset& chosen, int64_t padded, int d, const Finish& finish) {
  launch(project_points_kernel<width, T, Finish>, blocks(padded, ManyRowsTile<width>::rows), 256, 0, stream, x, view,
         directions, chosen, d, finish);
}
template <int width, class T, class Finish>
void project(cudaStream_t stream, const T* x, const Frame<T>& view, const Directions& directions,
             const RowSubset& chosen, int64_t padded, int d, const Finish& finish) {
  launch(project_centroids_kernel<width, T, Finish>, blocks(padded, CentroidRowsTile<width>::rows),
         CentroidRowsTile<width>::block, 0, stream, x, view, directions, chosen, d, finish);
}

/// Keeps points: their short rows, and their squared lengths. Rows from `count` on, up to `padded`, are zeros.
template <int width>
struct WritePoints {
  uint4* rows;     // padded x width halves
  double* square;  // count
  const double* defect;
  int count;
  int64_t padded;
  int d;
  __device__ void operator()(int64_t i, const double* coordinates, double length) const {
    if (i >= padded) return;
    __half* const row = reinterpret_cast<__half*>(rows) + i * width;
    const ProjectedRow parted = split_projection(
        width - bound_columns, d, length, *defect, [&](int k) { return coordinates[k]; },
        [&](int k, __half half) { row[k] = half; });
    if (threadIdx.x % 32 != 0) return;
    write_point_columns(row, width, parted);
    if (i < count) square[i] = length;
  }
};

/// Keeps centroids: their short rows. Those from `count` on, up to `padded`, are far away.
template <int width>
struct WriteCentroids {
  uint4* rows;  // padded x width halves
  const double* defect;
  int count;
  int64_t padded;
  int d;
  double* square = nullptr;  // count: squared lengths, where they are kept
  __device__ void operator()(int64_t j, const double* coordinates, double length) const {
    if (j >= padded) return;
    if (square && j < count && threadIdx.x % 32 == 0) square[j] = length;
    __half* const row = reinterpret_cast<__half*>(rows) + j * width;
    write_centroid([&](int f) -> __half& { return row[f]; }, width,
                   j < count ? length : std::numeric_limits<double>::infinity(), *defect, coordinates, d);
  }
};

}  // namespace ladder
