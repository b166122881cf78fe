// Half-precision numbers on the CPU device.
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../on_device.cuh"

namespace {

/// The half nearest to `value` by looking at all of them; on a tie the one with an even last bit.
unsigned short nearest_by_search(double value) {
  static const std::vector<double> halves = [] {
    std::vector<double> all;
    for (unsigned bits = 0; bits < 0x7c00; ++bits) {
      const unsigned exponent = bits >> 10, fraction = bits & 0x3ff;
      all.push_back(exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, int(exponent) - 25));
    }
    all.push_back(65536);  // where infinity begins, as far as rounding goes
    return all;
  }();
  const double magnitude = std::fabs(value);
  const size_t above = size_t(std::lower_bound(halves.begin(), halves.end(), magnitude) - halves.begin());
  size_t best = std::min(above, halves.size() - 1);
  if (above > 0 && above < halves.size()) {
    const double up = halves[above] - magnitude, down = magnitude - halves[above - 1];
    if (down < up || (down == up && above % 2 == 1)) best = above - 1;
  }
  return (unsigned short)(best | (std::signbit(value) ? 0x8000 : 0));
}

TEST(SimtHalf, EveryHalfIsItsOwnFloatAndComesBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const __half value = __ushort_as_half((unsigned short)bits);
    if (__hisnan(value)) {
      EXPECT_TRUE(std::isnan(__half2float(value)));
      EXPECT_TRUE(__hisnan(__float2half_rn(__half2float(value))));
      continue;
    }
    ASSERT_EQ(__half_as_ushort(__float2half_rn(__half2float(value))), bits);
    if (bits >= 0x7c00) continue;
    ASSERT_EQ(nearest_by_search(__half2float(value)), bits);
  }
  EXPECT_EQ(__half2float(__ushort_as_half(0x3c00)), 1.0f);
  EXPECT_EQ(__half2float(__ushort_as_half(0xfbff)), -65504.0f);
  EXPECT_EQ(__half2float(__ushort_as_half(0x0001)), 0x1p-24f);
  EXPECT_EQ(__half2float(__ushort_as_half(0x7c00)), std::numeric_limits<float>::infinity());
}

TEST(SimtHalf, RoundsToNearestWithTiesToEvenOnce) {
  // Around every boundary between two halves: on it, and a double's last bit to either side.
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double low = __half2float(__ushort_as_half((unsigned short)bits));
    const double high = bits == 0x7bff ? 65536 : double(__half2float(__ushort_as_half((unsigned short)(bits + 1))));
    const double middle = (low + high) / 2;
    for (const double value : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e9), -middle})
      ASSERT_EQ(__half_as_ushort(__double2half(value)), nearest_by_search(value)) << value;
  }
  EXPECT_EQ(__hisinf(__double2half(1e300)), 1);
  EXPECT_EQ(__hisinf(__float2half_rn(-65520)), -1);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(-1e-30f)), 0x8000) << "the sign stays";
}

TEST(SimtHalf, FusedMultiplyAddRoundsOnce) {
  const __half one = 1.0f, epsilon = 0x1p-10f, tiny = 0x1p-24f, three = 3.0f;
  // (1 + e)^2 = 1 + 2 e + e^2: rounded before the addition, e^2 is lost.
  EXPECT_EQ(float(__hfma(one + epsilon, one + epsilon, __hneg(one + epsilon + epsilon))), 0x1p-20f);
  // 3075 and 3081 are ties, with even neighbours above and below; the least half decides otherwise.
  EXPECT_EQ(float(__half(1025.0f) * three), 3076.0f);
  EXPECT_EQ(float(__hfma(__half(1025.0f), three, __hneg(tiny))), 3074.0f);
  EXPECT_EQ(float(__half(1027.0f) * three), 3080.0f);
  EXPECT_EQ(float(__hfma(__half(1027.0f), three, tiny)), 3082.0f);
  EXPECT_EQ(__hisinf(__hfma(__half(65504.0f), __half(65504.0f), __half(-65504.0f))), 1);
}

TEST(SimtHalf, ArithmeticAndComparisonsAreThoseOfNumbers) {
  const __half a = 1.5f, b = -0.25f;
  EXPECT_EQ(float(a + b), 1.25f);
  EXPECT_EQ(float(a - b), 1.75f);
  EXPECT_EQ(float(a * b), -0.375f);
  EXPECT_EQ(float(a / b), -6.0f);
  EXPECT_TRUE(b < a && a > b && !(a == b) && -b <= a && __habs(b) >= b);
  const float2 sum = __half22float2(__hfma2({a, b}, {b, a}, __float2half2_rn(1.0f)));
  EXPECT_EQ(sum.x, 0.625f);
  EXPECT_EQ(sum.y, 0.625f);
  EXPECT_EQ(__low2float(__halves2half2(a, b)), 1.5f);
  EXPECT_EQ(__high2float(__floats2half2_rn(1.0f, -2.0f)), -2.0f);
}

__global__ void pairs_kernel(const half2* in, half* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float2 two = __half22float2(in[i]);
  out[2 * i] = __float2half_rn(two.y);
  out[2 * i + 1] = __float2half_rn(two.x);
}

TEST(SimtHalf, PairsAreLoadedByKernels) {
  static_assert(sizeof(half) == 2 && sizeof(half2) == 4 && alignof(half2) == 4);
  constexpr int count = 100;
  std::vector<half2> pairs;
  for (int i = 0; i < count; ++i) pairs.push_back(__floats2half2_rn(float(i), float(-i)));
  const OnDevice<half2> in(pairs);
  OnDevice<half> out(2 * count);
  ladder::launch(pairs_kernel, 2, 64, 0, nullptr, in, out, count);
  const auto values = out.values();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(float(values[2 * i]), float(-i));
    EXPECT_EQ(float(values[2 * i + 1]), float(i));
  }
}

}  // namespace
