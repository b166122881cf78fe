#include "base/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

namespace ladder {
namespace {

// The known answers of Random123 (kat_vectors), evaluated by the compiler.
static_assert(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, KnownAnswersAtRunTime) {
  volatile uint32_t zero = 0;  // keeps the compiler from knowing the answer
  EXPECT_EQ(philox({zero, zero, zero, zero}, {zero, zero}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, EveryPartOfTheAddressCounts) {
  const Words words = draw(1, Stream::noise, 2, 3);
  EXPECT_NE(words, draw(2, Stream::noise, 2, 3));
  EXPECT_NE(words, draw(uint64_t(1) << 32 | 1, Stream::noise, 2, 3));
  EXPECT_NE(words, draw(1, Stream::zeros, 2, 3));
  EXPECT_NE(words, draw(1, Stream::noise, 3, 3));
  EXPECT_NE(words, draw(1, Stream::noise, uint64_t(1) << 32 | 2, 3));
  EXPECT_NE(words, draw(1, Stream::noise, 2, 4));
}

TEST(Philox, UniformsStayBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(~0u), 1 - 0x1p-24f);
  EXPECT_EQ(uniform(~0u), 1 - 0x1p-32);
  EXPECT_EQ(uniform_double(~uint64_t(0)), 1 - 0x1p-53);
  EXPECT_EQ(uniform_double(bits64(0x80000000, 0)), 0.5);
}

TEST(Sequence, UsesTheWordsInOrder) {
  Sequence sequence(9, Stream::rows, 4);
  for (uint32_t block = 0; block < 3; ++block)
    for (const uint32_t word : draw(9, Stream::rows, 4, block)) EXPECT_EQ(sequence.next(), word);
}

TEST(Sequence, BoundedIntegersAreEvenlySpread) {
  Sequence sequence(7, Stream::rows);
  std::map<uint32_t, int> seen;
  constexpr int draws = 60000;
  for (int i = 0; i < draws; ++i) ++seen[sequence.below(6)];
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen.rbegin()->first, 5u);
  double chi2 = 0;
  for (const auto& [value, count] : seen) chi2 += (count - draws / 6.0) * (count - draws / 6.0) / (draws / 6.0);
  EXPECT_LT(chi2, 20.5);  // 5 degrees of freedom: exceeded by chance once in 1000
}

TEST(Sequence, RejectsTheSurplusOfALargeBound) {
  // 3 * 2^30 is where taking the upper half of the product alone would give every third value twice its share.
  constexpr uint32_t bound = 3u << 30;
  Sequence sequence(11, Stream::rows);
  int thirds[3] = {};
  constexpr int draws = 30000;
  for (int i = 0; i < draws; ++i) {
    const uint32_t value = sequence.below(bound);
    ASSERT_LT(value, bound);
    ++thirds[value % 3];
  }
  for (const int third : thirds) EXPECT_NEAR(third, draws / 3, 400);  // 5 standard deviations
  EXPECT_EQ(Sequence(1, Stream::rows).below(1), 0u);
}

TEST(Normal, QuantilesOfTheStandardNormal) {
  // p = (bits + 1/2) / 2^32, and the derivative of the quantile there bounds what the half step moves.
  EXPECT_NEAR(normal(0x80000000), 0, 1e-9);
  EXPECT_NEAR(normal(0xC0000000), 0.67448975019608171, 1e-9);
  EXPECT_NEAR(normal(uint32_t(0.975 * 0x1p32)), 1.9599639845400545, 1e-8);
  EXPECT_NEAR(normal(uint32_t(0.99865010196836990547 * 0x1p32)), 3, 1e-7);
  // The two ends: the quantile of 2^-33, as scipy.stats.norm.ppf gives it.
  EXPECT_NEAR(normal(0), -6.3379577545537895, 1e-14);
}

TEST(Normal, InverseOfTheDistributionFunction) {
  for (uint64_t step = 0; step < 4096; ++step) {
    const auto bits = uint32_t(step * 1048573);
    const double p = (double(bits) + 0.5) * 0x1p-32;
    const double z = normal(bits);
    const double back = 0.5 * std::erfc(-z / std::sqrt(2.0));
    ASSERT_NEAR(back / p, 1, 3e-14) << "bits " << bits;
  }
}

TEST(Normal, OddAroundOneHalfAndMonotone) {
  double last = normal(0);
  for (uint64_t bits = 65537; bits <= 0xffffffff; bits += 65537) {
    const double z = normal(uint32_t(bits));
    ASSERT_GT(z, last);
    ASSERT_EQ(z, -normal(~uint32_t(bits)));
    last = z;
  }
}

TEST(Normal, MomentsOfAMillion) {
  std::vector<double> z(1000003);
  normals(5, Stream::noise, 0, z.size(), z.data());
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const double v : z) m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v;
  const double n = double(z.size());
  EXPECT_NEAR(m1 / n, 0, 5e-3);  // 5 standard errors of each
  EXPECT_NEAR(m2 / n, 1, 7.1e-3);
  EXPECT_NEAR(m3 / n, 0, 2e-2);
  EXPECT_NEAR(m4 / n, 3, 5e-2);
}

TEST(Normal, ARowIsAFunctionOfItsAddress) {
  std::vector<double> whole(11), part(6);
  normals(3, Stream::noise, 8, whole.size(), whole.data());
  normals(3, Stream::noise, 8, part.size(), part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  for (size_t j = 0; j < whole.size(); ++j)
    EXPECT_EQ(whole[j], normal(draw(3, Stream::noise, 8, uint32_t(j / 4))[j % 4]));
}

TEST(Normal, GoldenBits) {
  EXPECT_EQ(normal(0x00000000), -0x1.95a1198fcf3d5p+2);
  EXPECT_EQ(normal(0x00000001), -0x1.8aa6c7fe07fdep+2);
  EXPECT_EQ(normal(0x12345678), -0x1.77b263457d4cep+0);
  EXPECT_EQ(normal(0x13333333), -0x1.7085226b1fc71p+0);
  EXPECT_EQ(normal(0x80000000), 0x1.40d931ff62707p-32);
  EXPECT_EQ(normal(0xdeadbeef), 0x1.20293483584e7p+0);
  EXPECT_EQ(normal(0xfffffff0), 0x1.724a2fa9e764fp+2);
  EXPECT_EQ(normal(0xffffffff), 0x1.95a1198fcf3d5p+2);
  double z[3];
  normals(42, Stream::noise, 123456789012, 3, z);
  EXPECT_EQ(z[0], -0x1.0204383690536p-1);
  EXPECT_EQ(z[1], 0x1.58856979672cp-2);
  EXPECT_EQ(z[2], 0x1.440f1b132c704p-1);
}

}  // namespace
}  // namespace ladder
