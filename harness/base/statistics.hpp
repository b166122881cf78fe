// From samples to statements: when enough of them are taken, what they say in one line, and which of two variants is
// faster.
//
// Samples of one process are not independent: where its memory lies, which clock the GPU settled at, how the code was
// placed, moves all of them together. So a session (a process) counts as one observation, the logarithm of its median
// time, whatever the number of its samples. (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013;
// Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009.) Two methods follow:
//
// compare_interleaved, at least five sessions a side, one of each in every round, in random order: least squares of
//   log(median) = level + drift * position + effect * (is it the candidate?)
// so that what warms up or slows down evenly during the run is no effect of either side; interval and p from Student's
// t with one degree of freedom for each session beyond three. A stray session widens the interval: UNSURE, not wrong.
// What swings is met by each side at other phases in other runs; in the fixed order A B B A ... a swing of four
// sessions would favour one side every time. Of random orders a few follow a swing of two or three sessions by chance.
//
// compare_apart, fewer sessions, or sessions of two runs: the samples say nothing of how far two sessions of the same
// code lie apart, so that scatter comes from outside (scatter_of_repeats, scatter_of_same_code, scatter_of_pairs, or
// what is assumed), is added to each side's own error, and the sum is held against Student's t with four degrees of
// freedom: rows do not all scatter alike, and a few are far noisier than the rest. One stray session still looks like a
// difference, and no method can tell: with fewer than five sessions on a side, only a ratio beyond what strays do is
// FASTER or SLOWER. What matters is worth an interleaved run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
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

/// A measured value as a record keeps it: more digits than the clocks resolve, and short.
double seven_digits(double value);

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
  Verdict verdict(std::span<const double> samples_ms, double elapsed_seconds) const;
};
const char* to_string(StopRule::Verdict verdict);

/// Of a candidate's times against a base's.
struct Comparison {
  enum class Verdict { same, faster, slower, unsure } verdict = Verdict::unsure;
  double ratio = 1;          ///< of the candidate's time to the base's: below 1 is faster
  double low = 0, high = 0;  ///< 95 % confidence interval of the ratio
  double p = 1;              ///< two-sided, that equal code shows a ratio as far from 1
};
const char* to_string(Comparison::Verdict verdict);

/// SAME: the interval of the ratio lies within 1 +- margin; any difference is too small to matter. FASTER and SLOWER:
/// p < 0.02, so that the interval excludes 1. UNSURE: else. (Not 0.05: a table has many rows, each a chance to be
/// wrong.)
inline constexpr double standard_margin = 0.02;

/// A session of an interleaved run.
struct SessionMedian {
  int position;  ///< among the sessions of both sides, in the order in which they ran
  bool candidate;
  double median_ms;
};
inline constexpr int fewest_sessions = 5;  ///< a side, for compare_interleaved

/// Throws Error where a side has fewer than fewest_sessions, or a median is not above 0.
Comparison compare_interleaved(std::span<const SessionMedian> sessions, double margin = standard_margin);

/// A time, and what its own samples say of its error.
struct Estimate {
  double median_ms = 0;
  double error = 0;  ///< standard error of log(median_ms): of the samples within one session, or among several sessions
  int sessions = 1;
};
/// From the samples of one session. The error is that of the distribution-free interval between two order statistics
/// (Conover, "Practical Nonparametric Statistics", 3.2), which the bootstrap of a median approximates; of fewer than
/// six samples, half their range.
Estimate estimate_of_samples(std::span<const double> samples_ms);
/// From the medians of several sessions of one run: their geometric mean.
Estimate estimate_of_sessions(std::span<const double> medians_ms);

/// By how much a stray session may be off: a factor. Below it, FASTER and SLOWER need fewest_sessions on each side.
inline constexpr double stray_factor = 1.5;

/// `scatter`: standard deviation of log(median) between sessions of the same code.
Comparison compare_apart(const Estimate& base, const Estimate& candidate, double scatter,
                         double margin = standard_margin);

inline constexpr double assumed_scatter = 0.03;  ///< where nothing tells
inline constexpr double least_scatter = 0.01;    ///< what the middle of some rows tells says nothing of their tails

/// Scatter between sessions, from rows that were repeated: each element holds the medians of one row's sessions.
/// Robust: from the median absolute deviation. Nothing where there are fewer than ten sessions beyond each row's first.
std::optional<double> scatter_of_repeats(std::span<const std::vector<double>> rows_ms);

/// Scatter between sessions, from rows that two runs share and that are known to be of the same code: every deviation
/// from 1 is chance, tails and the two machines' own difference included. The least scatter with which the middle and
/// the 95 % quantile of the deviations lie within Student's t: by construction, at most one in twenty of these very
/// rows is called different. Nothing where there are fewer than ten pairs.
std::optional<double> scatter_of_same_code(std::span<const std::pair<Estimate, Estimate>> rows);

/// Scatter between sessions, from rows that two runs share and that for the greater part run the same code: what the
/// ratios scatter beyond what the samples' own errors explain. A random-effects estimate, as Paule and Mandel's
/// ("Consensus values and weighting factors", 1982), with a median absolute deviation in the place of the sum of
/// squares, so that rows which really changed do not count. Nothing where there are fewer than ten pairs.
std::optional<double> scatter_of_pairs(std::span<const std::pair<Estimate, Estimate>> rows);

/// Student's t: the two-sided p of |t| with so many degrees of freedom, and the t of that p.
double student_p(double t, int freedom);
double student_t(double p, int freedom);

}  // namespace ladder
