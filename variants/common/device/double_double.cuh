// Double-double arithmetic, some 100 bits: squared distances where double or bounds cannot tell two apart.
// v23_half_product introduces it, for the probe of the tensor cores. Source:
// Dekker, "A floating-point technique for extending the available precision", 1971; Hida, Li, Bailey, "Library for
// double-double arithmetic", 2000.
#pragma once
#include "../../../harness/contract/launch.cuh"

namespace ladder {

struct DoubleDouble {
  double high = 0, low = 0;
};

// The _rn intrinsics are never fused into multiply-adds: the error terms below rely on each rounding.
__device__ inline DoubleDouble two_sum(double a, double b) {
  const double sum = __dadd_rn(a, b), part = __dsub_rn(sum, a);
  return {sum, __dadd_rn(__dsub_rn(a, __dsub_rn(sum, part)), __dsub_rn(b, part))};
}
__device__ inline DoubleDouble add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
  const DoubleDouble first = two_sum(high.high, __dadd_rn(high.low, low.high));
  return two_sum(first.high, __dadd_rn(first.low, low.low));
}
__device__ inline DoubleDouble square(DoubleDouble a) {
  const double product = __dmul_rn(a.high, a.high);
  return two_sum(product, __fma_rn(a.high, a.high, -product) + 2 * a.high * a.low);
}

/// The squared distance over the features first, first + step, ... below d.
template <class T>
__device__ DoubleDouble exact_distance(const T* x, const T* c, int d, int first, int step) {
  DoubleDouble sum;
  for (int f = first; f < d; f += step) sum = add(sum, square(two_sum(double(x[f]), -double(c[f]))));
  return sum;
}

/// The sum over the lanes of a warp, in each of them.
__device__ inline DoubleDouble exact_warp_sum(DoubleDouble sum) {
  for (int half = 16; half > 0; half /= 2) {
    sum = add(sum, {__shfl_xor_sync(0xffffffffu, sum.high, half), __shfl_xor_sync(0xffffffffu, sum.low, half)});
  }
  return sum;
}

}  // namespace ladder
