// Rigorous bounds of a distance from one product of halves. docs/certificate.md has the proofs, by these names.
//
// Distances |x - c|^2 are compared by scores: with a centre m and a unit s (a power of two), y = s (x - m) and
// z = s (c - m), the nearest centroid is the one with the largest score y.z - |z|^2 / 2. From a product of halves,
// upper_bound() computes a number that is not below the score and lower_bound() one that is not above it. A centroid
// whose upper bound is below another centroid's lower bound is not the nearest, whatever the roundings.
// v24_certified introduces it.
#pragma once
#include "../gemm/fp16_rows.cuh"

namespace ladder {

// ---- what is kept of a row, once

/// Largest |yh|' - |yh|, in the units of halves: each feature of a row, and each zero that pads the last step of the
/// product, may count for min_nominal more.
__host__ __device__ inline double nominal_excess(int d) {
  return min_nominal * sqrt(double((d + mma_depth - 1) / mma_depth * mma_depth));
}

/// Assumed size of a row's low half, relative to the row: half of the largest rounding error of 11 bits. A row that
/// lost more gets a larger weight.
constexpr double usual_loss = 0x1p-12;
/// Lower limit of a row's weight and of a centroid's slack: their product is a float far above the smallest ones, so
/// underflow elsewhere is negligible beside it.
constexpr double min_weight = 0x1p-50;
/// More than the rounding of double arithmetic changes a length, relative.
constexpr double of_doubles = 0x1p-40;

/// Units within which points lie, whatever D is; only outlier rows (common_unit.cuh) can lie beyond.
constexpr double farthest_point = 0x1p31;

/// A point: y is about factor times its halves; |yh|' <= weight, |yl| <= usual_loss weight. An infinite weight makes
/// all bounds infinite: the row is never proven.
struct PointBound {
  float factor, weight;
};

__host__ __device__ inline PointBound point_bound(const QuantizationError& row, int d) {
  const double unit = scalbn(1.0, -row.exponent);
  const double kept = (sqrt(row.kept) + nominal_excess(d)) * unit, whole = sqrt(row.whole) * unit;
  const double lost = sqrt(row.lost) * unit + of_doubles * whole;
  if (!(whole < farthest_point)) return {0, std::numeric_limits<float>::infinity()};
  const double weight = kept > lost / usual_loss ? kept : lost / usual_loss;
  return {float(unit), float((weight > min_weight ? weight : min_weight) * (1 + 0x1p-20))};
}

/// A centroid: z is about factor times its halves. Factor 0: its length overflows a float, or it only pads a tile.
struct alignas(16) CentroidBound {
  float factor;
  float slack;   // weight x slack is more than the total uncertainty of a score
  float square;  // less than |z|^2 / 2, by up to 2^-20 of it
  float unused;
};

constexpr double far_away = 0x1p40;  // units; points lie within farthest_point
constexpr float far_square = 0x1p70f;

__host__ __device__ inline CentroidBound centroid_bound(const QuantizationError& row, int d) {
  const double unit = scalbn(1.0, -row.exponent);
  const double kept = (sqrt(row.kept) + nominal_excess(d)) * unit, whole = sqrt(row.whole) * unit;
  const double lost = sqrt(row.lost) * unit + of_doubles * whole;
  if (!(whole < far_away)) return {0, float(min_weight), far_square, 0};
  const double slack = usual_loss * whole + lost + (accumulation(d) + 0x1p-21) * kept;
  return {float(unit), float((slack > min_weight ? slack : min_weight) * (1 + 0x1p-20)),
          float(whole * whole / 2 * (1 - 0x1.8p-21)), 0};
}

/// Pads the last tile: its upper bound is finite and below those of all centroids.
__host__ __device__ inline CentroidBound padding_centroid() { return {0, float(min_weight), 0x1p100f, 0}; }

// ---- bounds of a pair, in float

/// Not below the score of the pair whose halves' product is `product`.
__host__ __device__ inline float upper_bound(float product, PointBound y, CentroidBound z) {
  return fmaf(product, y.factor * z.factor, fmaf(y.weight, z.slack, -z.square));
}

/// Not above the score of the pair with this upper bound.
__host__ __device__ inline float lower_bound(float upper, PointBound y, CentroidBound z) {
  if (z.factor == 0) return -std::numeric_limits<float>::infinity();
  const float width = 2.001f * (y.weight * z.slack);
  return upper - fmaf(0x1p-23f, fabsf(upper), fmaf(0x1p-19f, z.square, width));
}

// ---- bounds of a row

/// The three largest upper bounds of a row's centroids and the largest lower bound. A centroid whose upper bound is
/// below `lower` need not be inserted.
struct Top3 {
  static constexpr float none = -std::numeric_limits<float>::max();  // below every centroid's bound
  float first = none, second = none, third = none;                   // no other centroid's bound is above the third
  int first_index = 0, second_index = 0;
  float lower = none;

  __host__ __device__ void insert(float upper, int j) {
    if (upper > first) {
      third = second;
      second = first, second_index = first_index;
      first = upper, first_index = j;
    } else if (upper > second) {
      third = second;
      second = upper, second_index = j;
    } else if (upper > third) {
      third = upper;
    }
  }
  __host__ __device__ void merge(const Top3& rhs) {
    insert(rhs.first, rhs.first_index);
    insert(rhs.second, rhs.second_index);
    third = third > rhs.third ? third : rhs.third;
    lower = lower > rhs.lower ? lower : rhs.lower;
  }
  /// The first is the nearest centroid, and no other is as near.
  __host__ __device__ bool proven() const { return second < lower; }
  /// The nearest centroid is the first or the second.
  __host__ __device__ bool pair() const { return third < lower; }
};

}  // namespace ladder
