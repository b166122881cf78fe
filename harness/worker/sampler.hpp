// Timing through Google Benchmark: one sample per repetition, in manual time.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ladder {

/// When sampling of a scope ends. All seconds are wall time, with everything that surrounds a sample.
struct SamplePlan {
  double wall_seconds = 0;   ///< of one sample, from the warm-up
  double min_seconds = 0.5;  ///< sampling ends after this time, once there are `at_least` samples
  double max_seconds = 10;   ///< the limit where `at_least` samples take longer (three may take 3 x max_seconds)
  int at_least = 10;
  int at_most = 1000;
  double deadline = 1e300;  ///< monotonic seconds (now_seconds()) after which no sample starts
  /// Is another sample due after `taken` samples in `seconds`?
  bool more(int taken, double seconds) const;
};

struct Samples {
  std::vector<double> ms;
  /// What ended sampling. settled: min_seconds or at_most, and the quartiles lie within 2 % of the median; steady: the
  /// same with a larger spread; time: max_seconds, before there were `at_least` samples; deadline: the session's end;
  /// asked: as many as --benchmark_repetitions says; filtered: --benchmark_filter leaves the name out.
  std::string verdict;
};

/// Sets Google Benchmark's own flags (--benchmark_*) for all later samples; throws Error for an unknown one.
void start_benchmark(const std::vector<std::string>& flags);

/// Calls `sample` (it returns seconds) as Google Benchmark repetitions of `name`, registered once. Exceptions of
/// `sample` are passed on. `aside`: seconds that samples spent so far on what is no sampling; `sample` adds to them.
Samples take_samples(const std::string& name, const SamplePlan& plan, const std::function<double()>& sample,
                     const double& aside);

}  // namespace ladder
