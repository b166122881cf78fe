#include "worker/sampler.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"

namespace ladder {
namespace {

/// Collects what Google Benchmark measured; prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  std::vector<double> seconds;
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) seconds.push_back(run.real_accumulated_time / double(run.iterations));
    }
  }
};

std::vector<std::string> flags_of_the_user;

/// Google Benchmark parses its own flags; a later one takes the place of an earlier.
void initialise(const std::vector<std::string>& before) {
  std::vector<std::string> words = {"ladder"};
  words.insert(words.end(), before.begin(), before.end());
  words.insert(words.end(), flags_of_the_user.begin(), flags_of_the_user.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = int(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) throw Error(std::string("Google Benchmark does not know the flag ") + argv[1]);
}

}  // namespace

void start_benchmark(const std::vector<std::string>& flags) {
  flags_of_the_user = flags;
  initialise({});
}

int SamplePlan::samples() const {
  constexpr int at_least = 10, at_most = 20000;  // more only makes records long
  const double wall = std::max(wall_seconds, 1e-7);
  const double wanted = std::max<double>(at_least, std::ceil(min_seconds / std::max(sample_seconds, 1e-9)));
  const double allowed = std::max(std::floor(max_seconds / wall), std::min(3.0, std::floor(3 * max_seconds / wall)));
  return int(std::clamp(std::min(wanted, allowed), 1.0, double(at_most)));
}

Samples take_samples(const std::string& name, const SamplePlan& plan, const std::function<double()>& sample) {
  const int planned = plan.samples();
  const double wanted = std::max(10.0, plan.min_seconds / std::max(plan.sample_seconds, 1e-9));
  std::exception_ptr error;
  int taken = 0;
  bool late = false;
  // Called once per repetition; everything slow was done before, in the session.
  const auto body = [&](benchmark::State& state) {
    for (auto _ : state) {
      state.SetIterationTime(1e-9);
      late = late || (taken > 0 && now_seconds() + plan.wall_seconds > plan.deadline);
      if (error || late) continue;
      try {
        state.SetIterationTime(sample());
        ++taken;
      } catch (...) {
        error = std::current_exception();
      }
    }
  };
  initialise({fmt::format("--benchmark_repetitions={}", planned)});
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  if (error) std::rethrow_exception(error);

  Samples samples;
  for (int i = 0; i < taken; ++i) {
    // Seven digits are more than any clock here has, and keep records small.
    samples.ms.push_back(std::stod(fmt::format("{:.7g}", collector.seconds[size_t(i)] * 1e3)));
  }
  if (taken == 0)
    samples.verdict = "filtered";
  else if (late)
    samples.verdict = "deadline";
  else if (taken != planned)
    samples.verdict = "asked";
  else if (planned < std::min(wanted, 20000.0))
    samples.verdict = "time";
  else
    samples.verdict = summarise(samples.ms).relative_iqr() < 0.02 ? "settled" : "steady";
  return samples;
}

}  // namespace ladder
