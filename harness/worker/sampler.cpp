#include "worker/sampler.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
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

/// Google Benchmark parses its own flags; of two with the same name the later one holds.
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

bool SamplePlan::more(int taken, double seconds) const {
  if (taken < 1) return true;
  if (taken >= at_most) return false;
  const double after_next = seconds + wall_seconds;
  if (taken < 3 && after_next <= 3 * max_seconds) return true;
  if (after_next > max_seconds) return false;
  return taken < at_least || seconds < min_seconds;
}

Samples take_samples(const std::string& name, const SamplePlan& plan, const std::function<double()>& sample,
                     const double& aside) {
  const bool asked = std::any_of(flags_of_the_user.begin(), flags_of_the_user.end(),
                                 [](const std::string& flag) { return flag.rfind("--benchmark_repetitions", 0) == 0; });
  std::exception_ptr error;
  int taken = 0;
  bool late = false, enough = false;
  const double begin = now_seconds();
  // Called once per repetition; repetitions after the last sample return at once.
  const auto body = [&](benchmark::State& state) {
    for (auto _ : state) {
      state.SetIterationTime(1e-9);
      if (error || late || enough) continue;
      late = taken > 0 && now_seconds() + plan.wall_seconds > plan.deadline;
      enough = !asked && !plan.more(taken, now_seconds() - begin - aside);
      if (late || enough) continue;
      try {
        state.SetIterationTime(sample());
        ++taken;
      } catch (...) {
        error = std::current_exception();
      }
    }
  };
  initialise({fmt::format("--benchmark_repetitions={}", plan.at_most)});
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  if (error) std::rethrow_exception(error);

  Samples samples;
  for (int i = 0; i < taken; ++i) samples.ms.push_back(seven_digits(collector.seconds[size_t(i)] * 1e3));
  if (taken == 0)
    samples.verdict = "filtered";
  else if (late)
    samples.verdict = "deadline";
  else if (asked)
    samples.verdict = "asked";
  else if (taken < plan.at_least)
    samples.verdict = "time";
  else
    samples.verdict = summarise(samples.ms).relative_iqr() < StopRule().relative_iqr ? "settled" : "steady";
  return samples;
}

}  // namespace ladder
