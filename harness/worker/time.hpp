// Times the scopes of a variant. A sample is one call of a phase (or a whole solve), timed by the device's clock, from
// initial centroids in an order that no earlier sample had. The results of the last sample are validated.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/power.hpp"
#include "base/statistics.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "protocol/scopes.hpp"
#include "worker/device_helpers.hpp"
#include "worker/drive.hpp"
#include "worker/sampler.hpp"
#include "worker/validate_solve.hpp"

namespace ladder {

template <class T>
class Timer {
 public:
  Timer(Driver<T>& driver, SolveValidator<T>& validator, const Request& request, double begin_seconds)
      : run_(driver), validator_(validator), request_(request), begin_seconds_(begin_seconds) {
    if (run_.host_memory()) return;
    check(cudaMalloc(reinterpret_cast<void**>(&clock_), 2 * sizeof *clock_), "taking device memory");
    if (request_.cold) check(cudaMalloc(&evict_, evict_bytes), "taking device memory");
    check(cudaEventCreate(&begin_), "making an event");
    check(cudaEventCreate(&end_), "making an event");
  }
  ~Timer() {
    for (const cudaEvent_t event : {begin_, end_}) {
      if (event) cudaEventDestroy(event);
    }
    if (clock_) cudaFree(clock_);
    if (evict_) cudaFree(evict_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// The reason why this scope cannot be timed; empty where it can.
  std::string refusal(const Scope& scope) const {
    const std::string why = missing(scope);
    return why.empty() && scope.whole ? validator_.no_solve() : why;
  }

  Timed time(const Scope& scope) {
    Timed row;
    row.scope = scope.name;
    const double deadline = begin_seconds_ + 0.9 * request_.time_limit;
    row.reason = refusal(scope);
    if (row.reason.empty() && scope.whole && now_seconds() + validator_.solve_seconds() > deadline)
      row.reason = "the session has no time left for a solve: raise --time-limit";
    if (!row.reason.empty()) return row;

    find_power_meter();
    SamplePlan plan{.min_seconds = request_.min_seconds, .max_seconds = request_.max_seconds, .deadline = deadline};
    if (run_.device().kind == DeviceKind::simt) {  // its times say nothing about a GPU: one sample is enough
      plan.min_seconds /= 5;
      plan.at_least = 1;
    }
    warm_up(scope, row, plan);
    row.iterations.clear();
    std::vector<double> communication;  // ms, one per sample
    // With --sustained the power limit is part of the measurement: low clocks are expected.
    const double floor = request_.sustained_seconds > 0 ? 0 : row.settled_mhz.value_or(0) * clock_floor;
    bool unstable = false;
    const double give_up = now_seconds() + request_.max_seconds;
    const auto sample = [&] {
      for (;;) {
        const double seconds = sample_once(scope, row);
        const double mhz = clock_mhz();
        if (mhz < floor && row.retries < clock_retries && now_seconds() < give_up) {
          ++row.retries;
          if (scope.whole) row.iterations.pop_back();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // heat, or load from another process
          continue;
        }
        unstable = unstable || mhz < floor;
        communication.push_back(communication_ms_);
        if (mhz > 0) row.sm_mhz.push_back(std::round(mhz));
        return seconds;
      }
    };
    const Samples samples =
        take_samples(request_.variant + "/" + request_.workload + "/" + std::string(scope.name), plan, sample);
    if (const auto power = power_ ? power_->read() : std::nullopt)
      row.watts = power->watts, row.watt_limit = power->limit;
    row.samples_ms = samples.ms;
    row.verdict = samples.verdict;
    if (samples.ms.empty()) {
      row.reason = "left out by --benchmark_filter";
      return row;
    }
    row.status = "ok";
    const Summary q = summarise(samples.ms);
    row.median_ms = q.median;
    if (samples.ms.size() >= 5) row.q1_ms = q.q1, row.q3_ms = q.q3;
    if (scope.whole) row.per_iteration_ms = per_iteration(row);
    if (run_.device().communicator) row.communication_ms = seven_digits(summarise(communication).median);
    if (unstable) {
      row.status = "unstable";
      row.reason = "the SM clock stayed below " + std::to_string(int(floor)) + " MHz after " +
                   std::to_string(row.retries) + " retries: let the GPU cool, or give it to this run alone";
    }
    validator_.check_sample(row.scope, row);
    if (!validator_.ok()) {
      row.status = "invalid";
      row.reason = validator_.fault();
    }
    return row;
  }

  /// One sample of a scope under a profiler, after one warm-up sample. Its time is not a measurement: a profiler runs
  /// each kernel many times.
  Timed profile(const Scope& scope) {
    Timed row;
    row.scope = scope.name;
    row.reason = refusal(scope);
    if (!row.reason.empty()) return row;
    spin_ = 0;  // the spin kernel would be profiled too
    sample_once(scope, row);
    row.iterations.clear();
    watched_ = true;
    const double seconds = sample_once(scope, row);
    watched_ = false;
    row.status = "ok";
    row.verdict = "asked";
    row.samples_ms = {seconds * 1e3};
    row.median_ms = seconds * 1e3;
    validator_.check_sample(row.scope, row);
    if (!validator_.ok()) {
      row.status = "invalid";
      row.reason = validator_.fault();
    }
    return row;
  }

  /// Milliseconds of each iteration of one solve, each between its own two events: late iterations show what pruning
  /// gains and what uneven clusters cost.
  std::vector<double> time_iterations() {
    std::vector<double> ms;
    if (!run_.step_by_step() || run_.phases().solve) return ms;
    run_.restart(validator_.next_offset());
    run_.solve([&](auto step) { ms.push_back(seven_digits(measure(false, spin_, step) * 1e3)); });
    return ms;
  }

 private:
  /// The reason why this variant has no such scope; empty where it has one.
  std::string missing(const Scope& scope) const {
    const PhaseTable<T>& phases = run_.phases();
    const auto is = [&](const char* name) { return scope.name == name; };
    const bool steps = run_.step_by_step();
    if (is("upload")) return phases.upload ? "" : "the points are read where they lie: there is no upload";
    if (is("initialise")) return phases.initialise ? "" : "this variant is not about initialisation";
    if (!steps && !phases.solve) return "this variant is about initialisation alone";
    if ((is("assign") && !phases.assign) || (is("update") && !phases.update)) {
      return phases.iterate ? "assign and update are one pass here: see iteration"
                            : "the whole solve is one piece here: see solve";
    }
    if ((is("iteration") || is("download")) && !steps) return "the whole solve is one piece here: see solve";
    if (!scope.fresh) return "";
    if (request_.profile) return "a cold start is not profiled: the start of the profiler itself would count";
    if (request_.cold) return "a fresh process finds no cache that could be emptied: leave --cache cold out";
    if (request_.ordinals.size() > 1 || request_.ranks > 1)
      return "a cold start is one process with one GPU: leave --gpus and --ranks out";
    return "";
  }

  // ------------------------------------------------------------------------------------------------------ one sample

  /// Seconds of `work` by the device's clock, or by the host's if `from_host`. A spin kernel of `spin` seconds runs
  /// first, so that all of `work` is submitted before the first event: otherwise the host's submission would be timed.
  template <class F>
  double measure(bool from_host, double spin, F work) {
    run_.synchronize();
    if (evict_) {
      check(cudaMemsetAsync(evict_, ++evictions_ & 0xFF, evict_bytes, run_.stream()), "evicting the L2 cache");
      if (from_host) run_.synchronize();
    }
    if (run_.host_memory() || from_host) {
      const double begin = now_seconds();
      work();
      run_.synchronize();
      return now_seconds() - begin;
    }
    if (spin > 0) device_helpers::keep_busy(spin, run_.stream());
    check(cudaEventRecord(begin_, run_.stream()), "recording an event");
    const double begin = now_seconds();
    work();
    check(cudaEventRecord(end_, run_.stream()), "recording an event");
    submit_seconds_ = now_seconds() - begin;
    check(cudaEventSynchronize(end_), "waiting for the work");
    check(cudaGetLastError(), "running a kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "reading the time");
    return ms * 1e-3;
  }

  double sample_once(const Scope& scope, Timed& row) {
    const PhaseTable<T>& phases = run_.phases();
    const auto is = [&](const char* name) { return scope.name == name; };
    const int offset = validator_.next_offset();
    Communicator* const communicator = run_.device().communicator;
    if (is("end_to_end")) {
      run_.choose_offset(offset);
      run_.forget();
      run_.poison_result();
    } else if (is("initialise")) {
      run_.ready_to_draw(request_.seed + uint64_t(++draws_));
    } else {
      run_.restart(offset);
    }
    if (is("update") || is("download")) run_.assign_or_iterate();
    if (is("download")) {
      if (phases.iterate) run_.call(phases.restart);  // the centroids of before the pass, to which the labels belong
      run_.poison_result();
    }
    if (communicator) run_.synchronize(), communicator->take_ms();  // of the sums before the sample
    int iterations = 0;
    const auto work = [&] {
      if (is("upload") || is("end_to_end")) run_.call(phases.upload);
      if (is("end_to_end")) run_.call(phases.restart);
      if (is("initialise")) run_.call(phases.initialise);
      if (is("assign")) run_.call(phases.assign);
      if (is("update")) run_.call(phases.update);
      if (is("iteration")) run_.step();
      if (scope.whole) iterations = run_.solve();
      if (is("end_to_end") || is("download")) run_.call(phases.download);
    };
    const double seconds = measure(scope.from_host, spin_, [&] {
      if (!watched_) return work();
      const device_helpers::Watched watched(request_.variant, row.scope);
      work();
      run_.synchronize();
    });
    if (scope.whole) row.iterations.push_back(iterations);
    if (communicator) communication_ms_ = communicator->take_ms();
    return seconds;
  }

  /// Fills caches, loads code, and waits until the clock is steady under this load. A solve that takes seconds was
  /// warmed up by its validation.
  void warm_up(const Scope& scope, Timed& row, SamplePlan& plan) {
    const double probe = scope.whole ? 5 * probe_seconds : probe_seconds;
    spin_ = scope.from_host ? 0 : probe;
    const double begin = now_seconds();
    const double wanted = run_.device().kind == DeviceKind::cuda  // a peer too, though its results are in host memory
                              ? std::max(request_.warm_up_seconds, request_.sustained_seconds)
                              : 0;
    std::vector<double> walls, mhz;
    const double known = scope.whole ? validator_.solve_seconds() : 0;
    if (known >= 1 && known > wanted) {
      plan.wall_seconds = known;
      return;
    }
    do {
      const double start = now_seconds();
      sample_once(scope, row);
      if (const double now = clock_mhz(); now > 0) mhz.push_back(now);
      // Work that was submitted within the spin did not wait for the device: later spins are as long as the submission.
      // Work that waits for the device includes host time, which is part of the measurement: no spin.
      if (spin_ == probe) spin_ = submit_seconds_ < 0.9 * probe ? 1.5 * submit_seconds_ + 10e-6 : 0;
      walls.push_back(now_seconds() - start);
    } while (now_seconds() - begin < wanted || (now_seconds() - begin < 3 * wanted && !settled(mhz)));
    if (walls.size() > 1) walls.erase(walls.begin());  // the first one warmed caches up
    plan.wall_seconds = summarise(walls).median;
    row.warm_up_seconds = seven_digits(now_seconds() - begin);
    if (!mhz.empty()) {
      const size_t last = (mhz.size() + 2) / 3;  // what it settled at is at the end
      row.settled_mhz = std::round(summarise(std::span(mhz).last(last)).median);
    }
  }

  /// Are the last four clock readings within 2 %? Heat and power limits act slowly.
  static bool settled(const std::vector<double>& mhz) {
    if (mhz.empty()) return true;
    if (mhz.size() < 4) return false;
    const auto [low, high] = std::minmax_element(mhz.end() - 4, mhz.end());
    return *high <= 1.02 * *low;
  }

  /// Called before the first load: the search takes a while in which the GPU is idle.
  void find_power_meter() {
    const std::vector<int>& gpus = run_.device().ordinals;
    if (power_ || run_.host_memory() || gpus.empty()) return;
    if (const std::string bus_id = device_helpers::bus_id(gpus[0]); !bus_id.empty()) power_.emplace(bus_id);
  }

  /// Current SM clock in MHz; 0 on devices without one.
  double clock_mhz() {
    if (run_.device().kind != DeviceKind::cuda || !clock_) return 0;
    device_helpers::measure_clock(clock_, run_.stream());
    unsigned long long out[2] = {};
    check(cudaMemcpyAsync(out, clock_, sizeof out, cudaMemcpyDeviceToHost, run_.stream()), "reading the clock");
    run_.synchronize();
    return out[1] ? double(out[0]) / double(out[1]) * 1e3 : 0;
  }

  static double per_iteration(const Timed& row) {
    std::vector<double> each;
    for (size_t i = 0; i < row.samples_ms.size(); ++i)
      each.push_back(row.samples_ms[i] / std::max(1, row.iterations[i]));
    return seven_digits(summarise(each).median);
  }

  static constexpr size_t evict_bytes = size_t(256) << 20;  // several times any L2
  static constexpr double clock_floor = 0.95;               // of the clock that the warm-up settled at
  static constexpr int clock_retries = 20;                  // samples thrown away before a row is unstable
  static constexpr double probe_seconds = 1e-3;             // longer than any submission that does not wait

  Driver<T>& run_;
  SolveValidator<T>& validator_;
  const Request& request_;
  const double begin_seconds_;
  std::optional<PowerMeter> power_;
  unsigned long long* clock_ = nullptr;
  void* evict_ = nullptr;
  int evictions_ = 0;
  int draws_ = 1;  // validation used the first two
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double spin_ = 0, submit_seconds_ = 0;
  double communication_ms_ = 0;  // of the last sample
  bool watched_ = false;         // a profiler measures this sample
};

}  // namespace ladder
