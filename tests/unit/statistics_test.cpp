#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
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
  EXPECT_EQ(rule.verdict({}, 0), Verdict::more);
  EXPECT_EQ(rule.verdict(Samples(9, 100.0), 0.9), Verdict::more) << "9 samples";
  EXPECT_EQ(rule.verdict(Samples(10, 49.0), 0.5), Verdict::more) << "0.49 s of samples";
  EXPECT_EQ(rule.verdict(Samples(10, 51.0), 0.5), Verdict::settled);
}

TEST(StopRule, WaitsWhileTheSpreadShrinks) {
  const StopRule rule{.min_seconds = 0};
  Samples noisy_start = times(10, 0.3, 10, 1);
  EXPECT_EQ(rule.verdict(noisy_start, 0.1), Verdict::more);
  noisy_start.resize(60, 10.0);
  EXPECT_EQ(rule.verdict(noisy_start, 0.6), Verdict::settled);
}

TEST(StopRule, StopsWhereMoreSamplesDoNotHelp) {
  const StopRule rule{.min_seconds = 0};
  Samples alternating;
  for (int i = 0; i < 19; ++i) alternating.push_back(i % 2 ? 8 : 12);
  EXPECT_EQ(rule.verdict(alternating, 0.2), Verdict::more);
  alternating.push_back(8);
  EXPECT_EQ(rule.verdict(alternating, 0.2), Verdict::steady);
}

TEST(StopRule, ImprovingSpreadAsksForMore) {
  const StopRule rule{.min_seconds = 0};
  Samples improving;
  for (int i = 0; i < 10; ++i) improving.push_back(i % 2 ? 5 : 15);
  for (int i = 0; i < 10; ++i) improving.push_back(i % 2 ? 9.5 : 10.5);
  EXPECT_EQ(rule.verdict(improving, 0.2), Verdict::more);
}

TEST(StopRule, CapsSamplesAndTime) {
  const StopRule rule{.min_seconds = 100, .max_samples = 20, .max_seconds = 5};
  EXPECT_EQ(rule.verdict(Samples(19, 1.0), 4.9), Verdict::more);
  EXPECT_EQ(rule.verdict(Samples(20, 1.0), 4.9), Verdict::capped);
  EXPECT_EQ(rule.verdict(Samples(3, 1.0), 5), Verdict::capped);
  EXPECT_STREQ(to_string(Verdict::capped), "capped");
}

TEST(StudentT, KnownValues) {
  // 2 * scipy.stats.t.sf(t, freedom)
  EXPECT_NEAR(student_p(2, 1), 0.29516723530086653, 1e-12);
  EXPECT_NEAR(student_p(2, 2), 0.18350341907227397, 1e-12);
  EXPECT_NEAR(student_p(-2.5, 7), 0.04099221858575289, 1e-12);
  EXPECT_NEAR(student_p(1, 30), 0.3253086154260302, 1e-12);
  EXPECT_EQ(student_p(0, 7), 1);
  // scipy.stats.t.ppf(0.975, freedom)
  EXPECT_NEAR(student_t(0.05, 4), 2.7764451051977987, 1e-9);
  EXPECT_NEAR(student_t(0.05, 7), 2.3646242510102993, 1e-9);
  EXPECT_NEAR(student_t(0.5, 4), 0.7406970841, 1e-9) << "what scatter_of_repeats and scatter_of_pairs divide by";
}

// ------------------------------------------------------------------------------- comparisons, tried on made-up
// machines

using Says = Comparison::Verdict;

/// How the sessions of a machine differ, on the scale of logarithms.
struct Machine {
  double scatter = 0.01;     ///< standard deviation of a session
  double strays = 0;         ///< share of sessions that are slower by far: 2 to 20 %
  double wild = 0;           ///< share of sessions that are off by 10 to 30 %, slower or faster
  double second_mode = 0;    ///< share of sessions that are 5 % slower: a host with two ways to place its memory
  double swing = 0;          ///< of a time that comes and goes, to each side
  double period = 4;         ///< of that, in sessions
  double drift = 0;          ///< from a run's first session to its last
  double within = 0.01;      ///< standard deviation of a sample in its session
  size_t samples = 20;       ///< of a session
  double row_scatter = 0.5;  ///< how unlike the rows of one record are: of the logarithm of their own scatter
};

class Draws {
 public:
  explicit Draws(uint64_t seed) : sequence_(seed, Stream::noise) {}
  double normal() { return ladder::normal(sequence_.next()); }
  double uniform() { return ladder::uniform(sequence_.next()); }

 private:
  Sequence sequence_;
};

double session_effect(const Machine& machine, double scatter, Draws& draws) {
  const double stray = draws.uniform() < machine.strays ? 0.02 + 0.18 * draws.uniform() : 0;
  const double wild = draws.uniform() < machine.wild ? 0.1 + 0.2 * draws.uniform() : 0;
  const double mode = draws.uniform() < machine.second_mode ? std::log(1.05) : 0;
  return scatter * draws.normal() + stray + mode + std::log1p(draws.uniform() < 0.5 ? wild : -wild);
}

std::vector<SessionMedian> interleaved(const Machine& machine, int a_side, double difference, Draws& draws,
                                       bool there_and_back = false) {
  std::vector<SessionMedian> sessions;
  const double phase = 2 * std::numbers::pi * draws.uniform();
  bool first = false;  // of a round: the candidate
  for (int i = 0; i < 2 * a_side; ++i) {
    if (i % 2 == 0) first = there_and_back ? i % 4 == 2 : draws.uniform() < 0.5;
    const bool candidate = (i % 2 == 0) == first;
    const double at = double(i) / (2 * a_side - 1);
    const double swing = machine.swing * std::sin(2 * std::numbers::pi * i / machine.period + phase);
    const double log_time =
        session_effect(machine, machine.scatter, draws) + swing + machine.drift * at + difference * candidate;
    sessions.push_back({i, candidate, 3 * std::exp(log_time)});
  }
  return sessions;
}

struct Rates {
  double same = 0, faster = 0, slower = 0, unsure = 0;
  void add(Says verdict, double share) {
    (verdict == Says::same     ? same
     : verdict == Says::faster ? faster
     : verdict == Says::slower ? slower
                               : unsure) += share;
  }
};

Rates tried_interleaved(const Machine& machine, int a_side, double difference, int trials = 4000) {
  Draws draws(uint64_t(a_side) + 17);
  Rates rates;
  for (int t = 0; t < trials; ++t)
    rates.add(compare_interleaved(interleaved(machine, a_side, difference, draws)).verdict, 1.0 / trials);
  return rates;
}

const std::vector<std::pair<const char*, Machine>> machines = {
    {"quiet", {.scatter = 0.002}},
    {"usual", {.scatter = 0.01}},
    {"noisy", {.scatter = 0.03}},
    {"strays", {.scatter = 0.01, .strays = 0.08}},
    {"noisy with strays", {.scatter = 0.03, .strays = 0.08}},
    {"warming up", {.scatter = 0.005, .drift = 0.05}},
    {"noisy, settling, strays", {.scatter = 0.02, .strays = 0.05, .drift = -0.04}},
    {"usual, a stray now and then", {.scatter = 0.01, .strays = 0.01}},
};

TEST(CompareInterleaved, EqualCodeIsRarelyCalledFasterOrSlower) {
  for (const auto& [name, machine] : machines) {
    for (const int a_side : {5, 6, 10}) {
      const Rates rates = tried_interleaved(machine, a_side, 0);
      EXPECT_LE(rates.faster + rates.slower, 0.03) << name << ", " << a_side << " sessions a side";
      if (machine.scatter < 0.003) {
        EXPECT_GE(rates.same, 0.99) << name;
      }
    }
  }
}

TEST(CompareInterleaved, ThreePercentAreSeenInFiveSessionsASide) {
  EXPECT_GE(tried_interleaved({.scatter = 0.005}, 5, 0.03).slower, 0.99);
  EXPECT_GE(tried_interleaved({.scatter = 0.01}, 5, 0.03).slower, 0.9);
  EXPECT_GE(tried_interleaved({.scatter = 0.01}, 5, -0.03).faster, 0.9);
  EXPECT_GE(tried_interleaved({.scatter = 0.005, .drift = 0.05}, 5, 0.03).slower, 0.95) << "drift is not scatter";
  for (const auto& [name, machine] : machines) {
    const Rates rates = tried_interleaved(machine, 5, 0.03);
    EXPECT_LE(rates.faster, 0.005) << name;
    EXPECT_LE(rates.same, 0.005) << name;
  }
}

/// A machine whose times swing: by the fixed order A B B A ... a period of four sessions would be the effect of one
/// side.
TEST(CompareInterleaved, ASwingFavoursNobodyWhereTheOrderOfEachRoundIsRandom) {
  double wrong = 0;
  const std::vector<double> periods = {2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 14, 20};
  for (const double period : periods) {
    const Machine machine{.scatter = 0.005, .swing = 0.03, .period = period};
    const Rates rates = tried_interleaved(machine, 5, 0);
    EXPECT_LE(rates.faster + rates.slower, 0.12) << period;
    wrong += (rates.faster + rates.slower) / double(periods.size());
  }
  EXPECT_LE(wrong, 0.03);
  Draws draws(11);
  Rates fixed;
  for (int t = 0; t < 500; ++t)
    fixed.add(compare_interleaved(interleaved({.scatter = 0.005, .swing = 0.03}, 5, 0, draws, true)).verdict, 0.002);
  EXPECT_GE(fixed.faster + fixed.slower, 0.3) << "what the random order is for";
}

TEST(CompareInterleaved, AsALeastSquaresProgramHasIt) {
  // numpy.linalg.lstsq of log(time) on [1, candidate, position]; the interval by scipy.stats.t.ppf(0.975, 7).
  const std::vector<double> times{10, 10.3, 10.5, 10.1, 10.2, 10.6, 10.4, 10.3, 10.1, 10.7};
  std::vector<SessionMedian> sessions;
  for (int i = 0; i < 10; ++i) sessions.push_back({i, i % 4 == 1 || i % 4 == 2, times[size_t(i)]});
  const Comparison c = compare_interleaved(sessions);
  EXPECT_NEAR(c.ratio, 1.0348746948876524, 1e-9);
  EXPECT_NEAR(c.low, 1.0189667475154702, 1e-9);
  EXPECT_NEAR(c.high, 1.0510309946130523, 1e-9);
  EXPECT_NEAR(c.p, 0.0012089398893078732, 1e-9);
}

TEST(CompareInterleaved, EvenDriftIsNoDifference) {
  std::vector<SessionMedian> sessions;
  for (int i = 0; i < 10; ++i) sessions.push_back({i, i % 4 == 1 || i % 4 == 2, 7 * std::exp(0.01 * i)});
  const Comparison c = compare_interleaved(sessions);
  EXPECT_NEAR(c.ratio, 1, 1e-12);
  EXPECT_EQ(c.verdict, Says::same);
}

TEST(CompareInterleaved, ADifferenceBelowTheMarginIsNone) {
  Draws draws(3);
  const std::vector<SessionMedian> sessions = interleaved({.scatter = 0.001}, 5, 0.01, draws);
  EXPECT_EQ(compare_interleaved(sessions).verdict, Says::same);
  EXPECT_EQ(compare_interleaved(sessions, 0.005).verdict, Says::slower);
}

TEST(CompareInterleaved, NeedsFiveSessionsASideThatAlternate) {
  Draws draws(4);
  EXPECT_THROW(compare_interleaved(interleaved({}, 4, 0, draws)), Error);
  std::vector<SessionMedian> sessions = interleaved({}, 5, 0, draws);
  sessions[2].median_ms = 0;
  EXPECT_THROW(compare_interleaved(sessions), Error);
  for (SessionMedian& s : sessions) s.median_ms = 1, s.position = 0;
  EXPECT_THROW(compare_interleaved(sessions), Error) << "no order";
}

TEST(Estimate, OfSamplesAndOfSessions) {
  const Estimate steady = estimate_of_samples(times(10, 0.01, 400, 1));
  EXPECT_NEAR(steady.median_ms, 10, 0.01);
  // Of the median of n normal deviates: sigma * sqrt(pi / 2 / n).
  EXPECT_NEAR(steady.error, 0.01 * std::sqrt(1.5708 / 400), 2e-4);
  EXPECT_NEAR(estimate_of_samples(Samples{1, 1.1}).error, std::log(1.1) / 2, 1e-12);
  EXPECT_EQ(estimate_of_samples(Samples{4}).error, 0);
  EXPECT_THROW(estimate_of_samples(Samples{}), Error);
  EXPECT_THROW(estimate_of_samples(Samples{0, 1}), Error);
  const Estimate sessions = estimate_of_sessions(Samples{1, 4});
  EXPECT_NEAR(sessions.median_ms, 2, 1e-12);
  EXPECT_NEAR(sessions.error, std::log(2), 1e-12);
}

/// Two runs of `rows` rows, `sessions` of each; `changed` of them run other code in the second.
std::vector<std::pair<Estimate, Estimate>> two_runs(const Machine& machine, int rows, int changed, double difference,
                                                    Draws& draws, int sessions = 1) {
  std::vector<std::pair<Estimate, Estimate>> pairs;
  for (int r = 0; r < rows; ++r) {
    const double scatter = machine.scatter * std::exp(machine.row_scatter * draws.normal());
    const auto several = [&](double more) {
      Samples medians(static_cast<size_t>(sessions));
      for (double& m : medians) m = 5 * std::exp(session_effect(machine, scatter, draws) + more);
      return estimate_of_sessions(medians);
    };
    const auto one = [&](double more) {
      if (sessions > 1) return several(more);
      const double log_time = session_effect(machine, scatter, draws) + more;
      Samples samples(machine.samples);
      for (double& s : samples) s = 5 * std::exp(log_time + machine.within * draws.normal());
      return estimate_of_samples(samples);
    };
    const Estimate base = one(0), candidate = one(r < changed ? difference : 0);
    pairs.push_back({base, candidate});
  }
  return pairs;
}

TEST(CompareApart, EqualCodeIsRarelyCalledFasterOrSlowerInTwoRuns) {
  for (const auto& [name, machine] : machines) {
    Draws draws(5);
    Rates rates;
    constexpr int runs = 40, rows = 100;
    for (int run = 0; run < runs; ++run) {
      const auto pairs = two_runs(machine, rows, 0, 0, draws);
      const double scatter = *scatter_of_pairs(pairs);
      for (const auto& [base, candidate] : pairs)
        rates.add(compare_apart(base, candidate, scatter).verdict, 1.0 / runs / rows);
    }
    // Where each side has one session, a stray one looks like a difference, and nothing in two records can tell: at
    // most every pair that holds one (two sessions a pair) comes on top. One in twenty is the promise where strays are
    // rare.
    EXPECT_LE(rates.faster + rates.slower, machine.strays > 0.01 ? 0.05 + 2 * machine.strays : 0.05) << name;
  }
}

TEST(CompareApart, RowsOfTheSameCodeTellTheirTailsAndTheirMachinesDifference) {
  // A few rows scatter by far more than the rest, and the second machine is 2 % slower throughout.
  for (const double offset : {0.0, 0.02}) {
    Draws draws(8);
    double by_tail = 0, by_middle = 0;  // rows whose p would do, whatever strays there may be
    constexpr int runs = 40, rows = 100;
    for (int run = 0; run < runs; ++run) {
      const auto pairs = two_runs({.scatter = 0.003, .within = 0.002, .row_scatter = 1.5}, rows, rows, offset, draws);
      const double scatter = *scatter_of_same_code(pairs), middle = *scatter_of_pairs(pairs);
      for (const auto& [base, candidate] : pairs) {
        by_tail += (compare_apart(base, candidate, scatter).p < 0.02) / double(runs * rows);
        by_middle += (compare_apart(base, candidate, middle).p < 0.02) / double(runs * rows);
      }
    }
    EXPECT_LE(by_tail, 0.05) << offset;
    EXPECT_LT(by_tail, by_middle) << offset;
  }
  // Where all rows are quiet, equal code is even called the same.
  Draws draws(9);
  const auto quiet = two_runs({.scatter = 0.002, .within = 0.002, .row_scatter = 0.3}, 100, 0, 0, draws);
  Rates rates;
  for (const auto& [base, candidate] : quiet)
    rates.add(compare_apart(base, candidate, *scatter_of_same_code(quiet)).verdict, 0.01);
  EXPECT_GE(rates.same, 0.9);
}

TEST(CompareApart, WhatReallyChangedIsSeenAndDoesNotHideInTheScatter) {
  Draws draws(6);
  Rates rates;
  for (int run = 0; run < 40; ++run) {
    const auto pairs = two_runs({.scatter = 0.01}, 100, 20, 0.5, draws);
    const double scatter = *scatter_of_pairs(pairs);
    for (int r = 0; r < 20; ++r)
      rates.add(compare_apart(pairs[size_t(r)].first, pairs[size_t(r)].second, scatter).verdict, 1.0 / 800);
  }
  EXPECT_GE(rates.slower, 0.9);
  EXPECT_EQ(rates.faster, 0);
}

/// Two records of equal code on machines with stray sessions or with two modes: neither one session a row nor five may
/// call more than one row in fifty different, whatever the scatter was learned from.
TEST(CompareApart, StraySessionsAndTwoModesAreNoDifference) {
  const std::vector<std::pair<const char*, Machine>> hosts = {
      {"strays", {.scatter = 0.01, .wild = 0.05}},
      {"two modes", {.scatter = 0.005, .second_mode = 0.3}},
      {"both", {.scatter = 0.01, .wild = 0.05, .second_mode = 0.3}},
      {"quiet with strays", {.scatter = 0.002, .wild = 0.05, .within = 0.002}},
  };
  for (const auto& [name, host] : hosts) {
    for (const int sessions : {1, 2, 5}) {
      Draws draws(12);
      Rates by_middle, by_tail;
      constexpr int runs = 20, rows = 100;
      for (int run = 0; run < runs; ++run) {
        const auto pairs = two_runs(host, rows, 0, 0, draws, sessions);
        const double middle = *scatter_of_pairs(pairs), tail = *scatter_of_same_code(pairs);
        for (const auto& [base, candidate] : pairs) {
          by_middle.add(compare_apart(base, candidate, middle).verdict, 1.0 / runs / rows);
          by_tail.add(compare_apart(base, candidate, tail).verdict, 1.0 / runs / rows);
        }
      }
      EXPECT_LE(by_middle.faster + by_middle.slower, 0.02) << name << ", " << sessions;
      EXPECT_LE(by_tail.faster + by_tail.slower, 0.02) << name << ", " << sessions;
    }
  }
}

TEST(CompareApart, OneSessionFindsWhatNoStrayDoesAndFiveFindLess) {
  for (const auto& [sessions, difference] : {std::pair(1, 0.6), std::pair(5, 0.15)}) {
    Draws draws(13);
    Rates rates;
    for (int run = 0; run < 20; ++run) {
      const auto pairs = two_runs({.scatter = 0.01, .wild = 0.02}, 100, 20, difference, draws, sessions);
      for (int r = 0; r < 20; ++r)
        rates.add(compare_apart(pairs[size_t(r)].first, pairs[size_t(r)].second, *scatter_of_pairs(pairs)).verdict,
                  1.0 / 400);
    }
    EXPECT_GE(rates.slower, sessions == 1 ? 0.95 : 0.75) << sessions;
    EXPECT_EQ(rates.faster, 0);
  }
}

TEST(CompareApart, TheScatterWidensWhatTheSamplesSay) {
  const Estimate base{10, 0.001, 5}, candidate{10.4, 0.001, 5};
  EXPECT_EQ(compare_apart(base, candidate, 0).verdict, Says::slower) << "as if sessions did not scatter";
  EXPECT_EQ(compare_apart(base, {10.4, 0.001, 4}, 0).verdict, Says::unsure) << "one of few may be a stray";
  EXPECT_EQ(compare_apart(base, {16, 0.001, 1}, 0).verdict, Says::slower) << "no stray is so far off";
  const Comparison c = compare_apart(base, candidate, assumed_scatter);
  EXPECT_EQ(c.verdict, Says::unsure);
  EXPECT_NEAR(c.ratio, 1.04, 1e-12);
  EXPECT_NEAR(std::log(c.high / c.low), 2 * 2.7764451 * std::sqrt(2 * (0.03 * 0.03 + 1e-6)), 1e-6);
  EXPECT_THROW(compare_apart({0, 0}, candidate, 0.01), Error);
}

TEST(Scatter, OfPairsAndOfRepeatsFindsTheMachines) {
  Draws draws(7);
  const Machine machine{.scatter = 0.04, .within = 0.05, .samples = 30, .row_scatter = 0};
  // Normal deviates' middle half is 0.6745 wide, a t's with four degrees of freedom 0.7407.
  const double expected = 0.04 * 0.6745 / 0.7407;
  EXPECT_NEAR(*scatter_of_pairs(two_runs(machine, 2000, 0, 0, draws)), expected, 0.003);
  EXPECT_NEAR(*scatter_of_pairs(two_runs(machine, 2000, 400, 0.5, draws)), expected, 0.014) << "a fifth really changed";
  std::vector<std::vector<double>> repeats(400);
  for (auto& row : repeats)
    for (int s = 0; s < 6; ++s) row.push_back(2 * std::exp(0.04 * draws.normal()));
  EXPECT_NEAR(*scatter_of_repeats(repeats), expected, 0.003);
}

TEST(Scatter, HasAFloorAndNeedsTenRows) {
  const std::vector<std::pair<Estimate, Estimate>> equal(10, {Estimate{1, 0}, Estimate{1, 0}});
  EXPECT_EQ(scatter_of_pairs(equal), least_scatter);
  EXPECT_EQ(scatter_of_same_code(equal), 0.001);
  EXPECT_EQ(scatter_of_same_code(std::span(equal).first(9)), std::nullopt);
  EXPECT_EQ(scatter_of_pairs(std::span(equal).first(9)), std::nullopt);
  const std::vector<std::vector<double>> steady(2, std::vector<double>(6, 1.0));
  EXPECT_EQ(scatter_of_repeats(steady), least_scatter);
  EXPECT_EQ(scatter_of_repeats(std::span(steady).first(1)), std::nullopt);
}

}  // namespace
}  // namespace ladder
