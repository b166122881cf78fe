// Drives the phases of a variant: the one place that calls them, in the order of the contract.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "base/parallel.hpp"
#include "contract/contract.hpp"
#include "protocol/request.hpp"
#include "worker/device_helpers.hpp"
#include "worker/memory_watch.hpp"
#include "worker/ranks.hpp"

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

/// What rank 0 tells the other ranks of a run: each step that it takes, before it takes it. With the initial centroids
/// (k x d) behind it where `offset` is -1.
struct Step {
  enum class What { begin, phase, end_run, end } what = What::end;
  int phase = 0;   ///< its place in Driver's list
  int points = 0;  ///< of a run that begins: the first so many of the problem
  int offset = 0;  ///< of the initial centroids
  uint64_t seed = 1;
  Stop stop = {};
};

/// One run of a variant on a problem. All memory goes with it.
///
/// A variant never meets the same initial centroids twice in a timed sample: they are kept twice, one copy behind the
/// other, and a start at `offset` begins that many rows further. The same centroids under other numbers are the same
/// work, but labels that were only kept from before are wrong.
template <class T>
class Driver {
 public:
  /// `ranks`: of rank 0 of a run with several, which tells the others each step; null elsewhere. `upload`: now, after
  /// the preparation; else the caller does.
  Driver(const Problem<T>& problem, const Device& device, const Card& card, const Axes& axes, Ranks* ranks = nullptr,
         bool upload = true)
      : problem_(problem), device_(device), card_(card), phases_(card.phases<T>()), ranks_(ranks) {
    const size_t size = size_t(problem.k) * problem.d;
    centroids_twice_.reserve(2 * size);
    for (int copy = 0; copy < 2; ++copy)
      centroids_twice_.insert(centroids_twice_.end(), problem.centroids, problem.centroids + size);
    problem_.centroids = centroids_twice_.data();
    label_.resize(problem.n);
    centroids_.resize(size);
    if (host_memory()) {
      previous_host_.resize(problem.n);
      previous_ = previous_host_.data();
    } else {
      check(cudaStreamCreate(&stream_), "making a stream");
      check(cudaMalloc(reinterpret_cast<void**>(&previous_), problem.n * sizeof(int32_t)), "taking device memory");
      check(cudaMalloc(reinterpret_cast<void**>(&changed_), sizeof *changed_), "taking device memory");
      check(cudaMemsetAsync(changed_, 0, sizeof *changed_, stream_), "clearing device memory");
      check(cudaMallocHost(reinterpret_cast<void**>(&changed_now_), sizeof *changed_now_), "page-locking a word");
      memory_.emplace();
    }
    s_ = phases_.make(problem_, device_);
    s_->stream = stream_;
    s_->axes = axes;
    s_->result = {label_.data(), centroids_.data()};
    if (ranks_) tell({.what = Step::What::begin, .points = problem_.n, .stop = problem_.stop});
    const double begin = now_seconds();
    do_phase(phases_.prepare);
    synchronize();
    prepare_seconds_ = now_seconds() - begin;
    if (!upload) return;
    do_phase(phases_.upload);
    synchronize();
    look_at_memory();
  }

  ~Driver() {
    try {
      if (ranks_) tell({.what = Step::What::end_run});
    } catch (const std::exception&) {  // another rank is gone: the session ends anyway
    }
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const Problem<T>& problem() const { return problem_; }
  State<T>& state() { return *s_; }
  const Card& card() const { return card_; }
  const PhaseTable<T>& phases() const { return phases_; }
  const Device& device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  bool host_memory() const { return device_.host_memory; }
  /// Does the harness keep the loop, so that each iteration can be looked at?
  bool step_by_step() const { return phases_.iterate || phases_.assign; }
  double prepare_seconds() const { return prepare_seconds_; }

  // -------------------------------------------------------------------------------------------------------- memory

  /// The most device memory that was in use at once, in bytes: the variant's own and that of the libraries it calls.
  int64_t peak_bytes() const { return std::max<int64_t>(memory_ ? memory_->peak() : 0, int64_t(s_->device_bytes())); }
  void look_at_memory() {
    if (memory_) memory_->sample();
  }
  /// Watched in the background while `work` runs: what a phase takes and gives back is seen too.
  template <class F>
  void watch_memory(F work) {
    if (!memory_) return work();
    const auto watching = memory_->watch();
    work();
  }

  // ------------------------------------------------------------------------------------------------------- one phase

  /// `phase`: one of phases().
  void call(const Phase<T>& phase) {
    if (!phase) return;
    if (ranks_) tell_phase(phase);
    do_phase(phase);
  }
  /// Another rank: what rank 0 calls. `initial`: the step's own centroids, where it has some.
  void repeat(const Step& step, const T* initial) {
    problem_.stop = step.stop;
    problem_.seed = step.seed;
    if (initial)
      choose_initial({initial, initial + size_t(problem_.k) * problem_.d});
    else
      choose_offset(step.offset);
    const Phase<T>& phase = *list()[size_t(step.phase)];
    if (&phase == &phases_.restart) {
      s_->reassigned.clear();
      s_->counters.clear();
    }
    do_phase(phase);
  }
  void synchronize() {
    if (host_memory()) return;
    check(cudaStreamSynchronize(stream_), "waiting for the device");
    check(cudaGetLastError(), "running a kernel");
  }
  void assign_or_iterate() { call(phases_.iterate ? phases_.iterate : phases_.assign); }
  void step() {
    assign_or_iterate();
    if (!phases_.iterate) call(phases_.update);
  }

  // --------------------------------------------------------------------------------------------------------- outputs

  void poison_labels() {
    if (!s_->label) return;
    if (host_memory())
      std::fill_n(s_->label, s_->n, -1);
    else
      device_helpers::poison_labels(s_->label, s_->n, stream_);
  }
  void poison_result() {
    synchronize();
    parallel_fill(s_->result.label, size_t(s_->n), -1);
    parallel_fill(s_->result.centroids, size_t(s_->k) * s_->d, std::numeric_limits<T>::quiet_NaN());
  }
  /// Labels and centroids as they are now, through the variant's own download, on a poisoned result.
  void download() {
    poison_result();
    call(phases_.download);
    synchronize();
  }
  std::vector<int32_t> labels() const { return {s_->result.label, s_->result.label + s_->n}; }
  /// The same into a place that was used before: fresh memory costs more than the copy.
  void labels(std::vector<int32_t>& to) const {
    to.resize(s_->n);
    parallel_copy(s_->result.label, to.size(), to.data());
  }
  /// The rows that `initialise` drew.
  std::vector<int32_t> chosen() const {
    std::vector<int32_t> rows(s_->k);
    if (host_memory())
      std::copy_n(s_->chosen, s_->k, rows.begin());
    else
      check(cudaMemcpy(rows.data(), s_->chosen, rows.size() * sizeof(int32_t), cudaMemcpyDeviceToHost),
            "downloading the drawn rows");
    return rows;
  }
  std::vector<T> centroids() const { return {s_->result.centroids, s_->result.centroids + size_t(s_->k) * s_->d}; }

  // ---------------------------------------------------------------------------------------------------------- solves

  /// The initial centroids of a start at `offset`, K x D: row j is the problem's row (j + offset) mod K.
  std::vector<T> initial(int offset) const {
    const T* first = centroids_twice_.data() + size_t(offset) * problem_.d;
    return {first, first + size_t(problem_.k) * problem_.d};
  }
  void choose_offset(int offset) { problem_.centroids = centroids_twice_.data() + size_t(offset) * problem_.d; }
  int offset() const { return int((problem_.centroids - centroids_twice_.data()) / std::max(1, problem_.d)); }
  /// Initial centroids of the caller's own, k x d, until the next offset is chosen.
  void choose_initial(const std::vector<T>& centroids) {
    own_initial_ = centroids;
    problem_.centroids = own_initial_.data();
  }
  /// Where a draw with `seed` begins.
  void ready_to_draw(uint64_t seed) {
    problem_.seed = seed;
    s_->counters.clear();
    if (!s_->chosen)
      throw Error("the variant has `initialise` but no place for the rows: set State::chosen in prepare");
    if (host_memory())
      std::fill_n(s_->chosen, s_->k, -1);
    else
      device_helpers::poison_labels(s_->chosen, s_->k, stream_);
  }
  void initialise(uint64_t seed) {
    ready_to_draw(seed);
    call(phases_.initialise);
    synchronize();
  }

  /// What earlier iterations left is gone: labels, counts, and what the variant itself keeps (by its own restart).
  void forget() {
    s_->reassigned.clear();
    s_->counters.clear();
    poison_labels();
    if (host_memory())
      std::fill_n(previous_, s_->n, -1);
    else
      device_helpers::poison_labels(previous_, s_->n, stream_);
  }
  /// Back to where a solve begins.
  void restart(int at_offset) {
    choose_offset(at_offset);
    restart();
  }
  /// The same with the initial centroids chosen last.
  void restart() {
    forget();
    call(phases_.restart);
  }
  /// Labels that changed since the last count. The variant's own count, where it keeps one.
  int64_t count_changed() {
    if (host_memory()) {
      int64_t changed = 0;
      for (int i = 0; i < s_->n; ++i) {
        changed += s_->label[i] != previous_[i];
        previous_[i] = s_->label[i];
      }
      return changed;
    }
    const unsigned long long* count = s_->changed;
    if (!count) {
      device_helpers::count_changed(s_->label, previous_, s_->n, changed_, stream_);
      count = &changed_->result;
    }
    check(cudaMemcpyAsync(changed_now_, count, sizeof *changed_now_, cudaMemcpyDeviceToHost, stream_),
          "downloading the count of changed labels");
    check(cudaStreamSynchronize(stream_), "counting changed labels");
    return int64_t(*changed_now_);
  }
  /// From where the last restart left off until the stop rule holds; the iterations it took. `around(step)` is called
  /// in the place of each step of a solve that the harness keeps the loop of.
  template <class Around>
  int solve(Around around) {
    if (phases_.solve) {
      call(phases_.solve);
      return int(s_->reassigned.size());
    }
    const Stop& stop = problem_.stop;
    for (int done = 1;; ++done) {
      around([&] { step(); });
      // A fixed number of iterations needs no count, and pays for none.
      const int64_t changed = stop.rule == Stop::Rule::fixed ? 0 : count_changed();
      s_->reassigned.push_back(changed);
      if (stop.reached(done, changed, s_->n)) return done;
    }
  }
  int solve() {
    return solve([](auto step) { step(); });
  }
  /// A solve of exactly that many iterations, from the centroids chosen last; leaves its results downloaded.
  void solve_exactly(int iterations) {
    const Stop stop = problem_.stop;
    problem_.stop = {.rule = Stop::Rule::fixed, .iterations = iterations, .max_iterations = iterations};
    restart();
    solve();
    problem_.stop = stop;
    download();
  }
  /// The stop rule of this run, in the place of the problem's.
  void choose_stop(const Stop& stop) { problem_.stop = stop; }

 private:
  void do_phase(const Phase<T>& phase) {
    if (!phase) return;
    try {
      phase(*s_);
      // Late work of the CPU device talks to the other ranks when something waits for it: no later than they expect.
      if (device_.ranks > 1 && device_.kind == DeviceKind::simt) synchronize();
    } catch (...) {  // else memory would be freed behind work that waits for devices that have failed
      if (device_.communicator) device_.communicator->abort();
      throw;
    }
  }
  /// All phases, in an order that is the same in every rank.
  std::array<const Phase<T>*, 9> list() const {
    const PhaseTable<T>& p = phases_;
    return {&p.prepare, &p.upload, &p.restart, &p.initialise, &p.assign, &p.update, &p.iterate, &p.solve, &p.download};
  }
  void tell(const Step& step, const std::vector<T>& centroids = {}) {
    ranks_->tell(&step, sizeof step, centroids.data(), centroids.size() * sizeof(T));
  }
  void tell_phase(const Phase<T>& phase) {
    const auto phases = list();
    Step step{.what = Step::What::phase, .offset = -1, .seed = problem_.seed, .stop = problem_.stop};
    step.phase = int(std::find(phases.begin(), phases.end(), &phase) - phases.begin());
    const bool chosen = problem_.centroids == own_initial_.data();
    if (!chosen) step.offset = offset();
    tell(step, chosen ? own_initial_ : std::vector<T>());
  }

  Problem<T> problem_;
  const Device& device_;
  const Card& card_;
  const PhaseTable<T>& phases_;
  Ranks* const ranks_;
  std::vector<T> centroids_twice_;              // 2 K x D
  std::vector<T> own_initial_;                  // K x D, where the caller chose them
  std::vector<int32_t> label_, previous_host_;  // what result points at, where the variant does not say otherwise
  std::vector<T> centroids_;
  cudaStream_t stream_ = nullptr;
  int32_t* previous_ = nullptr;  // labels at the last count; on the device, or previous_host_
  device_helpers::Changed* changed_ = nullptr;
  unsigned long long* changed_now_ = nullptr;  // page-locked: what the stop rule looks at in each iteration
  /// Frees these four after the variant's run has ended, also where the constructor throws.
  struct Release {
    Driver& driver;
    ~Release() {
      if (driver.host_memory()) return;
      cudaFree(driver.previous_);
      cudaFree(driver.changed_);
      cudaFreeHost(driver.changed_now_);
      if (driver.stream_) cudaStreamDestroy(driver.stream_);
    }
  } release_{*this};
  std::optional<MemoryWatch> memory_;
  std::unique_ptr<State<T>> s_;
  double prepare_seconds_ = 0;
};

}  // namespace ladder
