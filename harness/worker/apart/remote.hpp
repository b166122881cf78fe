// Runs the phases of a variant in another process (accused.hpp). This one holds the problem, the starts, the stop rule
// and the clock, and takes results from the other's memory while it is stopped.
//
// Which clock tells a sample's time, where the accused's own could be forged:
// - host code: this process's clock, from the question to the answer. To ask and to be told takes microseconds, and
// more
//   where this process had to be woken; so that a sample does not pay for it, the accused's own time counts where it is
//   shorter by less than a tenth or six microseconds.
// - a GPU between two events: the events' time, which no other process can read. It must lie within this process's time
//   of the same sample, and in_batches() holds the events of many samples against this clock.
#pragma once
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "worker/apart/accused.hpp"
#include "worker/drive.hpp"

namespace ladder::apart {

template <class T>
class RemoteDriver : public Driver<T> {
 public:
  /// `peer`: the variant is a library's, which runs in a process that the accused starts.
  RemoteDriver(const Problem<T>& problem, const Device& device, Accused& accused, bool peer)
      : Driver<T>(problem, device, accused.facts().card, accused.facts().acts), accused_(accused), peer_(peer) {
    send_start();
    Question question = about(What::begin);
    question.value = problem.n;
    question.upload = true;
    prepare_seconds_ = ask(question).seconds;
  }
  ~RemoteDriver() override {
    try {
      ask(about(What::end_run));
    } catch (const std::exception&) {  // it cannot go on: its process ends soon
    }
  }

  void call(Act act) override {
    if (!this->has(act)) return;
    Question question = about(What::act);
    question.value = int64_t(act);
    ask(question);
  }
  void synchronize() override { ask(about(What::synchronize)); }
  void forget() override {
    send_start();
    ask(about(What::forget));
  }
  int solve() override { return int(ask(about(What::solve)).value); }

  bool is_apart() const override { return true; }
  Measured measure(const Sample& sample) override {
    Question question = about(What::measure);
    question.acts = sample.acts.bits;
    question.from_host = sample.from_host;
    question.cold = sample.cold;
    question.spin = sample.spin;
    const bool host = device_.kind != DeviceKind::cuda;
    question.waited = !sample.careful;
    if (question.waited) ask(about(What::synchronize));  // it is awake, and watches for the next question
    const double cpu = sample.careful ? used_seconds() : 0;
    const double begin = now_seconds();
    accused_.put(question);
    const Answer& answer = accused_.take(host || std::thread::hardware_concurrency() < 4 ? host_watch : device_watch);
    const double mine = now_seconds() - begin;
    Measured measured;
    measured.seconds = answer.seconds;
    measured.submit_seconds = answer.submit_seconds;
    measured.iterations = int(answer.value);
    note(answer);
    if (host || this->host_memory() || sample.from_host) {
      const double less = mine - answer.seconds;
      if (!(less >= 0 && less <= std::max(believed_share * mine, believed_seconds))) measured.seconds = mine;
    } else if (!(answer.seconds >= 0 && answer.seconds <= mine)) {
      measured.doubt = "two events told more time than passed while they were recorded";
    }
    const double answered = now_seconds();
    ask(about(What::synchronize));
    measured.settle_seconds = now_seconds() - answered;
    if (sample.careful) measured.cpu_seconds = used_seconds() - cpu;
    return measured;
  }
  double clock_mhz() override {
    return device_.kind == DeviceKind::cuda && !this->host_memory() ? ask(about(What::clock)).seconds : 0;
  }

  std::string restless() override {
    if (!peer_ && accused_.has_company()) return "the variant has started another process";
    if (device_.kind == DeviceKind::cuda) return "";
    return becomes_quiet() ? "" : "threads of the variant went on working while nothing was asked of it";
  }

  void poison_labels() override { ask(about(What::poison_labels)); }
  void poison_result() override { ask(about(What::poison_result)); }
  void download() override { ask(about(What::download)); }
  using Driver<T>::labels;
  void labels(std::vector<int32_t>& to) override {
    to.resize(problem_.n);
    take_over(label_at_, 0, to.data(), to.size() * sizeof(int32_t));
  }
  std::vector<T> centroids() override {
    std::vector<T> all(size_t(problem_.k) * problem_.d);
    take_over(centroids_at_, 1, all.data(), all.size() * sizeof(T));
    return all;
  }
  std::vector<int32_t> chosen() override {
    std::vector<int32_t> rows(problem_.k);
    const uint64_t at = ask(about(What::chosen)).chosen;
    take_over(at, 2, rows.data(), rows.size() * sizeof(int32_t));
    return rows;
  }
  int64_t count_changed() override { return ask(about(What::count)).value; }
  bool keeps_count() override { return keeps_count_; }
  std::vector<int64_t> reassigned() override { return told().at("reassigned").template get<std::vector<int64_t>>(); }
  std::map<std::string, std::vector<int64_t>> counters() override {
    return told().at("counters").template get<std::map<std::string, std::vector<int64_t>>>();
  }

  std::string remark() override {
    const nlohmann::json all = told();
    const auto found = all.find("remark");
    return found != all.end() && found->is_string() ? found->template get<std::string>().substr(0, 300) : "";
  }

  int64_t peak_bytes() override { return ask(about(What::peak)).value; }
  void look_at_memory() override { ask(about(What::sample_memory)); }
  void watch_memory(const std::function<void()>& work) override {
    ask(about(What::watch));
    work();
    ask(about(What::unwatch));
  }

 private:
  using Driver<T>::problem_, Driver<T>::device_, Driver<T>::start_, Driver<T>::starts_, Driver<T>::prepare_seconds_;

  Question about(What what) const {
    Question question{.what = what};
    question.start = sent_;
    question.seed = problem_.seed;
    question.stop = problem_.stop;
    return question;
  }
  const Answer& ask(const Question& question) {
    const Answer& answer = accused_.ask(question, host_watch);
    note(answer);
    return answer;
  }
  /// Threads of a library watch for more work for some time after the last. False: some thread goes on working.
  bool becomes_quiet() {
    const double begin = now_seconds();
    for (int quiet = 0, busy = 0; quiet < looks;) {
      std::this_thread::sleep_for(std::chrono::microseconds(200 + any_() % 800));
      if (!accused_.is_at_work(peer_))
        ++quiet;
      else if (++busy, now_seconds() - begin > patience && busy > quiet)
        return false;
    }
    return true;
  }
  /// The CPU time of the accused so far, which the system tells of sleeping threads alone without delay. What they
  /// still did after the answer is in it.
  double used_seconds() override {
    becomes_quiet();
    return accused_.cpu_seconds(peer_);
  }
  /// Where results lie may change from phase to phase.
  void note(const Answer& answer) {
    label_at_ = answer.label;
    centroids_at_ = answer.centroids;
    if (answer.keeps_count >= 0) keeps_count_ = answer.keeps_count > 0;
  }
  void send_start() {
    if (sent_ == starts_) return;
    sent_ = starts_;
    parallel_copy(start_.centroids.data(), start_.centroids.size(), reinterpret_cast<T*>(accused_.room()));
  }
  void take_over(uint64_t from, int which, void* to, size_t bytes) {
    if (accused_.read(from, to, bytes)) return;
    Question question = about(What::publish);
    question.value = which;
    ask(question);
    std::memcpy(to, accused_.room(), bytes);
  }
  nlohmann::json told() {
    const nlohmann::json all = nlohmann::json::parse(accused_.ask_text(about(What::told)), nullptr, false);
    if (!all.is_object() || !all.contains("reassigned") || !all.contains("counters"))
      throw Error("the variant's process told counts that are none");
    return all;
  }
  void clear_drawn() override { ask(about(What::clear_drawn)); }

  static constexpr double host_watch = 50e-6;  // of a core that a variant might use
  static constexpr double device_watch = 1;    // on a GPU the cores are idle
  static constexpr int looks = 3;              // that see no thread at work
  static constexpr double patience = 0.5;      // for threads that watch for more work
  static constexpr double believed_share = 0.1, believed_seconds = 6e-6;

  Accused& accused_;
  std::random_device any_;
  const bool peer_;
  uint64_t sent_ = 0;  // number of the start that the accused has
  uint64_t label_at_ = 0, centroids_at_ = 0;
  bool keeps_count_ = false;
};

}  // namespace ladder::apart
