// From samples to statements: when enough of them are taken, what they say in one line, and which of two sets is
// faster.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"

namespace ladder {

/// The q-quantile, 0 <= q <= 1, between samples by linear interpolation (numpy.quantile's default). Throws Error where
/// there are no samples, as do the functions below.
double quantile(std::span<const double> samples, double q);

struct Summary {
  size_t count = 0;
  double median = 0, q1 = 0, q3 = 0;
  /// (q3 - q1) / median: the spread that a single stray sample does not move. 0 where the median is 0.
  double relative_iqr() const { return median > 0 ? (q3 - q1) / median : 0; }
};
Summary summarise(std::span<const double> samples);

/// Decides, after each sample, whether another one is worth taking.
struct StopRule {
  int min_samples = 10;
  double min_seconds = 0.5;    ///< of the samples themselves, in sum
  double relative_iqr = 0.02;  ///< small enough: settled
  int max_samples = 1000;
  double max_seconds = 30;  ///< of the clock on the wall, all overhead included

  /// more: take another. settled: the spread is small. steady: the spread is not small, but did not shrink either while
  /// the number of samples doubled. capped: a limit was reached first.
  enum class Verdict { more, settled, steady, capped };
  /// samples in milliseconds, in the order they were taken; `elapsed_seconds` since the first one began.
  Verdict judge(std::span<const double> samples_ms, double elapsed_seconds) const;
};
const char* to_string(StopRule::Verdict verdict);

/// Of a candidate's times against a base's.
struct Comparison {
  enum class Verdict { same, faster, slower, unsure } verdict = Verdict::unsure;
  double ratio = 0;          ///< median of the candidate / median of the base: below 1 is faster
  double low = 0, high = 0;  ///< 95 % confidence interval of the ratio
  double p = 1;              ///< two-sided, that such a difference in ranks is chance
};
const char* to_string(Comparison::Verdict verdict);

/// SAME: the interval of the ratio lies within 1 +- `margin`: any difference is too small to matter. FASTER and SLOWER:
/// it excludes 1, and the rank test has p < 0.01. UNSURE: else, and with fewer than 5 samples on a side.
/// The test is Mann and Whitney's U with its normal approximation, corrected for ties and continuity; the interval is
/// the percentile bootstrap of the ratio of medians (2000 resamples, drawn by Philox: the same verdict every time).
Comparison compare(std::span<const double> base, std::span<const double> candidate, double margin = 0.02);

/// The two-sided p of Mann and Whitney's U test that the two sets come from one distribution.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

}  // namespace ladder
