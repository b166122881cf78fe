#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <numeric>

namespace ladder {
namespace {

void need_samples(std::span<const double> samples) {
  if (samples.empty()) throw Error("there are no samples to summarise: take at least one");
}

double quantile_of_sorted(std::span<const double> sorted, double q) {
  const double at = q * double(sorted.size() - 1);
  const auto below = size_t(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - double(below)) * (sorted[below + 1] - sorted[below]);
}

double median(std::vector<double> values) { return summarise(values).median; }

/// The middle half of Student's t with four degrees of freedom ends here: what a median absolute deviation estimates.
constexpr double quartile_of_t4 = 0.7406971;
constexpr int tail_freedom = 4;               // of compare_apart
constexpr double significance = 0.02;         // FASTER and SLOWER need a smaller p
constexpr size_t fewest_rows = 10;            // that tell a scatter
constexpr double floor_of_same_code = 0.001;  // clocks tell no less, and equal times must not make it 0

double log_of(double median_ms) {
  if (!(median_ms > 0))
    throw Error("a median of " + std::to_string(median_ms) + " ms cannot be compared: time it again");
  return std::log(median_ms);
}

Comparison comparison_of(double log_ratio, double error, int freedom, double margin) {
  Comparison c;
  const double reach = student_t(0.05, freedom) * error;
  c.ratio = std::exp(log_ratio);
  c.low = std::exp(log_ratio - reach);
  c.high = std::exp(log_ratio + reach);
  c.p = error > 0 ? student_p(log_ratio / error, freedom) : log_ratio == 0 ? 1 : 0;
  using Verdict = Comparison::Verdict;
  if (c.low >= 1 - margin && c.high <= 1 + margin)
    c.verdict = Verdict::same;
  else if (c.p < significance)
    c.verdict = c.ratio < 1 ? Verdict::faster : Verdict::slower;
  return c;
}

/// Of two runs' times, on the scale of logarithms.
struct Ratios {
  std::vector<double> logs, within;  ///< candidate to base, and the variance that the samples' own errors explain
  explicit Ratios(std::span<const std::pair<Estimate, Estimate>> rows) {
    for (const auto& [base, candidate] : rows) {
      logs.push_back(log_of(candidate.median_ms) - log_of(base.median_ms));
      within.push_back(base.error * base.error + candidate.error * candidate.error);
    }
  }
  /// From the centre, in units of the error that this scatter between sessions gives each.
  std::vector<double> deviations(double centre, double scatter) const {
    std::vector<double> found;
    for (size_t i = 0; i < logs.size(); ++i)
      found.push_back(std::fabs(logs[i] - centre) / std::sqrt(within[i] + 2 * scatter * scatter));
    return found;
  }
};

/// The least scatter, not below `floor`, that is wide enough.
template <class Enough>
double least_that(double floor, Enough wide_enough) {
  double low = floor, high = floor;
  while (!wide_enough(high)) low = high, high *= 2;
  for (int i = 0; i < 40 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (wide_enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double quantile(std::span<const double> samples, double q) {
  need_samples(samples);
  if (!(q >= 0 && q <= 1)) throw Error("there is no " + std::to_string(q) + "-quantile: give a number from 0 to 1");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_of_sorted(sorted, q);
}

Summary summarise(std::span<const double> samples) {
  need_samples(samples);
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted.size(), quantile_of_sorted(sorted, 0.5), quantile_of_sorted(sorted, 0.25),
          quantile_of_sorted(sorted, 0.75)};
}

double seven_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return std::strtod(text, nullptr);
}

StopRule::Verdict StopRule::verdict(std::span<const double> samples_ms, double elapsed_seconds) const {
  const auto count = samples_ms.size();
  const auto least = size_t(std::max(1, min_samples));
  const double seconds = std::accumulate(samples_ms.begin(), samples_ms.end(), 0.0) / 1000;
  if (count >= least && seconds >= min_seconds) {
    const double spread = summarise(samples_ms).relative_iqr();
    if (spread < relative_iqr) return Verdict::settled;
    // "Shrinks" means by a tenth: twice the samples from one distribution leave its quartiles where they are.
    if (count >= 2 * least && spread > 0.9 * summarise(samples_ms.first(count / 2)).relative_iqr())
      return Verdict::steady;
  }
  return count >= size_t(max_samples) || elapsed_seconds >= max_seconds ? Verdict::capped : Verdict::more;
}

const char* to_string(StopRule::Verdict verdict) {
  switch (verdict) {
    case StopRule::Verdict::more:
      return "more";
    case StopRule::Verdict::settled:
      return "settled";
    case StopRule::Verdict::steady:
      return "steady";
    case StopRule::Verdict::capped:
      return "capped";
  }
  return "?";
}

const char* to_string(Comparison::Verdict verdict) {
  switch (verdict) {
    case Comparison::Verdict::same:
      return "SAME";
    case Comparison::Verdict::faster:
      return "FASTER";
    case Comparison::Verdict::slower:
      return "SLOWER";
    case Comparison::Verdict::unsure:
      return "UNSURE";
  }
  return "?";
}

double student_p(double t, int freedom) {
  // Abramowitz and Stegun, 26.7.3 and 26.7.4: a finite sum for whole degrees of freedom.
  const double angle = std::atan(std::fabs(t) / std::sqrt(double(freedom)));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = freedom % 2;
  double term = odd ? cosine : 1, sum = 0;
  for (int i = odd ? 3 : 2; i <= freedom; i += 2) {
    sum += term;
    term *= cosine * cosine * (i - 1) / i;
  }
  const double inside = odd ? (angle + sine * sum) * 2 / std::numbers::pi : sine * sum;
  return std::max(0.0, 1 - inside);
}

double student_t(double p, int freedom) {
  double low = 0, high = 1;
  while (student_p(high, freedom) > p) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_p(middle, freedom) > p ? low : high) = middle;
  }
  return high;
}

Comparison compare_interleaved(std::span<const SessionMedian> sessions, double margin) {
  const auto candidates = std::count_if(sessions.begin(), sessions.end(), [](const auto& s) { return s.candidate; });
  const auto bases = std::ptrdiff_t(sessions.size()) - candidates;
  if (std::min(bases, candidates) < fewest_sessions) {
    throw Error("to compare takes " + std::to_string(fewest_sessions) + " sessions a side, there are " +
                std::to_string(bases) + " of the base and " + std::to_string(candidates) + " of the candidate");
  }
  // Least squares with two regressors: both centred, then the side is freed of what it shares with the position.
  const double count = double(sessions.size());
  double mean_side = 0, mean_position = 0, mean_value = 0;
  for (const SessionMedian& s : sessions) {
    mean_side += s.candidate / count;
    mean_position += s.position / count;
    mean_value += log_of(s.median_ms) / count;
  }
  double ss = 0, sp = 0, pp = 0, sv = 0, pv = 0, vv = 0;
  for (const SessionMedian& row : sessions) {
    const double s = row.candidate - mean_side, p = row.position - mean_position;
    const double v = log_of(row.median_ms) - mean_value;
    ss += s * s, sp += s * p, pp += p * p, sv += s * v, pv += p * v, vv += v * v;
  }
  if (!(pp > 0)) throw Error("sessions of an interleaved run need positions: all have the same one");
  const double free = ss - sp * sp / pp;
  if (!(free > 1e-9 * ss))
    throw Error("sessions of the two sides did not alternate: no drift can be told from an effect");
  const double effect = (sv - sp * pv / pp) / free;
  const double residue = std::max(0.0, vv - pv * pv / pp - effect * effect * free);
  const int freedom = int(sessions.size()) - 3;
  return comparison_of(effect, std::sqrt(residue / freedom / free), freedom, margin);
}

Estimate estimate_of_samples(std::span<const double> samples_ms) {
  need_samples(samples_ms);
  std::vector<double> sorted(samples_ms.begin(), samples_ms.end());
  std::sort(sorted.begin(), sorted.end());
  log_of(sorted.front());
  const double middle = quantile_of_sorted(sorted, 0.5), count = double(sorted.size());
  if (sorted.size() < 6) return {middle, std::log(sorted.back() / sorted.front()) / 2, 1};
  constexpr double z = 1.959964;  // of a 95 % interval
  const double reach = z * std::sqrt(count) / 2;
  const auto low = size_t(std::max(0.0, std::floor(count / 2 - reach)));
  const auto high = size_t(std::min(count - 1, std::ceil(count / 2 + reach)));
  return {middle, std::log(sorted[high] / sorted[low]) / (2 * z), 1};
}

Estimate estimate_of_sessions(std::span<const double> medians_ms) {
  need_samples(medians_ms);
  const double count = double(medians_ms.size());
  double mean = 0, squares = 0;
  for (const double m : medians_ms) mean += log_of(m) / count;
  for (const double m : medians_ms) squares += std::pow(std::log(m) - mean, 2);
  const double error = medians_ms.size() > 1 ? std::sqrt(squares / (count - 1) / count) : 0;
  return {std::exp(mean), error, int(medians_ms.size())};
}

Comparison compare_apart(const Estimate& base, const Estimate& candidate, double scatter, double margin) {
  const double variance = base.error * base.error + candidate.error * candidate.error + 2 * scatter * scatter;
  const double log_ratio = log_of(candidate.median_ms) - log_of(base.median_ms);
  Comparison c = comparison_of(log_ratio, std::sqrt(variance), tail_freedom, margin);
  const bool too_few = std::min(base.sessions, candidate.sessions) < fewest_sessions;
  if (too_few && std::fabs(log_ratio) < std::log(stray_factor) && c.verdict != Comparison::Verdict::same)
    c.verdict = Comparison::Verdict::unsure;
  return c;
}

std::optional<double> scatter_of_repeats(std::span<const std::vector<double>> rows_ms) {
  std::vector<double> deviations;
  size_t repeats = 0;
  for (const std::vector<double>& row : rows_ms) {
    if (row.size() < 2) continue;
    repeats += row.size() - 1;
    std::vector<double> logs;
    for (const double m : row) logs.push_back(log_of(m));
    // About the mean, not the median: of an odd number, one would deviate by nothing.
    const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / double(logs.size());
    const double lost = std::sqrt(double(logs.size()) / double(logs.size() - 1));  // to the mean, from the same data
    for (const double value : logs) deviations.push_back(std::fabs(value - mean) * lost);
  }
  if (repeats < fewest_rows) return {};
  return std::max(least_scatter, median(deviations) / quartile_of_t4);
}

std::optional<double> scatter_of_same_code(std::span<const std::pair<Estimate, Estimate>> rows) {
  const Ratios ratios(rows);
  if (rows.size() < fewest_rows) return {};
  const double tail = student_t(0.05, tail_freedom);
  return least_that(floor_of_same_code, [&](double scatter) {
    const std::vector<double> deviations = ratios.deviations(0, scatter);
    return quantile(deviations, 0.5) <= quartile_of_t4 && quantile(deviations, 0.95) <= tail;
  });
}

std::optional<double> scatter_of_pairs(std::span<const std::pair<Estimate, Estimate>> rows) {
  const Ratios ratios(rows);
  if (rows.size() < fewest_rows) return {};
  const double centre = median(ratios.logs);
  return least_that(least_scatter,
                    [&](double scatter) { return median(ratios.deviations(centre, scatter)) <= quartile_of_t4; });
}

}  // namespace ladder
