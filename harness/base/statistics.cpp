#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.hpp"

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

/// Moves the median's neighbours into place and no more: a bootstrap takes thousands of medians.
double median_in_place(std::vector<double>& values) {
  const size_t half = values.size() / 2;
  const auto middle = values.begin() + std::ptrdiff_t(half);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
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

StopRule::Verdict StopRule::judge(std::span<const double> samples_ms, double elapsed_seconds) const {
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

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  need_samples(a);
  need_samples(b);
  struct Ranked {
    double value;
    bool from_a;
  };
  std::vector<Ranked> all;
  for (const double v : a) all.push_back({v, true});
  for (const double v : b) all.push_back({v, false});
  std::sort(all.begin(), all.end(), [](const Ranked& x, const Ranked& y) { return x.value < y.value; });
  const double m = double(a.size()), n = double(b.size()), total = m + n;
  double rank_sum = 0, tie_term = 0;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].value == all[begin].value) ++end;
    const double rank = double(begin + end + 1) / 2, tied = double(end - begin);  // ranks count from 1; ties share
    for (size_t i = begin; i < end; ++i) rank_sum += all[i].from_a ? rank : 0;
    tie_term += tied * tied * tied - tied;
  }
  const double u = rank_sum - m * (m + 1) / 2;
  const double variance = m * n / 12 * (total + 1 - tie_term / (total * (total - 1)));
  if (!(variance > 0)) return 1;  // all values equal
  const double z = std::max(0.0, std::fabs(u - m * n / 2) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

Comparison compare(std::span<const double> base, std::span<const double> candidate, double margin) {
  constexpr int resamples = 2000;
  constexpr size_t fewest = 5;
  Comparison result;
  const double base_median = summarise(base).median;
  if (!(base_median > 0))
    throw Error("a base with a median of " + std::to_string(base_median) + " ms is no base: time it again");
  result.ratio = summarise(candidate).median / base_median;
  result.p = mann_whitney_p(base, candidate);

  std::vector<double> ratios(resamples), drawn;
  Sequence random(1, Stream::bootstrap);
  const auto resampled_median = [&](std::span<const double> samples) {
    drawn.clear();
    for (size_t i = 0; i < samples.size(); ++i) drawn.push_back(samples[random.below(uint32_t(samples.size()))]);
    return median_in_place(drawn);
  };
  for (double& ratio : ratios) {
    const double denominator = resampled_median(base);
    ratio = resampled_median(candidate) / denominator;
  }
  std::sort(ratios.begin(), ratios.end());
  result.low = quantile_of_sorted(ratios, 0.025);
  result.high = quantile_of_sorted(ratios, 0.975);

  using Verdict = Comparison::Verdict;
  if (std::min(base.size(), candidate.size()) < fewest) {
    result.verdict = Verdict::unsure;
  } else if (result.low >= 1 - margin && result.high <= 1 + margin) {
    result.verdict = Verdict::same;
  } else if (result.p < 0.01 && result.high < 1) {
    result.verdict = Verdict::faster;
  } else if (result.p < 0.01 && result.low > 1) {
    result.verdict = Verdict::slower;
  }
  return result;
}

}  // namespace ladder
