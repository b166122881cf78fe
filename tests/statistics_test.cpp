#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.hpp"

namespace ladder {
namespace {

using Samples = std::vector<double>;

/// `count` times around `median` ms, with a relative standard deviation of `spread`.
Samples times(double median, double spread, size_t count, uint64_t seed) {
  Samples samples(count);
  normals(seed, Stream::noise, 0, count, samples.data());
  for (double& s : samples) s = median * (1 + spread * s);
  return samples;
}

TEST(Quantile, InterpolatesAsNumpyDoes) {
  const Samples samples{4, 1, 3, 2};  // numpy.quantile([4, 1, 3, 2], [0, .25, .5, .75, 1]) = 1, 1.75, 2.5, 3.25, 4
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.75), 3.25);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(Samples{7}, 0.3), 7);
  EXPECT_THROW(quantile({}, 0.5), Error);
  EXPECT_THROW(quantile(samples, 1.5), Error);
}

TEST(Summary, MedianQuartilesAndSpread) {
  const Summary summary = summarise(Samples{10, 20, 30, 40, 1000});
  EXPECT_EQ(summary.count, 5u);
  EXPECT_DOUBLE_EQ(summary.median, 30);
  EXPECT_DOUBLE_EQ(summary.q1, 20);
  EXPECT_DOUBLE_EQ(summary.q3, 40);
  EXPECT_DOUBLE_EQ(summary.relative_iqr(), 20.0 / 30);
  EXPECT_EQ(summarise(Samples{0, 0}).relative_iqr(), 0);
}

using Verdict = StopRule::Verdict;

TEST(StopRule, TakesAtLeastTheMinimum) {
  const StopRule rule;
  EXPECT_EQ(rule.judge({}, 0), Verdict::more);
  EXPECT_EQ(rule.judge(Samples(9, 100.0), 0.9), Verdict::more) << "9 samples";
  EXPECT_EQ(rule.judge(Samples(10, 49.0), 0.5), Verdict::more) << "0.49 s of samples";
  EXPECT_EQ(rule.judge(Samples(10, 51.0), 0.5), Verdict::settled);
}

TEST(StopRule, WaitsWhileTheSpreadShrinks) {
  const StopRule rule{.min_seconds = 0};
  Samples noisy_start = times(10, 0.3, 10, 1);
  EXPECT_EQ(rule.judge(noisy_start, 0.1), Verdict::more);
  noisy_start.resize(60, 10.0);
  EXPECT_EQ(rule.judge(noisy_start, 0.6), Verdict::settled);
}

TEST(StopRule, StopsWhereMoreSamplesDoNotHelp) {
  const StopRule rule{.min_seconds = 0};
  Samples alternating;
  for (int i = 0; i < 19; ++i) alternating.push_back(i % 2 ? 8 : 12);
  EXPECT_EQ(rule.judge(alternating, 0.2), Verdict::more);
  alternating.push_back(8);
  EXPECT_EQ(rule.judge(alternating, 0.2), Verdict::steady);
}

TEST(StopRule, ImprovingSpreadAsksForMore) {
  const StopRule rule{.min_seconds = 0};
  Samples improving;
  for (int i = 0; i < 10; ++i) improving.push_back(i % 2 ? 5 : 15);
  for (int i = 0; i < 10; ++i) improving.push_back(i % 2 ? 9.5 : 10.5);
  EXPECT_EQ(rule.judge(improving, 0.2), Verdict::more);
}

TEST(StopRule, CapsSamplesAndTime) {
  const StopRule rule{.min_seconds = 100, .max_samples = 20, .max_seconds = 5};
  EXPECT_EQ(rule.judge(Samples(19, 1.0), 4.9), Verdict::more);
  EXPECT_EQ(rule.judge(Samples(20, 1.0), 4.9), Verdict::capped);
  EXPECT_EQ(rule.judge(Samples(3, 1.0), 5), Verdict::capped);
  EXPECT_STREQ(to_string(Verdict::capped), "capped");
}

TEST(MannWhitney, KnownValues) {
  // scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
  const Samples a{19, 22, 16, 29, 24}, b{20, 11, 17, 12};
  EXPECT_NEAR(mann_whitney_p(a, b), 0.11134688653314041, 1e-12);
  EXPECT_NEAR(mann_whitney_p(b, a), 0.11134688653314041, 1e-12);
  const Samples tied_a{1, 2, 2, 3, 3, 3, 4}, tied_b{2, 3, 4, 4, 5, 5};
  EXPECT_NEAR(mann_whitney_p(tied_a, tied_b), 0.07826242947714618, 1e-12);
  EXPECT_EQ(mann_whitney_p(Samples(5, 1.0), Samples(6, 1.0)), 1);
}

TEST(Compare, FasterSlowerSame) {
  const Samples base = times(10, 0.01, 30, 1);
  const Comparison faster = compare(base, times(8, 0.01, 30, 2));
  EXPECT_EQ(faster.verdict, Comparison::Verdict::faster);
  EXPECT_NEAR(faster.ratio, 0.8, 0.01);
  EXPECT_LT(faster.low, faster.ratio);
  EXPECT_GT(faster.high, faster.ratio);
  EXPECT_LT(faster.p, 1e-6);
  EXPECT_EQ(compare(times(8, 0.01, 30, 2), base).verdict, Comparison::Verdict::slower);
  EXPECT_EQ(compare(base, times(10, 0.01, 30, 3)).verdict, Comparison::Verdict::same);
}

TEST(Compare, ADifferenceBelowTheMarginIsNone) {
  const Samples base = times(10, 0.001, 100, 1), candidate = times(10.1, 0.001, 100, 2);
  EXPECT_EQ(compare(base, candidate).verdict, Comparison::Verdict::same);
  EXPECT_EQ(compare(base, candidate, 0.005).verdict, Comparison::Verdict::slower);
}

TEST(Compare, UnsureWhereNoiseHidesTheDifferenceOrSamplesAreFew) {
  EXPECT_EQ(compare(times(10, 0.3, 10, 1), times(9.5, 0.3, 10, 2)).verdict, Comparison::Verdict::unsure);
  EXPECT_EQ(compare(Samples{10, 10, 10, 10}, Samples{5, 5, 5, 5, 5}).verdict, Comparison::Verdict::unsure);
  EXPECT_THROW(compare(Samples{0, 0}, Samples{1}), Error);
  EXPECT_THROW(compare(Samples{}, Samples{1}), Error);
}

TEST(Compare, TheSameVerdictEveryTime) {
  const Samples a = times(10, 0.1, 20, 1), b = times(9, 0.1, 20, 2);
  const Comparison first = compare(a, b), second = compare(a, b);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
}

}  // namespace
}  // namespace ladder
