// What a judge does with one run of a variant: it chooses where a solve starts, asks for phases, times them and takes
// their results. apart/direct.hpp runs the phases in this process, apart/remote.hpp in another one, the *accused*.
//
// The problem, the initial centroids and the stop rule are the judge's own: a variant gets copies, anew before each
// phase, so that one that writes to them changes nothing here.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "contract/contract.hpp"
#include "protocol/request.hpp"

namespace ladder {

/// A problem whose parts are mapped files.
template <class T>
struct MappedProblem {
  NpyFile points, centroids;
  std::optional<NpyFile> row_begin, column, value;
  Problem<T> problem;

  explicit MappedProblem(const Request& r) : points(r.points), centroids(r.centroids) {
    problem.n = int(points.rows());
    problem.d = int(points.columns());
    problem.k = int(centroids.rows());
    problem.element_bytes = sizeof(T);
    problem.metric = r.metric;
    problem.kernel = r.kernel;
    problem.stop = r.stop;
    problem.seed = r.seed;
    problem.points = points.template data<T>();
    problem.centroids = centroids.template data<T>();
    if (r.csr.empty()) return;
    row_begin.emplace(r.csr + ".row_begin.npy");
    column.emplace(r.csr + ".column.npy");
    value.emplace(r.csr + ".value.npy");
    problem.nnz = int64_t(column->size());
    problem.csr = {row_begin->template data<int64_t>(), column->template data<int32_t>(), value->template data<T>()};
  }
};

/// The phases of the contract, in the order of their calls within a run.
enum class Act : uint8_t { prepare, upload, restart, initialise, assign, update, iterate, solve, download };
constexpr int count_of_acts = 9;

/// A set of phases.
struct Acts {
  unsigned bits = 0;
  constexpr bool has(Act act) const { return bits >> unsigned(act) & 1; }
  constexpr Acts with(Act act, bool wanted = true) const { return {wanted ? bits | 1u << unsigned(act) : bits}; }
};

/// All phases of a table, in the order of Act.
template <class T>
std::array<const Phase<T>*, count_of_acts> listed(const PhaseTable<T>& p) {
  return {&p.prepare, &p.upload, &p.restart, &p.initialise, &p.assign, &p.update, &p.iterate, &p.solve, &p.download};
}
template <class T>
Acts acts_of(const PhaseTable<T>& phases) {
  Acts acts;
  const auto all = listed(phases);
  for (int i = 0; i < count_of_acts; ++i) acts = acts.with(Act(i), bool(*all[size_t(i)]));
  return acts;
}

/// What a timed sample consists of: phases in the order of Act, where `solve` is a whole solve, by the variant's loop
/// or the harness's.
struct Sample {
  Acts acts = {};
  bool from_host = false;    ///< timed by the host's clock on a GPU, too
  bool cold = false;         ///< the L2 cache is evicted first
  double spin = 0;           ///< seconds that the device is kept busy, so that all is submitted before the first event
  bool careful = false;      ///< what host code uses of the CPU counts, and its time need not be exact
  bool waited = false;       ///< all that was submitted before has ended
  std::string watched = {};  ///< the scope's name, where a profiler looks; else empty
};
struct Measured {
  double seconds = 0;
  double submit_seconds = 0;    ///< of a sample timed on a GPU: until all of it was submitted
  double cpu_seconds = 0;       ///< of a careful sample of host code: what all threads used; else 0
  double communication_ms = 0;  ///< in sums over several GPUs
  double settle_seconds = 0;    ///< after the answer, until the variant's process answered again
  int iterations = 0;           ///< of a whole solve
  std::string doubt;            ///< why the time is not believed, in a sentence; empty: it is
};

/// Where a solve starts: k x d centroids, and of those that are the problem's under other numbers, which (else -1).
template <class T>
struct Start {
  std::vector<T> centroids;
  int offset = 0;
};

/// One run of a variant on a problem. All memory goes with it.
template <class T>
class Driver {
 public:
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const Problem<T>& problem() const { return problem_; }
  const Card& card() const { return card_; }
  const Device& device() const { return device_; }
  bool has(Act act) const { return acts_.has(act); }
  bool host_memory() const { return device_.host_memory; }
  /// Does the harness keep the loop, so that each iteration can be looked at?
  bool step_by_step() const { return has(Act::iterate) || has(Act::assign); }
  double prepare_seconds() const { return prepare_seconds_; }

  // ---------------------------------------------------------------------------------------------------------- starts

  /// The problem's centroids under other numbers: row j is its row (j + offset) mod K.
  std::vector<T> numbered(int offset) const {
    const size_t size = size_t(problem_.k) * problem_.d, from = size_t(offset) * problem_.d;
    std::vector<T> centroids(problem_.centroids + from, problem_.centroids + size);
    centroids.insert(centroids.end(), problem_.centroids, problem_.centroids + from);
    return centroids;
  }
  const Start<T>& start() const { return start_; }
  /// The centroids of the start that was chosen last.
  const std::vector<T>& initial() const { return start_.centroids; }
  int offset() const { return start_.offset; }
  void choose(Start<T> start) { start_ = std::move(start), ++starts_; }
  void choose_offset(int offset) {
    if (offset != start_.offset) choose({numbered(offset), offset});
  }
  /// Initial centroids of the caller's own, k x d.
  void choose_initial(std::vector<T> centroids) { choose({std::move(centroids), -1}); }

  // ---------------------------------------------------------------------------------------------------------- phases

  /// Calls a phase, where the variant has it.
  virtual void call(Act act) = 0;
  virtual void synchronize() = 0;
  void assign_or_iterate() { call(has(Act::iterate) ? Act::iterate : Act::assign); }
  void step() {
    assign_or_iterate();
    if (!has(Act::iterate)) call(Act::update);
  }
  /// What earlier iterations left is gone: labels, counts, and what the variant keeps (by its own restart). The next
  /// phases get the start that was chosen last.
  virtual void forget() = 0;
  /// Back to where a solve begins: the start that was chosen last, or this one.
  void restart() {
    forget();
    call(Act::restart);
  }
  void restart(int at_offset) {
    choose_offset(at_offset);
    restart();
  }
  /// Where a draw with `seed` begins.
  void ready_to_draw(uint64_t seed) {
    problem_.seed = seed;
    clear_drawn();
  }
  void choose_seed(uint64_t seed) { problem_.seed = seed; }
  void initialise(uint64_t seed) {
    ready_to_draw(seed);
    call(Act::initialise);
    synchronize();
  }
  /// From where the last restart left off until the stop rule holds; the iterations it took.
  virtual int solve() = 0;
  /// A solve of exactly that many iterations, from the start chosen last; leaves its results downloaded.
  void solve_exactly(int iterations) {
    const Stop stop = std::exchange(problem_.stop, exactly(iterations));
    try {
      restart();
      solve();
    } catch (...) {
      problem_.stop = stop;
      throw;
    }
    problem_.stop = stop;
    download();
  }
  static Stop exactly(int iterations) {
    return {.rule = Stop::Rule::fixed, .iterations = iterations, .max_iterations = iterations};
  }
  /// The stop rule of what follows, in the place of the problem's; returns the one before.
  Stop choose_stop(const Stop& stop) { return std::exchange(problem_.stop, stop); }

  // ---------------------------------------------------------------------------------------------------------- timing

  /// Is the variant in another process?
  virtual bool is_apart() const { return false; }
  /// Runs a sample and times it.
  virtual Measured measure(const Sample& sample) = 0;
  /// Current SM clock in MHz; 0 on devices without one.
  virtual double clock_mhz() { return 0; }
  /// Seconds that a download takes now: of the CPU for host code, else by this process's clock.
  double cost_of_download() {
    synchronize();
    const bool host = device_.kind != DeviceKind::cuda;
    const double begin = host ? used_seconds() : now_seconds();
    download();
    return (host ? used_seconds() : now_seconds()) - begin;
  }
  /// Why this run is not believed, whatever it answers: something that no honest variant does between samples. Empty:
  /// nothing was seen.
  virtual std::string restless() { return ""; }

  // --------------------------------------------------------------------------------------------------------- outputs

  virtual void poison_labels() = 0;
  virtual void poison_result() = 0;
  /// Labels and centroids as they are now, through the variant's own download, on a poisoned result.
  virtual void download() = 0;
  /// What the last download left, taken over from the variant's memory now.
  virtual void labels(std::vector<int32_t>& to) = 0;
  std::vector<int32_t> labels() {
    std::vector<int32_t> all;
    labels(all);
    return all;
  }
  virtual std::vector<T> centroids() = 0;
  /// The rows that `initialise` drew.
  virtual std::vector<int32_t> chosen() = 0;
  /// Labels that changed since the last count. The variant's own count, where it keeps one.
  virtual int64_t count_changed() = 0;
  virtual bool keeps_count() = 0;
  /// Of the last solve or steps: labels that changed, per iteration, and what the variant counted.
  virtual std::vector<int64_t> reassigned() = 0;
  virtual std::map<std::string, std::vector<int64_t>> counters() = 0;
  /// What the CPU device noticed that may explain wrong results, in a sentence; empty: nothing.
  virtual std::string remark() { return ""; }

  // ---------------------------------------------------------------------------------------------------------- memory

  /// The most device memory that was in use at once, in bytes: the variant's own and that of the libraries it calls.
  virtual int64_t peak_bytes() = 0;
  virtual void look_at_memory() {}
  /// Watched in the background while `work` runs: what a phase takes and gives back is seen too.
  virtual void watch_memory(const std::function<void()>& work) { work(); }

 protected:
  Driver(const Problem<T>& problem, const Device& device, const Card& card, Acts acts)
      : problem_(problem), device_(device), card_(card), acts_(acts), start_{numbered(0), 0} {}
  /// CPU time that all threads of the variant's process have used.
  virtual double used_seconds() = 0;
  /// The drawn rows become invalid.
  virtual void clear_drawn() = 0;

  Problem<T> problem_;
  const Device& device_;
  const Card& card_;
  const Acts acts_;
  Start<T> start_;
  uint64_t starts_ = 1;  // chosen so far
  double prepare_seconds_ = 0;
};

}  // namespace ladder
