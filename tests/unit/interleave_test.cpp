#include "runner/interleave.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace ladder {
namespace {

TEST(InterleavedOrder, EachRoundHasEveryVariantOnce) {
  for (const int variants : {2, 3, 5}) {
    const std::vector<int> order = interleaved_order(variants, 7, 3);
    ASSERT_EQ(order.size(), size_t(variants) * 7);
    for (int round = 0; round < 7; ++round) {
      std::vector<int> of_round(order.begin() + round * variants, order.begin() + (round + 1) * variants);
      std::sort(of_round.begin(), of_round.end());
      for (int v = 0; v < variants; ++v) EXPECT_EQ(of_round[size_t(v)], v);
    }
  }
}

TEST(InterleavedOrder, FollowsFromItsSeedAlone) {
  EXPECT_EQ(interleaved_order(3, 5, 9), interleaved_order(3, 5, 9));
  EXPECT_NE(interleaved_order(3, 5, 9), interleaved_order(3, 5, 10));
  EXPECT_EQ(interleaved_order(2, 5, 1), (std::vector<int>{1, 0, 0, 1, 1, 0, 1, 0, 0, 1})) << "the same everywhere";
}

/// All orders of a round are equally likely, in every round: a period cannot meet one variant more than another.
TEST(InterleavedOrder, EveryOrderOfARoundIsAsLikely) {
  constexpr uint32_t seeds = 6000;
  for (const size_t round : {0, 3}) {
    std::map<std::array<int, 3>, double> share;
    for (uint32_t seed = 0; seed < seeds; ++seed) {
      const std::vector<int> order = interleaved_order(3, 4, seed);
      share[{order[3 * round], order[3 * round + 1], order[3 * round + 2]}] += 1.0 / seeds;
    }
    ASSERT_EQ(share.size(), 6u);
    for (const auto& [order, of_all] : share) EXPECT_NEAR(of_all, 1.0 / 6, 0.025);
  }
}

}  // namespace
}  // namespace ladder
