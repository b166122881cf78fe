// Timing through Google Benchmark: one sample per repetition, in manual time.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ladder {

struct SamplePlan {
  double sample_seconds = 0;  ///< of a sample, as the warm-up took it
  double wall_seconds = 0;    ///< of the clock on the wall that a sample takes with all that surrounds it
  double min_seconds = 0.5;   ///< of samples, at least
  double max_seconds = 10;    ///< of wall clock, at most (but three samples, where 3 x max_seconds allow it)
  double deadline = 1e300;    ///< monotonic seconds (now_seconds()) after which no sample starts
  /// How many samples that makes: enough for min_seconds and at least ten, as far as max_seconds allow.
  int samples() const;
};

struct Samples {
  std::vector<double> ms;
  /// What ended sampling. settled: all were taken, and their quartiles lie within 2 %; steady: all were taken, they
  /// scatter more; time: max_seconds allowed fewer; deadline: the session's end came first; asked: as many as
  /// --benchmark_repetitions says; filtered: --benchmark_filter leaves the name out.
  std::string verdict;
};

/// Takes Google Benchmark's own flags (--benchmark_*) for all samples to come; throws Error where it does not know one.
void start_benchmark(const std::vector<std::string>& flags);

/// Calls `sample` (it returns seconds) as Google Benchmark repetitions of `name`, registered once. What `sample` throws
/// is passed on.
Samples take_samples(const std::string& name, const SamplePlan& plan, const std::function<double()>& sample);

}  // namespace ladder
