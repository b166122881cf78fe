// Values as whole numbers and means of their sums, short where one word holds a sum. The same bits as for_digits() and
// mean_of(). v03j_short_division has the division; v03k_cluster_messages introduces this part.
#pragma once
#include "../update/reproducible_sum.cuh"

namespace ladder {

/// Calls add(w, X_w) for the digits of x; a float in one word takes one product, which is exact. `scale`: 1 / unit.
template <class T, class Add>
__device__ void for_words(T x, const FixedPoint& format, double scale, Add add) {
  if (std::is_same_v<T, float> && format.words == 1)
    add(0, __double2ll_rn(double(x) * scale));
  else
    for_digits(double(x), format, add);
}

/// The mean of the `count` > 0 values of this sum.
template <class T>
__device__ T short_mean(const SumWords& words, int count, const FixedPoint& format) {
  const auto sum = static_cast<long long>(words.of[0]);
  const unsigned long long size = sum < 0 ? 0 - words.of[0] : words.of[0];
  if (format.words > 1 || size >> format.bits != 0) return mean_of<T>(words, count, format);
  const double value = double(sum), share = 1.0 / count, quotient = value * share;
  return T(__fma_rn(__fma_rn(-quotient, count, value), share, quotient) * format.unit);
}

}  // namespace ladder
