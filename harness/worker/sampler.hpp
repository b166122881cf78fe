// Timing through Google Benchmark: one sample per repetition, in manual time.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ladder {

struct SamplePlan {
  double min_seconds = 0.5;  ///< of samples, at least
  double max_seconds = 10;   ///< of wall clock, at most (but three samples, where 3 x max_seconds allow it)
  double deadline = 1e300;   ///< monotonic seconds (now_seconds()) after which no sample starts
};

/// Hands Google Benchmark its own flags (--benchmark_*); throws Error where it does not know one.
void start_benchmark(const std::vector<std::string>& flags);

/// Calls `sample` (it returns seconds) until StopRule has enough, as Google Benchmark repetitions of `name`, and
/// returns the samples in milliseconds. Empty where --benchmark_filter leaves the name out. What `sample` throws is
/// passed on.
std::vector<double> take_samples(const std::string& name, const SamplePlan& plan,
                                 const std::function<double()>& sample);

}  // namespace ladder
