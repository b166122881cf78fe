#include "worker/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "protocol/scopes.hpp"
#include "validation/csr.hpp"
#include "validation/reference.hpp"
#include "worker/drive.hpp"
#include "worker/module.hpp"
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

template <class T>
class Session {
 public:
  Session(const Request& request, const Device& device, const Card& card, const Report& report)
      : request_(request), device_(device), card_(card), report_(report), mapped_(request) {
    for (const Axis& axis : card_.axes) axes_.value[axis.name] = axis.standard;
    for (const auto& [name, value] : request_.axes) {
      if (axes_.value.count(name)) axes_.value[name] = value;
    }
  }

  bool run() {
    const Problem<T>& p = problem();
    if (p.sparse()) {
      if (const std::string why = check_csr(p.csr, p.n, p.d, p.nnz, p.points); !why.empty())
        throw Error("the compressed rows are not the points: " + why);
    }
    if (const std::string why = refusal(); !why.empty()) {
      report_(event("refused", json{{"reason", why}}));
      return true;
    }
    doing("prepare and upload");
    Driver<T> driver(problem(), device_, card_, axes_);
    SolveValidator<T> validator(driver, request_, begin_seconds_);
    doing("validation");
    driver.watch_memory([&] { validator.validate(whole()); });
    SessionResult result;
    if (validator.ok() && !request_.dump.empty()) {
      if (!validator.drawn().empty()) dump_initial(validator.drawn().data());
      if (validator.no_solve().empty() && !validator.final_labels().empty()) dump(validator), result.dumped = true;
    }
    if (validator.ok()) {
      Timer<T> timer(driver, validator, request_, begin_seconds_);
      for (const std::string& scope : request_.scopes) {
        const Scope& which = scope_named(scope);
        if (request_.check_only) {
          Timed row;
          row.scope = scope;
          row.reason = timer.refusal(which);
          if (!row.reason.empty()) report_(event("timed", row));
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
    }
    doing("last check");
    if (validator.ok()) validator.check_first_step("of all");
    validator.fill(result);
    result.axes = axes_.value;
    result.prepare_ms = driver.prepare_seconds() * 1e3;
    // On a GPU the first session of a process pays for what the driver keeps for all: in a check they would differ by
    // it.
    if (!device_.host_memory && !(request_.check_only && device_.kind == DeviceKind::cuda))
      result.peak_device_bytes = driver.peak_bytes();
    report_(event("result", result));
    return validator.ok();
  }

 private:
  Problem<T>& problem() { return mapped_.problem; }
  bool wanted(const char* scope) const {
    return std::find(request_.scopes.begin(), request_.scopes.end(), scope) != request_.scopes.end();
  }
  /// Is a whole solve asked for?
  bool whole() const {
    return request_.check_only || !request_.dump.empty() ||
           std::any_of(request_.scopes.begin(), request_.scopes.end(),
                       [](const std::string& scope) { return scope_named(scope).whole; });
  }
  void doing(const std::string& what) { report_(event("scope", json{{"scope", what}})); }

  std::string refusal() {
    const Problem<T>& p = problem();
    if (!card_.phases<T>()) {
      const std::string why = card_.refuse ? card_.refuse(p, device_, axes_) : "";
      return "has no " + request_.type + " form" + (why.empty() ? "" : ": " + why);
    }
    if (std::find(card_.metrics.begin(), card_.metrics.end(), p.metric) == card_.metrics.end())
      return std::string("is not for the metric ") + to_string(p.metric);
    if (card_.implicit != bool(p.kernel)) {
      return card_.implicit ? "solves kernel k-means: the problem has no kernel"
                            : "has centroids in the points' own space: kernel k-means has none";
    }
    try {
      refuse_zero_rows(p);
    } catch (const Error& error) {
      return error.what();
    }
    if (card_.refuse) {
      if (const std::string why = card_.refuse(p, device_, axes_); !why.empty()) return why;
    }
    return too_slow();
  }

  /// Seconds of one iteration on the first `few` points, once everything is warm.
  double pilot(int few) {
    const std::string what = fmt::format("a trial run on the first {} of {} points", few, problem().n);
    doing(what);
    try {
      return try_on(few);
    } catch (const std::exception& error) {
      throw Error(fmt::format("{}; this was in {}", error.what(), what));
    }
  }
  double try_on(int few) {
    Problem<T> part = problem();
    part.n = few;
    Driver<T> driver(part, device_, card_, axes_);
    driver.restart(0);
    driver.assign_or_iterate();
    driver.download();
    // Labels that do not exist are not handed to an update. There is nothing to time then: validation says what is
    // wrong.
    const std::vector<int32_t> labels = driver.labels();
    if (!std::all_of(labels.begin(), labels.end(), [&](int32_t j) { return j >= 0 && j < part.k; })) return 0;
    driver.restart(0);
    driver.synchronize();
    const double begin = now_seconds();
    driver.step();
    driver.synchronize();
    return now_seconds() - begin;
  }
  /// A CPU can be asked for work that takes it days. Iterations on a few points, and on more, tell what all would take,
  /// before anything is begun.
  std::string too_slow() {
    const PhaseTable<T>& phases = card_.phases<T>();
    if (device_.kind == DeviceKind::cuda || !(phases.assign || phases.iterate)) return "";
    const Problem<T>& p = problem();
    const int steps = p.stop.rule == Stop::Rule::fixed ? p.stop.iterations : 20;
    const int iterations = whole() ? 2 * steps + 4 : 6;
    double fewer = 0, fewer_seconds = 0, few = 32, seconds = 0;
    for (int more = 8;; fewer = few, fewer_seconds = seconds, few *= more) {
      if (few * (more == 8 ? 8 : 1) > p.n) return "";  // to double needs no more than the points
      seconds = pilot(int(few));
      // From one measurement alone, what every iteration costs would count as what every point costs: it is enough only
      // where what an iteration costs at least is too much.
      const bool told = seconds > 0.2;
      if (told && (fewer > 0 || seconds * iterations > request_.time_limit)) break;
      more = told && 8 * seconds > request_.time_limit / 4 ? 2 : 8;
    }
    const double iteration = seconds + (seconds - fewer_seconds) / (few - fewer) * (p.n - few);
    const double needed = iteration * iterations;
    if (needed < request_.time_limit) return "";
    return fmt::format(
        "would take about {:.0f} s here (one iteration about {:.3g} s, from iterations on {:.0f} of {} points), the "
        "limit is {:.0f} s: raise --time-limit",
        needed, iteration, few, p.n, request_.time_limit);
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

  const Request& request_;
  const Device& device_;
  const Card& card_;
  const Report& report_;
  MappedProblem<T> mapped_;
  Axes axes_;
  const double begin_seconds_ = now_seconds();
};

}  // namespace

bool run_session(const Request& request, const Device& device, const Report& report) {
  const Card& card = *load_card(request.module);
  if (request.type == "f32") return Session<float>(request, device, card, report).run();
  if (request.type == "f64") return Session<double>(request, device, card, report).run();
  throw Error("element type '" + request.type + "' is unknown: f32 or f64");
}

}  // namespace ladder
