// Runs the phases of a variant in this process: the one place that calls them, in the order of the contract.
#pragma once
#include <time.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "worker/device_helpers.hpp"
#include "worker/drive.hpp"
#include "worker/memory_watch.hpp"
#include "worker/ranks.hpp"

namespace ladder {

/// What rank 0 tells the other ranks of a run: each step that it takes, before it takes it. With the initial centroids
/// (k x d) behind it where a phase takes them and `offset` is -1. To meet: what is timed begins when all have done
/// what they were told before, so that no rank waits in it for another one's start.
struct Step {
  enum class What { begin, phase, meet, end_run, end } what = What::end;
  Act act = Act::prepare;
  int points = 0;  ///< of a run that begins: the first so many of the problem
  int offset = 0;  ///< of the initial centroids
  uint64_t seed = 1;
  Stop stop = {};
};

template <class T>
class DirectDriver : public Driver<T> {
 public:
  /// `ranks`: of rank 0 of a run with several, which tells the others each step; null elsewhere. `upload`: now, after
  /// the preparation; else the caller does.
  DirectDriver(const Problem<T>& problem, const Device& device, const Card& card, const Axes& axes,
               Ranks* ranks = nullptr, bool upload = true)
      : Driver<T>(problem, device, card, acts_of(card.phases<T>())),
        phases_(listed(card.phases<T>())),
        ranks_(ranks),
        given_(problem) {
    hand_over();
    label_.resize(problem.n);
    centroids_.resize(size_t(problem.k) * problem.d);
    if (this->host_memory()) {
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
    s_ = card.phases<T>().make(given_, device_);
    s_->stream = stream_;
    s_->axes = axes;
    s_->result = {label_.data(), centroids_.data()};
    if (ranks_) tell({.what = Step::What::begin, .points = problem.n, .stop = problem.stop});
    const double begin = now_seconds();
    do_phase(Act::prepare);
    synchronize();
    prepare_seconds_ = now_seconds() - begin;
    if (!upload) return;
    do_phase(Act::upload);
    synchronize();
    look_at_memory();
  }

  ~DirectDriver() override {
    try {
      if (ranks_) tell({.what = Step::What::end_run});
    } catch (const std::exception&) {  // another rank is gone: the session ends anyway
    }
  }

  /// What the variant holds.
  State<T>& state() { return *s_; }

  // ---------------------------------------------------------------------------------------------------------- phases

  void call(Act act) override {
    if (!this->has(act)) return;
    if (ranks_) tell_phase(act);
    do_phase(act);
  }
  /// Another rank: what rank 0 calls. `initial`: the step's own centroids, where it has some.
  void repeat(const Step& step, const T* initial) {
    problem_.stop = step.stop;
    problem_.seed = step.seed;
    if (takes_start(step.act)) {
      if (initial)
        this->choose_initial({initial, initial + centroids_.size()});
      else
        this->choose_offset(step.offset);
      hand_over();
    }
    if (step.act == Act::restart) {
      s_->reassigned.clear();
      s_->counters.clear();
    }
    do_phase(step.act);
  }
  /// All ranks are here, with nothing left to do.
  void meet(Ranks& ranks) {
    synchronize();
    const char here = 1;
    std::vector<char> all(size_t(ranks.count()));
    ranks.gather(&here, sizeof here, all.data());
  }
  void synchronize() override {
    if (this->host_memory()) return;
    check(cudaStreamSynchronize(stream_), "waiting for the device");
    check(cudaGetLastError(), "running a kernel");
  }
  void forget() override {
    hand_over();
    s_->reassigned.clear();
    s_->counters.clear();
    poison_labels();
    if (this->host_memory())
      std::fill_n(previous_, s_->n, -1);
    else
      device_helpers::poison_labels(previous_, s_->n, stream_);
  }
  int solve() override {
    if (this->has(Act::solve)) {
      call(Act::solve);
      return int(s_->reassigned.size());
    }
    const Stop stop = problem_.stop;
    for (int done = 1;; ++done) {
      this->step();
      // A fixed number of iterations needs no count, and pays for none.
      const int64_t changed = stop.rule == Stop::Rule::fixed ? 0 : count_changed();
      s_->reassigned.push_back(changed);
      if (stop.reached(done, changed, problem_.n)) return done;
    }
  }

  // ---------------------------------------------------------------------------------------------------------- timing

  /// Seconds by the device's clock, or by the host's if `from_host`. A spin kernel runs first, so that all of a sample
  /// is submitted before the first event: otherwise the host's submission would be timed.
  Measured measure(const Sample& sample) override {
    Communicator* const communicator = device_.communicator;
    if (!sample.waited) synchronize();
    if (communicator) communicator->take_ms();  // of the sums before the sample
    if (sample.cold) {
      if (!evict_) evict_ = device_memory(evict_bytes);
      check(cudaMemsetAsync(evict_.get(), ++evictions_ & 0xFF, evict_bytes, stream_), "evicting the L2 cache");
      if (sample.from_host) synchronize();
    }
    if (ranks_) {
      tell({.what = Step::What::meet});
      meet(*ranks_);
    }
    Measured measured;
    const auto work = [&] {
      if (sample.watched.empty()) return void(measured.iterations = work_of(sample));
      const device_helpers::Watched watched(this->card().id, sample.watched);
      measured.iterations = work_of(sample);
      synchronize();
    };
    if (this->host_memory() || sample.from_host) {
      const double cpu = used_seconds(), begin = now_seconds();
      work();
      synchronize();
      measured.seconds = now_seconds() - begin;
      if (sample.careful) measured.cpu_seconds = used_seconds() - cpu;
    } else {
      measure_by_events(sample, work, measured);
    }
    if (communicator) measured.communication_ms = communicator->take_ms();
    return measured;
  }
  double clock_mhz() override {
    if (device_.kind != DeviceKind::cuda || this->host_memory()) return 0;
    unsigned long long out[2] = {};
    if (!clock_) clock_ = device_memory(sizeof out);
    device_helpers::measure_clock(static_cast<unsigned long long*>(clock_.get()), stream_);
    check(cudaMemcpyAsync(out, clock_.get(), sizeof out, cudaMemcpyDeviceToHost, stream_), "reading the clock");
    synchronize();
    return out[1] ? double(out[0]) / double(out[1]) * 1e3 : 0;
  }

  // --------------------------------------------------------------------------------------------------------- outputs

  void poison_labels() override {
    if (!s_->label) return;
    if (this->host_memory())
      std::fill_n(s_->label, s_->n, -1);
    else
      device_helpers::poison_labels(s_->label, s_->n, stream_);
  }
  void poison_result() override {
    synchronize();
    parallel_fill(s_->result.label, size_t(problem_.n), -1);
    parallel_fill(s_->result.centroids, centroids_.size(), std::numeric_limits<T>::quiet_NaN());
  }
  void download() override {
    poison_result();
    call(Act::download);
    synchronize();
  }
  using Driver<T>::labels;
  /// Into a place that was used before: fresh memory costs more than the copy.
  void labels(std::vector<int32_t>& to) override {
    to.resize(problem_.n);
    parallel_copy(s_->result.label, to.size(), to.data());
  }
  std::vector<T> centroids() override { return {s_->result.centroids, s_->result.centroids + centroids_.size()}; }
  /// Where labels and centroids lie in this process.
  Result<T> result() const { return s_->result; }
  std::vector<int32_t> chosen() override {
    if (!s_->chosen) return std::vector<int32_t>(problem_.k, -1);
    std::vector<int32_t> rows(problem_.k);
    if (this->host_memory())
      std::copy_n(s_->chosen, rows.size(), rows.begin());
    else
      check(cudaMemcpy(rows.data(), s_->chosen, rows.size() * sizeof(int32_t), cudaMemcpyDeviceToHost),
            "downloading the drawn rows");
    return rows;
  }
  int64_t count_changed() override {
    if (this->host_memory()) {
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
  bool keeps_count() override { return s_->changed != nullptr; }
  std::vector<int64_t> reassigned() override { return s_->reassigned; }
  std::map<std::string, std::vector<int64_t>> counters() override { return s_->counters; }
#ifndef LADDER_WORKER_CUDA
  std::string remark() override { return simt_unwritten_read(); }
#endif

  // ---------------------------------------------------------------------------------------------------------- memory

  int64_t peak_bytes() override {
    return std::max<int64_t>(memory_ ? memory_->peak() : 0, int64_t(s_->device_bytes()));
  }
  void look_at_memory() override {
    if (memory_) memory_->sample();
  }
  void watch_memory(const std::function<void()>& work) override {
    const auto watching = watch();
    work();
  }
  /// As long as the returned object lives, which may be null.
  std::shared_ptr<void> watch() { return memory_ ? memory_->watch() : nullptr; }

 private:
  using Driver<T>::problem_, Driver<T>::device_, Driver<T>::start_, Driver<T>::prepare_seconds_;

  static bool takes_start(Act act) { return act == Act::prepare || act == Act::upload || act == Act::restart; }
  /// The variant gets the start that was chosen last, whatever it has done to the one before.
  void hand_over() {
    given_centroids_.resize(start_.centroids.size());
    parallel_copy(start_.centroids.data(), given_centroids_.size(), given_centroids_.data());
  }
  void do_phase(Act act) {
    const Phase<T>& phase = *phases_[size_t(act)];
    if (!phase) return;
    given_ = problem_;
    given_.centroids = given_centroids_.data();
    try {
      phase(*s_);
      // Late work of the CPU device talks to the other ranks when something waits for it: no later than they expect.
      if (device_.ranks > 1 && device_.kind == DeviceKind::simt) synchronize();
    } catch (...) {  // else memory would be freed behind work that waits for devices that have failed
      if (device_.communicator) device_.communicator->abort();
      throw;
    }
  }
  void tell(const Step& step, const std::vector<T>& centroids = {}) {
    ranks_->tell(&step, sizeof step, centroids.data(), centroids.size() * sizeof(T));
  }
  void tell_phase(Act act) {
    const bool chosen_start = takes_start(act) && start_.offset < 0;
    tell({.what = Step::What::phase, .act = act, .offset = start_.offset, .seed = problem_.seed, .stop = problem_.stop},
         chosen_start ? start_.centroids : std::vector<T>());
  }
  void clear_drawn() override {
    s_->counters.clear();
    if (!s_->chosen)
      throw Error("the variant has `initialise` but no place for the rows: set State::chosen in prepare");
    if (this->host_memory())
      std::fill_n(s_->chosen, s_->k, -1);
    else
      device_helpers::poison_labels(s_->chosen, s_->k, stream_);
  }
  int work_of(const Sample& sample) {
    int iterations = 0;
    for (int i = 0; i < count_of_acts; ++i) {
      if (!sample.acts.has(Act(i))) continue;
      if (Act(i) == Act::solve)
        iterations = solve();
      else
        call(Act(i));
    }
    return iterations;
  }
  template <class Work>
  void measure_by_events(const Sample& sample, const Work& work, Measured& measured) {
    if (!begin_) begin_ = event();
    if (!end_) end_ = event();
    const auto begin_event = static_cast<cudaEvent_t>(begin_.get()), end_event = static_cast<cudaEvent_t>(end_.get());
    if (sample.spin > 0) device_helpers::keep_busy(sample.spin, stream_);
    check(cudaEventRecord(begin_event, stream_), "recording an event");
    const double begin = now_seconds();
    work();
    check(cudaEventRecord(end_event, stream_), "recording an event");
    measured.submit_seconds = now_seconds() - begin;
    check(cudaEventSynchronize(end_event), "waiting for the work");
    check(cudaGetLastError(), "running a kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_event, end_event), "reading the time");
    measured.seconds = ms * 1e-3;
  }
  static std::shared_ptr<void> event() {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made), "making an event");
    return {made, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); }};
  }
  static std::shared_ptr<void> device_memory(size_t bytes) {
    void* taken = nullptr;
    check(cudaMalloc(&taken, bytes), "taking device memory");
    return {taken, [](void* p) { cudaFree(p); }};
  }
  double used_seconds() override {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
  }

  static constexpr size_t evict_bytes = size_t(256) << 20;  // several times any L2

  const std::array<const Phase<T>*, count_of_acts> phases_;
  Ranks* const ranks_;
  Problem<T> given_;                            // to the variant
  std::vector<T> given_centroids_;              // K x D
  std::vector<int32_t> label_, previous_host_;  // what result points at, where the variant does not say otherwise
  std::vector<T> centroids_;
  cudaStream_t stream_ = nullptr;
  int32_t* previous_ = nullptr;  // labels at the last count; on the device, or previous_host_
  device_helpers::Changed* changed_ = nullptr;
  unsigned long long* changed_now_ = nullptr;  // page-locked: what the stop rule looks at in each iteration
  /// Frees these four after the variant's run has ended, also where the constructor throws.
  struct Release {
    DirectDriver& driver;
    ~Release() {
      if (driver.host_memory()) return;
      cudaFree(driver.previous_);
      cudaFree(driver.changed_);
      cudaFreeHost(driver.changed_now_);
      if (driver.stream_) cudaStreamDestroy(driver.stream_);
    }
  } release_{*this};
  std::shared_ptr<void> clock_, evict_, begin_, end_;  // made when they are needed
  int evictions_ = 0;
  std::optional<MemoryWatch> memory_;
  std::unique_ptr<State<T>> s_;
};

}  // namespace ladder
