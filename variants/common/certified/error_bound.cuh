// What one product of halves says for certain about a distance. docs/certificate.md has the proofs, by these names.
//
// Distances |x - c|^2 are compared by scores: with any centre m and unit s (a power of two), y = s (x - m) and
// z = s (c - m), the nearest centroid is the one with the greatest score y.z - |z|^2 / 2. From a product of halves,
// upper_bound() gives a number that is not below the score, lower_bound() one that is not above it. A centroid whose
// upper bound lies under another's lower bound is not the nearest, whatever the roundings. v19_refine introduces it.
#pragma once
#include "../gemm/fp16_rows.cuh"

namespace ladder {

// ---- what is assumed of a tensor core, and tried on the one at hand (probe.cuh)

/// One mma differs from C + sum a_k b_k by at most so many units of 2^-23 (|C| + sum |a_k|' |b_k|'), where |x|' is the
/// nominal size of a half, max(|x|, least_nominal): two steps, each of which cuts nine addends and their sum.
constexpr double cut_units = 20;
constexpr int most_features = 1 << 16;  // so that all steps' cuts together stay below a hundredth

/// By how much, relative to |yh|' |zh|', a product over d features may be off: the assumption, step after step.
__host__ __device__ inline double accumulation(int d) {
  const double all = cut_units * 0x1p-23 * ((d + mma_depth - 1) / mma_depth);
  return all / (1 - all);
}

/// What |yh|' may exceed |yh| by, in the units of halves: each of a row's features, and each zero up to the next step
/// of the product, may count for least_nominal more.
__host__ __device__ inline double nominal_excess(int d) {
  return least_nominal * sqrt(double((d + mma_depth - 1) / mma_depth * mma_depth));
}

// ---- what is kept of a row, once

/// How much a row's low half is taken to weigh: half of what the roundings of 11 bits can come to at most. A row that
/// lost more gets a greater weight.
constexpr double usual_loss = 0x1p-12;
/// Neither a row's weight nor a centroid's slack is less: so their product is a float far above the smallest ones, and
/// what underflow takes elsewhere is nothing beside it.
constexpr double least_weight = 0x1p-50;
/// More than what double arithmetic does to a length, relative.
constexpr double of_doubles = 0x1p-40;

/// A point: y is about factor times its halves; |yh|' <= weight, |yl| <= usual_loss weight.
struct PointBound {
  float factor, weight;
};

__host__ __device__ inline PointBound point_bound(const QuantizationError& row, int d) {
  const double unit = scalbn(1.0, -row.exponent);
  const double kept = (sqrt(row.kept) + nominal_excess(d)) * unit, whole = sqrt(row.whole) * unit;
  const double lost = sqrt(row.lost) * unit + of_doubles * whole;
  const double weight = kept > lost / usual_loss ? kept : lost / usual_loss;
  return {float(unit), float((weight > least_weight ? weight : least_weight) * (1 + 0x1p-20))};
}

/// A centroid: z is about factor times its halves. A factor of 0: too far for a float, or no centroid at all.
struct alignas(16) CentroidBound {
  float factor;
  float slack;   // weight x slack is more than all that makes a score uncertain
  float square;  // less than |z|^2 / 2, by up to 2^-20 of it
  float unused;
};

constexpr double far_away = 0x1p40;  // units; points lie within 2^31, whatever D is
constexpr float far_square = 0x1p70f;

__host__ __device__ inline CentroidBound centroid_bound(const QuantizationError& row, int d) {
  const double unit = scalbn(1.0, -row.exponent);
  const double kept = (sqrt(row.kept) + nominal_excess(d)) * unit, whole = sqrt(row.whole) * unit;
  const double lost = sqrt(row.lost) * unit + of_doubles * whole;
  if (!(whole < far_away)) return {0, float(least_weight), far_square, 0};
  const double slack = usual_loss * whole + lost + (accumulation(d) + 0x1p-21) * kept;
  return {float(unit), float((slack > least_weight ? slack : least_weight) * (1 + 0x1p-20)),
          float(whole * whole / 2 * (1 - 0x1.8p-21)), 0};
}

/// What stands in the place of a centroid that does not exist: below all others, and a number.
__host__ __device__ inline CentroidBound padding_centroid() { return {0, float(least_weight), 0x1p100f, 0}; }

// ---- what is said of a pair, by floats

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

// ---- what is said of a row

/// The greatest upper bounds of the centroids seen so far, and a lower bound of the greatest score. Whose upper bound
/// is below `least` need not be shown to it.
struct Top3 {
  static constexpr float none = -std::numeric_limits<float>::max();  // below every centroid's bound
  float first = none, second = none, third = none;                   // the third stands for all others, too
  int first_index = 0, second_index = 0;
  float least = none;

  __host__ __device__ void see(float upper, int j) {
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
  /// As if it had seen what the other one has.
  __host__ __device__ void merge(const Top3& other) {
    see(other.first, other.first_index);
    see(other.second, other.second_index);
    third = third > other.third ? third : other.third;
    least = least > other.least ? least : other.least;
  }
  /// Is the first the nearest, with no other as near?
  __host__ __device__ bool proven() const { return second < least; }
  /// Is it the first or the second?
  __host__ __device__ bool pair() const { return third < least; }
};

}  // namespace ladder
