#include "runner/interleave.hpp"

#include <gtest/gtest.h>

namespace ladder {
namespace {

TEST(InterleavedOrder, ThereAndBackAgain) {
  EXPECT_EQ(interleaved_order(2, 5), (std::vector<int>{0, 1, 1, 0, 0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(interleaved_order(3, 2), (std::vector<int>{0, 1, 2, 2, 1, 0}));
}

/// What drifts evenly meets all alike: their mean places are equal, up to one session.
TEST(InterleavedOrder, NobodyIsEarlierThanAnother) {
  for (const int variants : {2, 3, 4}) {
    for (const int sessions : {5, 6, 11}) {
      std::vector<double> sum(size_t(variants), 0), count(size_t(variants), 0);
      const std::vector<int> order = interleaved_order(variants, sessions);
      for (size_t position = 0; position < order.size(); ++position) {
        sum[size_t(order[position])] += double(position);
        ++count[size_t(order[position])];
      }
      for (int v = 0; v < variants; ++v) {
        EXPECT_EQ(count[size_t(v)], sessions);
        EXPECT_NEAR(sum[size_t(v)] / sessions, double(order.size() - 1) / 2, double(variants) / sessions);
      }
    }
  }
}

}  // namespace
}  // namespace ladder
