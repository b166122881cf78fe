// Two candidates compared by one sum. v25f_pair_difference introduces it.
#pragma once
#include "exact_candidates.cuh"

namespace ladder {

/// Of two centroids, the one that is nearer to a point; -1 where rounding may have exchanged them. By a warp.
template <class T>
__device__ int nearer_of_two(int first, int second, const T* point, const T* c, int d) {
  const int lane = threadIdx.x % 32;
  const T *const a = c + int64_t(first) * d, *const b = c + int64_t(second) * d;
  double difference = 0;
  float squares = 0;
  const auto add = [&](int f) {
    const T x = point[f], x_a = a[f], x_b = b[f];
    const double from_a = double(x) - double(x_a), from_b = double(x) - double(x_b);
    difference += from_a * from_a - from_b * from_b;
    const float near_a = float(from_a), near_b = float(from_b);
    squares += near_a * near_a + near_b * near_b;
  };
#pragma unroll 2
  for (int f = lane; f < d; f += 32) add(f);
  difference = warp_sum(difference);
  // A lane adds (d + 31) / 32 terms, and the warp five times: each sum and each term is off by less than 2^-52 of all
  // squares, of which 32 times the largest lane's are an upper bound, beside what underflows in float.
  const float most = 64 * warp_max(squares);
  const double error = (d + 16) * 0x1p-51 * double(most) + 0x1p-120 * d;
  return !(fabs(difference) > error) ? -1 : difference < 0 ? first : second;
}

}  // namespace ladder
