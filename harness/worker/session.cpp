#include "worker/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "protocol/scopes.hpp"
#include "validation/csr.hpp"
#include "validation/exact.hpp"
#include "validation/reference.hpp"
#include "worker/apart/accused.hpp"
#include "worker/apart/direct.hpp"
#include "worker/apart/remote.hpp"
#include "worker/cold_start.hpp"
#include "worker/communicator.hpp"
#include "worker/module.hpp"
#include "worker/peer.hpp"
#include "worker/time.hpp"
#include "worker/validate_solve.hpp"

namespace ladder {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

template <class Event>
json event(const char* name, const Event& body) {
  json j = body;
  j["event"] = name;
  return j;
}

/// A session's variant, loaded here or in a process of its own.
template <class T>
struct Loaded {
  Card card = {};
  Acts acts = {};
  std::function<std::string()> refuse = {};  ///< the card's own reason; empty: it has none
  std::function<std::unique_ptr<Driver<T>>(const Problem<T>&)> run = {};
};

template <class T>
class Session {
 public:
  Session(const Request& request, const Device& device, const Report& report)
      : request_(request), device_(device), report_(report), mapped_(request) {}

  Problem<T>& problem() { return mapped_.problem; }

  /// False where a result is wrong.
  bool run(Loaded<T> loaded) {
    loaded_ = std::move(loaded);
    axes_ = axes_of(card(), request_);
    try {
      return validate_and_time();
    } catch (const Refusal& refusal) {
      report_(event("refused", json{{"reason", refusal.what()}}));
      return true;
    }
  }

 private:
  bool validate_and_time() {
    const Problem<T>& p = problem();
    if (p.sparse()) {
      if (const std::string why = check_csr(p.csr, p.n, p.d, p.nnz, p.points); !why.empty())
        throw Error("the compressed rows do not match the points: " + why);
    }
    if (const std::string why = refusal(); !why.empty()) throw Refusal(why);
    doing("prepare and upload");
    const std::unique_ptr<Driver<T>> run = loaded_.run(problem());
    Driver<T>& driver = *run;
    SolveValidator<T> validator(driver, request_, begin_seconds_);
    doing("validation");
    driver.watch_memory([&] { validator.validate(whole()); });
    SessionResult result;
    if (validator.ok() && !request_.dump.empty()) {
      if (!validator.drawn().empty()) dump_initial(validator.drawn().data());
      if (validator.no_solve().empty() && !validator.final_labels().empty()) dump(validator), result.dumped = true;
    }
    if (validator.ok()) {
      // A session that is stopped later has reported its validation.
      if (!request_.check_only) report_result(validator, driver, result);
      Timer<T> timer(driver, validator, request_, begin_seconds_);
      for (const std::string& scope : in_timing_order(request_.scopes)) {
        const Scope& which = scope_named(scope);
        if (request_.check_only) {
          Timed row;
          row.scope = scope;
          row.reason = timer.refusal(which);
          if (!row.reason.empty()) report_(event("timed", row));
          continue;
        }
        if (which.fresh && timer.refusal(which).empty()) {  // the run starts processes for it
          if (!request_.validated.empty()) validator.save(request_.validated);
          continue;
        }
        doing(scope);
        report_(event("timed", request_.profile ? timer.profile(which) : timer.time(which)));
        if (!validator.ok()) break;
      }
      const bool timed = !request_.profile && !request_.check_only;
      if (validator.ok() && validator.iterations() && wanted("solve") && timed) {
        doing("iterations one by one");
        result.iteration_ms = timer.time_iterations();
      }
      if (validator.ok() && timed && device_.kind != DeviceKind::cuda && wanted("solve") &&
          validator.solve_seconds() < longest_turn) {
        doing("parts beside the whole");
        result.cpu_ms = timer.use_of(request_.scopes);
      }
    }
    if (validator.ok() && !validator.is_counted()) doing("last check"), validator.check_first_step("of all");
    report_result(validator, driver, result);
    return validator.ok();
  }
  void report_result(SolveValidator<T>& validator, Driver<T>& driver, SessionResult& result) {
    validator.fill(result);
    if (!result.fault.empty()) {
      if (const std::string remark = driver.remark(); !remark.empty()) result.fault += "; " + remark;
    }
    result.axes = axes_.value;
    result.prepare_ms = driver.prepare_seconds() * 1e3;
    // On a GPU the first session of a process includes what the driver allocates once per process: sessions that share
    // one, as those of a check do, would differ by it.
    if (!device_.host_memory && !device_.poisons && !(request_.check_only && device_.kind == DeviceKind::cuda))
      result.peak_device_bytes = driver.peak_bytes();
    report_(event("result", result));
  }
  /// Whole solves first, transfers last: where the session's time is short, the transfers are left out.
  static std::vector<std::string> in_timing_order(std::vector<std::string> scopes) {
    const auto rank = [](const std::string& name) {
      return scope_named(name).whole ? 0 : name == "upload" || name == "download" ? 2 : 1;
    };
    std::stable_sort(scopes.begin(), scopes.end(),
                     [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
    return scopes;
  }
  const Card& card() const { return loaded_.card; }
  bool wanted(const char* scope) const {
    return std::find(request_.scopes.begin(), request_.scopes.end(), scope) != request_.scopes.end();
  }
  /// Does the request need a whole solve?
  bool whole() const {
    return request_.check_only || !request_.dump.empty() ||
           std::any_of(request_.scopes.begin(), request_.scopes.end(),
                       [](const std::string& scope) { return scope_named(scope).whole; });
  }
  void doing(const std::string& what) { report_(event("scope", json{{"scope", what}})); }

  static bool works(Acts acts) {
    return acts.has(Act::assign) || acts.has(Act::iterate) || acts.has(Act::solve) || acts.has(Act::initialise);
  }
  std::string refusal() {
    const Problem<T>& p = problem();
    if (!works(loaded_.acts)) {
      const std::string why = loaded_.refuse();
      return "has no " + request_.type + " form" + (why.empty() ? "" : ": " + why);
    }
    if (std::find(card().metrics.begin(), card().metrics.end(), p.metric) == card().metrics.end())
      return std::string("is not for the metric ") + to_string(p.metric);
    if (card().implicit != bool(p.kernel)) {
      return card().implicit ? "solves kernel k-means: the problem has no kernel"
                             : "has centroids in the points' own space: kernel k-means has none";
    }
    try {
      refuse_zero_rows(p);
    } catch (const Error& error) {
      return error.what();
    }
    if (const std::string why = loaded_.refuse(); !why.empty()) return why;
    if (const std::string why = lacks_instructions(card(), device_); !why.empty()) return why;
    const bool exact = card().arithmetic.form == Arithmetic::Form::exact;
    if (const std::string why = exact ? beyond_exact_labels(p) : beyond_validation(p); !p.kernel && !why.empty())
      return why;
    return too_slow();
  }

  /// Seconds of one warm iteration on the first `points` points.
  double pilot(int points) {
    const std::string what = fmt::format("a trial run on the first {} of {} points", points, problem().n);
    doing(what);
    try {
      return try_on(points);
    } catch (const Refusal& refusal) {
      throw Refusal(fmt::format("{} (of the first {} of {} points)", refusal.what(), points, problem().n));
    } catch (const std::exception& error) {
      throw Error(fmt::format("{}; this was in {}", error.what(), what));
    }
  }
  double try_on(int points) {
    Problem<T> part = problem();
    part.n = points;
    const std::unique_ptr<Driver<T>> run = loaded_.run(part);
    Driver<T>& driver = *run;
    driver.restart(0);
    driver.assign_or_iterate();
    driver.download();
    // An update would use invalid labels as indices. They are not timed: validation reports them.
    const std::vector<int32_t> labels = driver.labels();
    if (!std::all_of(labels.begin(), labels.end(), [&](int32_t j) { return j >= 0 && j < part.k; })) return 0;
    driver.restart(0);
    driver.synchronize();
    const double begin = now_seconds();
    driver.step();
    driver.synchronize();
    return now_seconds() - begin;
  }
  /// The reason why the problem takes longer than the session's limit on a CPU; empty where it does not. The time is
  /// extrapolated from single iterations on 32 points and more.
  std::string too_slow() {
    const Acts acts = loaded_.acts;
    if (device_.kind == DeviceKind::cuda || !(acts.has(Act::assign) || acts.has(Act::iterate))) return "";
    const Problem<T>& p = problem();
    const int steps = p.stop.rule == Stop::Rule::fixed ? p.stop.iterations : 20;
    const int iterations = whole() ? 2 * steps + 4 : 6;
    double fewer = 0, fewer_seconds = 0, points = 32, seconds = 0;
    for (int factor = 8;; fewer = points, fewer_seconds = seconds, points *= factor) {
      if (points * (factor == 8 ? 8 : 1) > p.n) return "";
      seconds = pilot(int(points));
      // One measurement does not separate the fixed cost of an iteration from the cost per point: it decides only if
      // the fixed cost alone would be too much.
      const bool measurable = seconds > 0.2;
      if (measurable && (fewer > 0 || seconds * iterations > request_.time_limit)) break;
      factor = measurable && 8 * seconds > request_.time_limit / 4 ? 2 : 8;
    }
    const double iteration = seconds + (seconds - fewer_seconds) / (points - fewer) * (p.n - points);
    const double needed = iteration * iterations;
    if (needed < request_.time_limit) return "";
    return fmt::format(
        "would take about {:.0f} s here (one iteration about {:.3g} s, from iterations on {:.0f} of {} points), the "
        "limit is {:.0f} s: raise --time-limit",
        needed, iteration, points, p.n, request_.time_limit);
  }

  void dump_initial(const T* centroids) {
    const fs::path dir = request_.dump;
    fs::create_directories(dir);
    write_npy((dir / "initial_centroids.npy").string(), centroids, {size_t(problem().k), size_t(problem().d)});
  }
  void dump(const SolveValidator<T>& validator) {
    const fs::path dir = request_.dump;
    const Problem<T>& p = problem();
    dump_initial(p.centroids);
    write_npy((dir / "labels.npy").string(), validator.final_labels().data(), {size_t(p.n)});
    if (const auto& first = validator.first_labels(); !first.empty())
      write_npy((dir / "first_labels.npy").string(), first.data(), {size_t(p.n)});
    if (!p.kernel)
      write_npy((dir / "centroids.npy").string(), validator.final_centroids().data(), {size_t(p.k), size_t(p.d)});
    SessionResult result;
    validator.fill(result);
    std::ofstream out(dir / "inertia.txt.part");
    out.precision(17);
    out << result.validation.inertia << "\n";
    out.close();
    if (!out) throw Error("cannot write " + (dir / "inertia.txt.part").string() + ": is the disk full?");
    fs::rename(dir / "inertia.txt.part", dir / "inertia.txt");
  }

  static constexpr double longest_turn = 5;  // seconds of a solve that may be repeated once more

  const Request& request_;
  const Device& device_;
  const Report& report_;
  MappedProblem<T> mapped_;
  Loaded<T> loaded_;
  Axes axes_;
  const double begin_seconds_ = now_seconds();
};

constexpr double refusal_seconds = 3;  // within which all ranks refuse the same points

template <class T>
void follow(const Request& request, const Device& device, const Card& card, Ranks& ranks) {
  const MappedProblem<T> mapped(request);
  const Axes axes = axes_of(card, request);
  std::optional<DirectDriver<T>> driver;
  std::string refusal;  // of the run that began last
  for (;;) {
    const std::vector<char> told = ranks.listen(refusal.empty() ? 0 : refusal_seconds);
    if (told.empty()) throw Error("refuses the points, and rank 0 does not: " + refusal);
    Step step;
    std::memcpy(&step, told.data(), sizeof step);
    if (step.what == Step::What::end) return;
    if (step.what == Step::What::end_run) driver.reset();
    if (step.what == Step::What::meet && driver) driver->meet(ranks);
    if (step.what == Step::What::begin) {
      refusal.clear();
      Problem<T> problem = mapped.problem;
      problem.n = step.points;
      problem.stop = step.stop;
      try {
        driver.emplace(problem, device, card, axes);
      } catch (const Refusal& why) {  // rank 0 says so, and takes no further step
        refusal = why.what();
      }
    }
    if (step.what == Step::What::phase && driver) {
      std::vector<T> initial((told.size() - sizeof step) / sizeof(T));
      std::memcpy(initial.data(), told.data() + sizeof step, initial.size() * sizeof(T));
      driver->repeat(step, initial.empty() ? nullptr : initial.data());
    }
  }
}

/// Calls one of two functions, that for the request's element type.
template <class F, class D>
auto of_type(const Request& request, F f32, D f64) {
  if (request.type == "f32") return f32();
  if (request.type == "f64") return f64();
  throw Error("element type '" + request.type + "' is unknown: f32 or f64");
}

}  // namespace

bool run_session(const Request& request, const Device& given, const Report& report, Ranks* ranks) {
  const Card& card = *load_card(request.module);
  Device device = given;
  const auto communicator = join_devices(device, ranks);
  const auto here = [&]<class T>(Session<T> session) {
    const Axes axes = axes_of(card, request);
    Loaded<T> loaded{card, acts_of(card.phases<T>())};
    loaded.refuse = [&] { return card.refuse ? card.refuse(session.problem(), device, axes) : ""; };
    loaded.run = [&](const Problem<T>& problem) {
      return std::make_unique<DirectDriver<T>>(problem, device, card, axes, ranks);
    };
    return session.run(std::move(loaded));
  };
  const bool right = of_type(
      request, [&] { return here(Session<float>(request, device, report)); },
      [&] { return here(Session<double>(request, device, report)); });
  const Step end;
  if (ranks) ranks->tell(&end, sizeof end);
  return right;
}

bool judge_session(const Request& request, const Device& device, const Report& report, const std::string& program) {
  const auto there = [&]<class T>(Session<T> session) {
    const Problem<T>& p = session.problem();
    const size_t room = std::max({size_t(p.k) * p.d * sizeof(T), size_t(p.n) * sizeof(int32_t), size_t(p.k) * 4});
    apart::Accused accused(program, request, room);
    Loaded<T> loaded{accused.facts().card, accused.facts().acts};
    loaded.refuse = [&] { return accused.ask_text({.what = apart::What::refuse}); };
    loaded.run = [&](const Problem<T>& problem) {
      return std::make_unique<apart::RemoteDriver<T>>(problem, device, accused, is_peer(request.module));
    };
    const bool right = session.run(std::move(loaded));
    accused.finish();
    return right;
  };
  return of_type(
      request, [&] { return there(Session<float>(request, device, report)); },
      [&] { return there(Session<double>(request, device, report)); });
}

void run_cold_start(const Request& request, double entered, const std::function<Device()>& choose_device,
                    const Report& report) {
  const bool peer = is_peer(request.module);
  ColdParts parts;
  const auto run = [&]<class T>(PageableProblem<T> held) {
    const Problem<T>& problem = held.problem();
    report(event("scope", json{{"scope", "cold_start"}}));
    // A peer computes in a process of its own, which makes a context of its own.
    if (!peer) parts.add("process", entered - request.begun);
    const Device device = peer ? choose_device() : parts.time("context", choose_device);
    const Card& card = *parts.time(peer ? "process" : "module", [&] { return load_card(request.module); });
    const Axes axes = axes_of(card, request);
    const auto refuse = [&] { return card.refuse ? card.refuse(problem, device, axes) : std::string(); };
    if (const std::string why = peer ? parts.time("import", refuse) : refuse(); !why.empty()) throw Refusal(why);
    report(event("timed", cold_run(request, problem, device, card, axes, parts)));
  };
  try {
    of_type(
        request, [&] { run(PageableProblem<float>(request, peer)); },
        [&] { run(PageableProblem<double>(request, peer)); });
  } catch (const Refusal& refusal) {
    report(event("refused", json{{"reason", refusal.what()}}));
  }
}

void follow_session(const Request& request, const Device& given, Ranks& ranks) {
  const Card& card = *load_card(request.module);
  Device device = given;
  const auto communicator = join_devices(device, &ranks);
  of_type(
      request, [&] { follow<float>(request, device, card, ranks); },
      [&] { follow<double>(request, device, card, ranks); });
}

}  // namespace ladder
