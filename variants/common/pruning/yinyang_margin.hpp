// Bounds of true distances from computed ones, so that rounding cannot prune wrongly. Used by v14d_yinyang and
// c4_yinyang.
#pragma once
#include <cmath>

#include "../../../harness/contract/contract.hpp"

namespace ladder {

/// For squared distances of D features computed in T as a sum of (x - c)^2, in any order.
///
/// Such a sum is d2 (1 + t), |t| <= gamma(D + 2, u) (Higham, Accuracy and Stability of Numerical Algorithms, section
/// 3.1), but for what underflow takes: at most 8 D times the smallest normal number. Its root is off by half of t,
/// relative; that root and the product with `up` or `down` round once each: D / 2 + 3 roundings. The factors allow for
/// 2 (D + 8), so that above() exceeds the true distance, and below() stays under it, by D roundings and more; farther()
/// adds as much on each side, and what both computed distances can be off by is D + 2.
template <class T>
struct Margin {
  T up, down, tiny;
  __host__ __device__ explicit Margin(int d) {
    constexpr T epsilon = std::numeric_limits<T>::epsilon();  // twice the unit roundoff u
    up = 1 + (d + 8) * epsilon;
    down = 1 - (d + 8) * epsilon;
    tiny = 2 * std::sqrt(T(8) * d * std::numeric_limits<T>::min());
  }
  /// Not less than the true distance whose computed square is d2.
  __host__ __device__ T above(T d2) const { return std::sqrt(d2) * up + tiny; }
  /// Not more than it.
  __host__ __device__ T below(T d2) const { return positive(std::sqrt(d2) * down - tiny); }
  /// A bound after one end of its distance moved by at most `drift`; the factor covers both roundings.
  __host__ __device__ T raised(T bound, T drift) const { return (bound + drift) * up; }
  __host__ __device__ T lowered(T bound, T drift) const { return positive((bound - drift) * down); }
  /// Is a centroid at least `lower` away surely farther than one at most `upper` away, also when both distances are
  /// computed in T?
  __host__ __device__ bool farther(T lower, T upper) const { return lower * down - tiny > upper * up + tiny; }

 private:
  __host__ __device__ static T positive(T bound) { return bound > 0 ? bound : T(0); }  // 0 for NaN too
};

/// Centroids share a group, and its bound, by tens.
inline int yinyang_groups(int k) { return std::clamp(k / 10, 1, 65535); }

}  // namespace ladder
