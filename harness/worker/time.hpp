// Times the scopes of a variant. A sample is one call of a phase (or a whole solve), timed by the device's clock.
// Phases start from centroids that are drawn in secret for that sample, whole solves from the problem's under numbers
// that are: so that all samples of a solve are the same work, unless points are as near to two centroids: the numbers
// decide, and other iterations follow. The results of some samples, drawn in secret too, and of the last are validated;
// after the solves comes one from drawn centroids, the witness.
#pragma once
#include <fmt/format.h>

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
#include "protocol/parts.hpp"
#include "protocol/request.hpp"
#include "protocol/scopes.hpp"
#include "worker/device_helpers.hpp"
#include "worker/drive.hpp"
#include "worker/peer.hpp"
#include "worker/sampler.hpp"
#include "worker/validate_solve.hpp"

namespace ladder {

template <class T>
class Timer {
 public:
  Timer(Driver<T>& driver, SolveValidator<T>& validator, const Request& request, double begin_seconds)
      : run_(driver), validator_(validator), request_(request), begin_seconds_(begin_seconds) {}

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
    doubt_.clear();
    warm_up(scope, row, plan);
    row.iterations.clear();
    std::vector<double> communication;  // ms, one per sample
    // To judge a sample lets a GPU cool: of some once, and never where the load is to be sustained.
    const int most = request_.sustained_seconds > 0 ? 0 : run_.device().kind == DeviceKind::cuda ? 1 : most_judged;
    int judged = 0;
    bool was_judged = false;       // was the last sample judged, so that its results are not there any more?
    std::vector<double> settling;  // seconds
    double judging = 0;            // seconds spent on that, which do not count as sampling
    // With --sustained the power limit is part of the measurement: low clocks are expected.
    const double floor = request_.sustained_seconds > 0 ? 0 : row.settled_mhz.value_or(0) * clock_floor;
    bool unstable = false;
    const double give_up = now_seconds() + request_.max_seconds;
    const auto sample = [&] {
      for (;;) {
        const Measured measured = sample_once(scope, row);
        const double mhz = run_.clock_mhz();
        if (mhz < floor && row.retries < clock_retries && now_seconds() < give_up) {
          ++row.retries;
          if (scope.whole) row.iterations.pop_back();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // heat, or load from another process
          continue;
        }
        unstable = unstable || mhz < floor;
        communication.push_back(measured.communication_ms);
        settling.push_back(measured.settle_seconds);
        if (mhz > 0) row.sm_mhz.push_back(std::round(mhz));
        const double before = now_seconds();
        was_judged = judged < most && before < deadline && validator_.judges_next();
        if (was_judged) judge_sample(row, ++judged);
        judging += now_seconds() - before;
        return measured.seconds;
      }
    };
    const Samples samples =
        take_samples(request_.variant + "/" + request_.workload + "/" + std::string(scope.name), plan, sample, judging);
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
    look_how_it_settles(scope, row, std::move(settling));
    if (was_judged) sample_aside(scope, row);
    look_for_leftovers(scope, row);
    validator_.check_sample(row.scope, row, iterations_);
    if (validator_.ok() && scope.whole) call_witness(scope, row);
    if (validator_.ok()) hold_against_the_clock(scope, row, plan.wall_seconds);
    if (validator_.ok() && doubt_.empty()) doubt_ = run_.restless();
    if (!doubt_.empty() && row.status == "ok") row.status = "unstable", row.reason = std::exchange(doubt_, "");
    if (!validator_.ok()) {
      row.status = "invalid";
      row.reason = validator_.fault();
    }
    return row;
  }

  /// One sample of a scope under a profiler, after one warm-up sample (none on the CPU device, which counts the same).
  /// Its time is not a measurement: a profiler runs each kernel many times.
  Timed profile(const Scope& scope) {
    Timed row;
    row.scope = scope.name;
    row.reason = refusal(scope);
    if (!row.reason.empty()) return row;
    spin_ = 0;  // the spin kernel would be profiled too
    if (run_.device().kind != DeviceKind::simt) sample_once(scope, row);
    row.iterations.clear();
    watched_ = true;
    const double seconds = sample_once(scope, row).seconds;
    watched_ = false;
    row.status = "ok";
    row.verdict = "asked";
    row.samples_ms = {seconds * 1e3};
    row.median_ms = seconds * 1e3;
    validator_.check_sample(row.scope, row, iterations_);
    if (!validator_.ok()) {
      row.status = "invalid";
      row.reason = validator_.fault();
    }
    return row;
  }

  /// What host code used of the CPU in a sample of each of these scopes, taken one after another, ms. Where they
  /// contradict each other they are taken again: threads that wait for one another by watching use more where other
  /// programs hold a core, and not in every turn.
  std::map<std::string, double> use_of(const std::vector<std::string>& scopes) {
    std::map<std::string, double> ms;
    const double begin = now_seconds();
    for (int turn = 0; turn < turns; ++turn) {
      Timed row;
      for (const std::string& name : scopes) {
        const Scope& scope = scope_named(name);
        const std::string why = missing(scope);
        if (why == no_upload || (why == one_piece && name == "download")) ms[name] = 0;
        if (scope.fresh || name == "initialise" || !refusal(scope).empty()) continue;
        spin_ = 0;
        ms[name] = seven_digits(sample_once(scope, row, true).cpu_seconds * 1e3);
      }
      const int iterations = row.iterations.empty() ? 0 : row.iterations.back();
      const double now = now_seconds(), spent = now - begin;
      if (contradictions_of(ms, iterations, true).empty() || spent > turns_seconds) break;
      if (now + spent > begin_seconds_ + 0.9 * request_.time_limit) break;
    }
    std::erase_if(ms, [](const auto& one) { return one.second <= 0; });
    return ms;
  }

  /// Milliseconds of each iteration of one solve, each between its own two events: late iterations show what pruning
  /// gains and what uneven clusters cost.
  std::vector<double> time_iterations() {
    std::vector<double> ms;
    if (!run_.step_by_step() || run_.has(Act::solve)) return ms;
    validator_.choose_next_start(true);
    run_.restart();
    const Stop& stop = run_.problem().stop;
    const Sample step{.acts = acts_of_step(), .spin = spin_};
    for (int done = 1;; ++done) {
      ms.push_back(seven_digits(run_.measure(step).seconds * 1e3));
      const int64_t changed = stop.rule == Stop::Rule::fixed ? 0 : run_.count_changed();
      if (stop.reached(done, changed, run_.problem().n)) return ms;
    }
  }

 private:
  /// The reason why this variant has no such scope; empty where it has one.
  std::string missing(const Scope& scope) const {
    const auto is = [&](const char* name) { return scope.name == name; };
    const bool steps = run_.step_by_step();
    if (is("upload")) return run_.has(Act::upload) ? "" : no_upload;
    if (is("initialise")) return run_.has(Act::initialise) ? "" : "this variant is not about initialisation";
    if (!steps && !run_.has(Act::solve)) return "this variant is about initialisation alone";
    if ((is("assign") && !run_.has(Act::assign)) || (is("update") && !run_.has(Act::update))) {
      return run_.has(Act::iterate) ? "assign and update are one pass here: see iteration" : one_piece;
    }
    if ((is("iteration") || is("download")) && !steps) return one_piece;
    if (!scope.fresh) return "";
    if (request_.profile) return "a cold start is not profiled: the start of the profiler itself would count";
    if (request_.cold) return "a fresh process finds no cache that could be emptied: leave --cache cold out";
    if (request_.ordinals.size() > 1 || request_.ranks > 1)
      return "a cold start is one process with one GPU: leave --gpus and --ranks out";
    return "";
  }

  // ------------------------------------------------------------------------------------------------------ one sample

  Acts acts_of_step() const {
    return run_.has(Act::iterate) ? Acts().with(Act::iterate) : Acts().with(Act::assign).with(Act::update);
  }
  Sample sample_of(const Scope& scope, bool careful = false) const {
    const auto is = [&](const char* name) { return scope.name == name; };
    Acts acts = is("iteration") ? acts_of_step() : Acts();
    acts = acts.with(Act::upload, is("upload") || is("end_to_end"));
    acts = acts.with(Act::restart, is("end_to_end"));
    acts = acts.with(Act::initialise, is("initialise"));
    acts = acts.with(Act::assign, acts.has(Act::assign) || is("assign"));
    acts = acts.with(Act::update, acts.has(Act::update) || is("update"));
    acts = acts.with(Act::solve, scope.whole);
    acts = acts.with(Act::download, is("end_to_end") || is("download"));
    return {.acts = acts,
            .from_host = scope.from_host,
            .cold = request_.cold,
            .spin = spin_,
            .careful = careful,
            .watched = watched_ ? std::string(scope.name) : ""};
  }
  /// What precedes a sample, from the start that was chosen.
  void make_ready(const Scope& scope) {
    const auto is = [&](const char* name) { return scope.name == name; };
    if (is("end_to_end")) {
      run_.forget();
      run_.poison_result();
    } else if (is("initialise")) {
      run_.ready_to_draw(validator_.next_seed());
    } else {
      run_.restart();
    }
    if (is("update") || is("download")) run_.assign_or_iterate();
    if (is("download")) {
      if (run_.has(Act::iterate)) run_.call(Act::restart);  // the centroids of before the pass, of which the labels are
      run_.poison_result();
    }
  }
  Measured sample_once(const Scope& scope, Timed& row, bool careful = false) {
    if (scope.name != "initialise") validator_.choose_next_start(scope.whole);
    make_ready(scope);
    const Measured measured = run_.measure(sample_of(scope, careful));
    submit_seconds_ = measured.submit_seconds;
    iterations_ = measured.iterations;
    if (scope.whole) row.iterations.push_back(measured.iterations);
    if (doubt_.empty()) doubt_ = measured.doubt;
    return measured;
  }
  /// A sample that is none of the row's.
  Measured sample_aside(const Scope& scope, Timed& row, bool careful = false) {
    const Measured measured = sample_once(scope, row, careful);
    if (scope.whole) row.iterations.pop_back();
    return measured;
  }
  /// Validates the sample that was just taken. It stays a sample.
  void judge_sample(const Timed& row, int number) {
    Timed judged = row;
    if (doubt_.empty() && number == 1) doubt_ = run_.restless();
    validator_.check_sample(row.scope, judged, iterations_, false);
  }
  /// Who has answered answers again at once: else work goes on. On a machine with other work an answer may be late, but
  /// not nearly always.
  void look_how_it_settles(const Scope& scope, Timed& row, std::vector<double> seconds) {
    const double limit = *row.median_ms / 4 + settle_ms;
    const auto late = [&](double one) { return one * 1e3 > limit; };
    if (!doubt_.empty() || !late(summarise(seconds).q1)) return;
    int soon = 0;
    for (int tries = 0; tries < settle_tries; ++tries) {
      seconds.push_back(sample_aside(scope, row).settle_seconds);
      if (!late(seconds.back()) && ++soon == settle_soon) return;
    }
    doubt_ = fmt::format("{:.4g} ms were told, and then work went on for {:.4g}", *row.median_ms,
                         summarise(seconds).median * 1e3);
  }
  /// A download that follows a sample costs no more than one that follows a download: else it does what was timed.
  /// Neither costs more than moving the result does. A library whose solve hands out no labels searches for those of
  /// its final centroids here: that is an assignment, which takes no longer than an iteration of its solve, but for
  /// what both differ by from one to the next.
  void look_for_leftovers(const Scope& scope, Timed& row) {
    if (!doubt_.empty() || scope.from_host || scope.name == "initialise") return;
    if (!run_.is_apart() && run_.device().kind != DeviceKind::cuda) return;  // the judge's own use would count
    const double more = run_.device().kind == DeviceKind::cuda ? gpu_leftover_ms : leftover_ms;
    const bool searches = scope.whole && run_.card().labels_last && is_peer(request_.module);
    double first = 0, again = 0,
           most = most_of_download() + (searches ? search_times * row.per_iteration_ms.value_or(0) : 0);
    for (int tries = 0; tries < leftover_tries; ++tries) {
      if (tries > 0) sample_aside(scope, row);
      if (!(doubt_ = run_.restless()).empty()) return;
      first = run_.cost_of_download() * 1e3;
      again = run_.cost_of_download() * 1e3;
      if (tries == 0 && searches && again > most)
        most = most_of_download() + search_times * cost_of_iteration(scope, row);
      if (first <= leftover_times * again + more && again <= most) return;
    }
    if (again > most)
      doubt_ = fmt::format("a download takes {:.4g} ms for {} bytes: work was left to it", again, result_bytes());
    else
      doubt_ = fmt::format("the download that follows takes {:.4g} ms, a second one {:.4g}: work was left to it", first,
                           again);
  }
  /// What an iteration of a solve costs, ms, counted as a download is: on a CPU the use of it by all threads.
  double cost_of_iteration(const Scope& scope, Timed& row) {
    const double ms = row.per_iteration_ms.value_or(0);
    if (run_.device().kind == DeviceKind::cuda || !row.median_ms) return ms;
    return sample_aside(scope, row, true).cpu_seconds * 1e3 * ms / *row.median_ms;
  }
  size_t result_bytes() const {
    const Problem<T>& p = run_.problem();
    return size_t(p.n) * sizeof(int32_t) + size_t(p.k) * p.d * sizeof(T);
  }
  /// What moving the result does not exceed, ms: the slowest in the committed records move 1.6 GB/s, or take 0.2 ms.
  /// The CPU device may run kernels for it.
  double most_of_download() const {
    const bool simulated = run_.device().kind == DeviceKind::simt;
    return (simulated ? 5 : leftover_ms) + double(result_bytes()) / (simulated ? 2e6 : 2.5e8) * 1e3;
  }
  /// A solve from centroids that no variant has met takes no longer than those from the problem's own, which could have
  /// been kept from before: as many iterations, once in a session where time allows; else, and of libraries, two.
  void call_witness(const Scope& scope, Timed& row) {
    if (!validator_.iterations() || *validator_.iterations() < 1 || row.samples_ms.empty()) return;
    const int all = *validator_.iterations();
    const double remaining = begin_seconds_ + 0.8 * request_.time_limit - now_seconds();
    // A library may end where nothing changes any more, whatever number it was asked for.
    const bool whole_solve = !witnessed_ && !is_peer(request_.module) &&
                             std::max(1e-3 * *row.median_ms, validator_.solve_seconds()) < remaining / 3;
    witnessed_ = witnessed_ || whole_solve;
    const int iterations = whole_solve ? all : std::min(2, all);
    const auto solve = [&](bool careful) {
      const Stop stop = run_.choose_stop(Driver<T>::exactly(iterations));
      validator_.choose_drawn_start();
      make_ready(scope);
      const Measured measured = run_.measure(sample_of(scope, careful));
      run_.choose_stop(stop);
      return measured;
    };
    const Measured witness = solve(false);
    validator_.check_witness(witness.iterations, iterations, "in a timed " + row.scope + " from drawn centroids");
    const auto too_long = [](double part, double whole) { return part > witness_times * whole + witness_ms; };
    double ms = witness.seconds * 1e3, whole = *row.median_ms;
    // Another program may have lengthened either: on a CPU the use of it counts, of both one after another, unless they
    // took about as long.
    const bool on_host = run_.device().kind != DeviceKind::cuda;
    const bool in_doubt = on_host ? ms > alike * whole : too_long(ms, whole);
    for (int tries = 1; validator_.ok() && in_doubt && tries < witness_tries; ++tries) {
      const Measured again = solve(on_host);
      ms = (on_host ? again.cpu_seconds : again.seconds) * 1e3;
      if (on_host) whole = sample_aside(scope, row, true).cpu_seconds * 1e3;
      if (!too_long(ms, whole)) break;
    }
    if (!validator_.ok() || !doubt_.empty() || !too_long(ms, whole)) return;
    doubt_ = fmt::format(
        "{} iterations from centroids that it has not met before take {:.4g} ms, a solve of {} from the problem's "
        "{:.4g}: what is timed is not the work",
        iterations, ms, row.iterations.back(), whole);
  }
  /// What passes between two events only their own process can tell: of many samples one after another the judge's
  /// clock tells as much. Of fewer where a sample takes `wall_seconds`, with what precedes it: an update follows an
  /// assignment, which may take hundreds of times as long.
  void hold_against_the_clock(const Scope& scope, const Timed& row, double wall_seconds) {
    if (!run_.is_apart() || run_.host_memory() || run_.device().kind != DeviceKind::cuda || scope.from_host) return;
    if (!row.median_ms || scope.name == "initialise" || now_seconds() > begin_seconds_ + 0.8 * request_.time_limit)
      return;
    const size_t size = size_t(run_.problem().k) * run_.problem().d * sizeof(T);
    const double most =
        std::min({batch_ms / *row.median_ms, batch_seconds / wall_seconds, double(batch_bytes) / double(size)});
    const int count = int(std::clamp(most, 2.0, 16.0));
    Sample sample = sample_of(scope);
    sample.spin = 0;
    const auto seconds = [&](bool with_sample) {
      std::vector<Start<T>> starts;
      for (int i = 0; i < count; ++i) validator_.choose_next_start(scope.whole), starts.push_back(run_.start());
      run_.synchronize();
      const double begin = now_seconds();
      for (Start<T>& start : starts) {
        run_.choose(std::move(start));
        make_ready(scope);
        if (!with_sample) continue;
        if (scope.whole)
          run_.solve();
        else
          for (int i = 0; i < count_of_acts; ++i)
            if (sample.acts.has(Act(i))) run_.call(Act(i));
      }
      run_.synchronize();
      return now_seconds() - begin;
    };
    double least = 1e300;  // of three at most: what else the machine did does not count
    for (int i = 0; i < 3; ++i) {
      least = std::min(least, (seconds(true) - seconds(false)) / count * 1e3);
      if (least <= batch_times * *row.median_ms + batch_more_ms || !doubt_.empty()) return;
    }
    doubt_ = fmt::format(
        "{} samples one after another take {:.4g} ms each by the judge's clock, {:.4g} between their own events", count,
        least, *row.median_ms);
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
      if (const double now = run_.clock_mhz(); now > 0) mhz.push_back(now);
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

  static double per_iteration(const Timed& row) {
    std::vector<double> each;
    for (size_t i = 0; i < row.samples_ms.size(); ++i)
      each.push_back(row.samples_ms[i] / std::max(1, row.iterations[i]));
    return seven_digits(summarise(each).median);
  }

  static constexpr double clock_floor = 0.95;    // of the clock that the warm-up settled at
  static constexpr int clock_retries = 20;       // samples thrown away before a row is unstable
  static constexpr double probe_seconds = 1e-3;  // longer than any submission that does not wait
  static constexpr int careful_samples = 3;      // of host code: what it uses of the CPU
  static constexpr int turns = 20;
  static constexpr double turns_seconds = 3;
  static constexpr int most_judged = 3;  // samples of a scope, besides the last
  static constexpr double witness_times = 2, witness_ms = 0.3, alike = 1.2;
  static constexpr int witness_tries = 5;   // another program may have lengthened the first
  static constexpr double settle_ms = 0.3;  // to answer again, on a machine that has other work, too
  static constexpr int settle_tries = 16, settle_soon = 2;
  static constexpr int leftover_tries = 3;
  static constexpr double leftover_times = 3, leftover_ms = 0.5, gpu_leftover_ms = 0.05;
  static constexpr double search_times =
      1.25;  // FAISS on 16 cores: 22.5 s of CPU time beside iterations of 1.2 s by the clock
  static constexpr double batch_ms = 50, batch_seconds = 2, batch_times = 2, batch_more_ms = 0.1;
  static constexpr size_t batch_bytes = size_t(256) << 20;  // of starts

  Driver<T>& run_;
  SolveValidator<T>& validator_;
  const Request& request_;
  const double begin_seconds_;
  std::optional<PowerMeter> power_;
  double spin_ = 0, submit_seconds_ = 0;
  int iterations_ = 0;      // of the last sample, be it one of the row's or not
  std::string doubt_;       // why a time of this scope is not believed
  bool witnessed_ = false;  // by a solve of all iterations
  bool watched_ = false;    // a profiler measures this sample
};

}  // namespace ladder
