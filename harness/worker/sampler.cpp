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
  std::vector<double> samples_ms;
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      // Seven digits are more than any clock here has, and keep records small.
      samples_ms.push_back(std::stod(fmt::format("{:.7g}", run.real_accumulated_time / double(run.iterations) * 1e3)));
    }
  }
};

int fixed_repetitions = 0;  // --benchmark_repetitions=N: N samples, whatever the stop rule says

}  // namespace

void start_benchmark(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"ladder"};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
    constexpr const char* repetitions = "--benchmark_repetitions=";
    if (word.rfind(repetitions, 0) == 0)
      fixed_repetitions = std::max(1, std::atoi(word.c_str() + std::string(repetitions).size()));
  }
  int argc = int(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) throw Error(std::string("Google Benchmark does not know the flag ") + argv[1]);
}

std::vector<double> take_samples(const std::string& name, const SamplePlan& plan,
                                 const std::function<double()>& sample) {
  const double start = now_seconds();
  std::exception_ptr error;
  Collector collector;
  StopRule rule;
  rule.min_seconds = plan.min_seconds;
  rule.max_seconds = plan.max_seconds;
  double last_wall = 0;  // what the last sample took with all that surrounds it
  // A run's lambda is called once per repetition; everything slow was done before, in the session.
  const auto body = [&](benchmark::State& state) {
    for (auto _ : state) {
      if (error) break;
      const double before = now_seconds();
      try {
        state.SetIterationTime(sample());
      } catch (...) {
        error = std::current_exception();
      }
      last_wall = now_seconds() - before;
    }
    if (error) state.SkipWithError("the sample failed");
  };
  const auto out_of_time = [&] {
    const double now = now_seconds(), spent = now - start, n = double(collector.samples_ms.size());
    if (n > 0 && now + last_wall > plan.deadline) return true;
    return n < 3 ? n > 0 && spent + last_wall > 3 * plan.max_seconds : spent + last_wall > plan.max_seconds;
  };
  while (!error) {
    const size_t had = collector.samples_ms.size();
    const double room = plan.max_seconds - (now_seconds() - start);
    // The first repetition alone tells how many fit into the next batch.
    int batch = had == 0 ? 1 : std::clamp(int(room / std::max(last_wall, 1e-6)), 1, 10);
    if (fixed_repetitions > 0) batch = fixed_repetitions;
    benchmark::ClearRegisteredBenchmarks();
    benchmark::RegisterBenchmark(name.c_str(), body)
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(batch)
        ->Unit(benchmark::kMillisecond);
    benchmark::RunSpecifiedBenchmarks(&collector);
    if (error) std::rethrow_exception(error);
    if (collector.samples_ms.size() == had || fixed_repetitions > 0) break;  // filtered out, or all that was asked for
    if (out_of_time()) break;
    const auto verdict = rule.judge(collector.samples_ms, now_seconds() - start);
    if (collector.samples_ms.size() >= 3 && verdict != StopRule::Verdict::more) break;
  }
  return collector.samples_ms;
}

}  // namespace ladder
