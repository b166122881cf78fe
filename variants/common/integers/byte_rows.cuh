// Rows as signed bytes with one scale each, and what decides a pair from their product, which is exact. y, z: a point
// and a centroid in the frame; by, bz: their bytes; g, a: the point's inverse scale and the centroid's scale, floats.
// Then y is about by / g and z about a bz, what rounding loses is known, and by the Cauchy-Schwarz inequality
//
//     g y.z <= a by.bz + w e,    w >= g |kept of y|, g |lost of y| / r,    e >= r |z| + |lost of z|,    r = 2^-7.
//
// docs/certificate.md has the proof (Lemma 12): it needs no assumption about the tensor cores. v38a_integers introduces
// it.
#pragma once
#include "../certified/error_bound.cuh"
#include "wgmma_bytes.cuh"

namespace ladder {

/// Relative loss that is usual for a row of bytes. A row that lost more gets a larger weight.
constexpr double usual_byte_loss = 0x1p-7;
/// Limits g: smaller rows keep fewer bits, and every term of a pair is a float.
constexpr double most_inverse_scale = 0x1p40;

/// A point: g, and w. Both are 0 for a point beyond farthest_point, as an outlier row (certified/common_unit.cuh) can
/// be: no bound of it is computed, and every centroid is a candidate.
struct BytePoint {
  float inverse_scale, weight;
};
/// A centroid: a, e, and less than |z|^2 / 2 by up to 2^-21 of it.
struct alignas(16) ByteCentroid {
  float scale, slack, square, unused;
};

/// Squares of a row's length and of its rounding error, and its largest value.
struct ByteSize {
  double whole, largest;
};
struct ByteError {
  double kept, lost;
};

/// By a warp: `value(f)`, a double, is feature f of d. Every lane gets the result.
template <class Value>
__device__ ByteSize byte_size(int d, const Value& value) {
  double whole = 0, largest = 0;
  for (int f = threadIdx.x % 32; f < d; f += 32) whole += value(f) * value(f), largest = max(largest, fabs(value(f)));
  return {warp_sum(whole), warp_max(largest)};
}

/// The same row as multiples of `scale`, of which no value has more than 127. Four features of a word each go to
/// place(word), a uint32_t&; from d on, up to word `words`, they are zeros.
template <class Place, class Value>
__device__ ByteError write_bytes(const Place& place, int words, int d, double scale, const Value& value) {
  const double units = 1 / scale;  // a division per value would take longer than all else
  double kept = 0, lost = 0;
  for (int word = threadIdx.x % 32; word < words; word += 32) {
    uint32_t bytes = 0;
    for (int e = 0; e < 4; ++e) {
      const double exact = 4 * word + e < d ? value(4 * word + e) : 0.0;
      const double byte = fmin(fmax(rint(exact * units), double(-most_byte)), double(most_byte));
      const double rest = exact - byte * scale;
      kept += byte * scale * byte * scale, lost += rest * rest;
      bytes |= (uint32_t(int(byte)) & 0xffu) << 8 * e;
    }
    place(word) = bytes;
  }
  return {warp_sum(kept), warp_sum(lost)};
}

/// g: no value of a row with this largest one has more than 127 units. At least 2^-126: its inverse is finite.
__host__ __device__ inline float byte_inverse_scale(double largest) {
  const double inverse = most_byte / largest * (1 - 0x1p-23);  // infinite for a row of zeros
  return float(fmax(inverse < most_inverse_scale ? inverse : most_inverse_scale, 0x1p-126));
}
/// a, likewise; a row of zeros has the limit's.
__host__ __device__ inline float byte_scale(double largest) {
  const double scale = largest / most_byte * (1 + 0x1p-23);
  return float(scale > 1 / most_inverse_scale ? scale : 1 / most_inverse_scale);
}

__host__ __device__ inline BytePoint byte_point(const ByteSize& y, const ByteError& error, float inverse_scale) {
  if (!(y.whole < farthest_point * farthest_point)) return {0, 0};
  const double kept = sqrt(error.kept) * (1 + of_doubles), whole = sqrt(y.whole);
  const double lost = (sqrt(error.lost) + of_doubles * whole) * (1 + of_doubles);
  const double weight = kept > lost / usual_byte_loss ? kept : lost / usual_byte_loss;
  return {inverse_scale, float((weight > min_weight ? weight : min_weight) * inverse_scale * (1 + 0x1p-20))};
}

/// A centroid from this length on, far_away, keeps nothing; one that is not finite does neither.
__host__ __device__ inline bool keeps_bytes(const ByteSize& z) { return z.whole < far_away * far_away; }
__host__ __device__ inline ByteCentroid byte_centroid(const ByteSize& z, const ByteError& error, float scale) {
  if (!keeps_bytes(z)) return {0, float(min_weight), far_square, 0};
  const double kept = sqrt(error.kept), whole = sqrt(z.whole) * (1 + of_doubles);
  const double lost = (sqrt(error.lost) + of_doubles * whole) * (1 + of_doubles);
  const double slack = usual_byte_loss * whole + lost + 0x1p-21 * kept;
  return {scale, float((slack > min_weight ? slack : min_weight) * (1 + 0x1p-20)), float(z.whole / 2 * (1 - 0x1.8p-22)),
          0};
}
/// Pads the last tile: infinitely far away, whatever g is.
__host__ __device__ inline ByteCentroid padding_bytes() {
  return {0, float(min_weight), std::numeric_limits<float>::infinity(), 0};
}

/// With this threshold every centroid reaches it, but none that pads a tile, unless g is 0.
constexpr double all_bytes_reach = -0x1p126;

/// A row's threshold: g times a score that is not above that of any centroid whose squared distance is at most
/// `distance`. `square`: the point's squared length. Both in the frame, with a relative error below 2^-39.
__host__ __device__ inline float byte_threshold(double square, double distance, float inverse_scale) {
  const double score = (square * (1 - 0x1p-38) - distance * (1 + 0x1p-38)) / 2 * inverse_scale;
  const double least = inverse_scale > 0 ? fmax(score, all_bytes_reach) : all_bytes_reach;  // fmax: of a NaN, the other
  return float(least - fabs(least) * 0x1p-23);
}

/// Negative only if the pair's score times g is below the threshold; `product` is that of their bytes. With a threshold
/// of 0 it is an upper bound of the score times g, up to roundings.
__host__ __device__ inline float byte_excess(int product, const BytePoint& y, float threshold, const ByteCentroid& z) {
  const float apart = fmaf(-y.inverse_scale, z.square, -threshold);
  return fmaf(float(product), z.scale, fmaf(y.weight, z.slack, apart));
}

}  // namespace ladder
