#include "worker/session.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "base/statistics.hpp"
#include "judge/reference.hpp"
#include "judge/validate.hpp"
#include "worker/module.hpp"
#include "worker/sampler.hpp"
#include "worker/stock.hpp"

namespace ladder {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint64_t sample_seed = 20161126;  // of the rows that stand for all where a problem is large
constexpr int clock_retries = 20;           // samples thrown away for a low clock before a row is unstable
constexpr double clock_floor = 0.75;        // of the GPU's default clock
constexpr double solve_share = 0.4;         // of the session's time that a first solve may take

/// What validation found; the first fault in words.
struct Findings {
  int64_t rows_checked = 0, labels_wrong = 0, ties = 0;
  int steps_checked = 0;
  double worst_regret = 0, centroid_error = 0, inertia = 0;
  std::string fault;

  void add(const LabelReport& check, const std::string& where) {
    rows_checked += check.rows_checked;
    labels_wrong += check.labels_wrong;
    ties += check.ties;
    worst_regret = std::max(worst_regret, check.worst_regret);
    if (check.labels_wrong > 0 && fault.empty()) {
      fault = std::to_string(check.labels_wrong) + " of " + std::to_string(check.rows_checked) +
              " checked labels are wrong " + where + ": " + check.first;
    }
    ++steps_checked;
  }
  void add(const CentroidReport& check, const std::string& where) {
    centroid_error = std::max(centroid_error, check.worst_error);
    if (!check.ok() && fault.empty()) fault = "a centroid is wrong " + where + ": " + check.first;
  }
};

/// A problem whose parts are mapped files.
template <class T>
struct MappedProblem {
  NpyFile points, centroids;
  Problem<T> problem;
  explicit MappedProblem(const Request& r) : points(r.points), centroids(r.centroids) {
    problem.n = int(points.rows());
    problem.d = int(points.columns());
    problem.k = int(centroids.rows());
    problem.element_bytes = sizeof(T);
    problem.stop = r.stop;
    problem.points = points.template data<T>();
    problem.centroids = centroids.template data<T>();
  }
};

template <class T>
class Session {
 public:
  Session(const Request& request, const Device& device, const Card& card, const Report& report)
      : request_(request), device_(device), card_(card), phases_(card.phases<T>()), report_(report), mapped_(request) {}

  void run() {
    if (!phases_) return refuse("has no " + request_.type + " form");
    if (card_.refuse) {
      const std::string why = card_.refuse(problem(), device_, chosen_axes());
      if (!why.empty()) return refuse(why);
    }
    if (const std::string why = too_slow(); !why.empty()) return refuse(why);
    solve_seconds_ = 0;
    start();
    validate();
    if (validation_.fault.empty()) {
      for (const std::string& scope : request_.scopes) time_scope(scope);
      validate_again();
    }
    report_result();
  }

  ~Session() {
    s_.reset();
    for (const cudaEvent_t event : {begin_, end_}) {
      if (event) cudaEventDestroy(event);
    }
    if (!on_cpu()) cudaFree(previous_);
    for (void* const memory : {static_cast<void*>(changed_), static_cast<void*>(clock_), evict_}) cudaFree(memory);
  }

 private:
  Problem<T>& problem() { return mapped_.problem; }
  bool on_cpu() const { return device_.kind == DeviceKind::cpu; }
  bool wanted(const char* scope) const {
    return std::find(request_.scopes.begin(), request_.scopes.end(), scope) != request_.scopes.end();
  }
  void refuse(const std::string& why) { report_({{"event", "refused"}, {"reason", why}}); }

  // ------------------------------------------------------------------------------------------------- driving phases

  void call(typename Phases<T>::Phase phase) {
    if (phase) phase(*s_);
  }
  void synchronize() {
    if (on_cpu()) return;
    check(cudaStreamSynchronize(s_->stream), "waiting for the device");
    check(cudaGetLastError(), "running a kernel");
  }
  void poison_labels() {
    if (on_cpu())
      std::fill_n(s_->label, s_->n, -1);
    else
      stock::poison_labels(s_->label, s_->n, s_->stream);
  }
  void poison_result() {
    synchronize();
    std::fill_n(s_->result.label, s_->n, -1);
    std::fill_n(s_->result.centroids, size_t(s_->k) * s_->d, std::numeric_limits<T>::quiet_NaN());
  }
  void step() {
    if (phases_.iterate) return call(phases_.iterate);
    call(phases_.assign);
    call(phases_.update);
  }
  /// Labels that changed since the last call; also what the stop rule needs in every iteration of a solve.
  int64_t count_changed() {
    if (on_cpu()) {
      int64_t changed = 0;
      for (int i = 0; i < s_->n; ++i) {
        changed += s_->label[i] != previous_[i];
        previous_[i] = s_->label[i];
      }
      return changed;
    }
    stock::count_changed(s_->label, previous_, s_->n, changed_, s_->stream);
    unsigned long long changed = 0;
    check(cudaMemcpyAsync(&changed, changed_, sizeof changed, cudaMemcpyDeviceToHost, s_->stream),
          "downloading the count of changed labels");
    check(cudaStreamSynchronize(s_->stream), "counting changed labels");
    return int64_t(changed);
  }
  void forget_labels() {
    if (on_cpu())
      std::fill_n(previous_, s_->n, -1);
    else
      stock::poison_labels(previous_, s_->n, s_->stream);
  }
  /// From the initial centroids until the stop rule holds.
  void solve() {
    if (phases_.solve) {
      s_->reassigned.clear();
      return call(phases_.solve);
    }
    const Stop& stop = problem().stop;
    for (int done = 1;; ++done) {
      step();
      // A fixed number of iterations needs no count, and pays for none.
      if (stop.reached(done, stop.rule == Stop::Rule::fixed ? 0 : count_changed(), s_->n)) return;
    }
  }
  /// Everything back to where a solve begins, with nothing left over that a lazy variant could pass off as its own.
  void restart() {
    call(phases_.restart);
    poison_labels();
    forget_labels();
  }

  Axes chosen_axes() const {
    Axes axes;
    for (const Axis& axis : card_.axes) axes.value[axis.name] = axis.standard;
    for (const auto& [name, value] : request_.axes) {
      if (axes.value.count(name)) axes.value[name] = value;
    }
    return axes;
  }
  void start() {
    s_.emplace(problem(), device_);
    s_->axes = chosen_axes();
    label_.resize(s_->n);
    centroids_.resize(size_t(s_->k) * s_->d);
    s_->result = {label_.data(), centroids_.data()};
    if (on_cpu()) {
      previous_host_.resize(s_->n);
      previous_ = previous_host_.data();
    } else {
      check(cudaMalloc(reinterpret_cast<void**>(&previous_), s_->n * sizeof(int32_t)), "taking device memory");
      check(cudaMalloc(reinterpret_cast<void**>(&changed_), sizeof *changed_), "taking device memory");
      check(cudaMalloc(reinterpret_cast<void**>(&clock_), 2 * sizeof *clock_), "taking device memory");
      if (request_.cold) check(cudaMalloc(&evict_, evict_bytes), "taking device memory");
      check(cudaEventCreate(&begin_), "making an event");
      check(cudaEventCreate(&end_), "making an event");
    }
    call(phases_.prepare);
    call(phases_.upload);
    synchronize();
  }

  // ----------------------------------------------------------------------------------------------------- validation

  std::vector<int32_t> labels_now() const { return {s_->result.label, s_->result.label + s_->n}; }
  std::vector<T> centroids_now() const { return {s_->result.centroids, s_->result.centroids + size_t(s_->k) * s_->d}; }

  void download() {
    poison_result();
    call(phases_.download);
    synchronize();
  }
  /// One iteration from where the run stands, on poisoned outputs: its labels and the centroids after it. Labels that
  /// name no centroid are not handed to an update, which would use them as an index.
  std::pair<std::vector<int32_t>, std::vector<T>> one_step() {
    poison_labels();
    synchronize();
    double begin = now_seconds();
    call(phases_.iterate ? phases_.iterate : phases_.assign);
    synchronize();
    solve_seconds_ += now_seconds() - begin;
    download();
    std::vector<int32_t> label = labels_now();
    if (phases_.iterate || !labels_exist(label)) return {std::move(label), centroids_now()};
    begin = now_seconds();
    call(phases_.update);
    synchronize();
    solve_seconds_ += now_seconds() - begin;
    download();
    return {std::move(label), centroids_now()};
  }
  /// The same at step t (0, 1, ...) of a variant that keeps the loop to itself: a solve of t + 1 iterations.
  std::pair<std::vector<int32_t>, std::vector<T>> solve_steps(int iterations) {
    const Stop stop = problem().stop;
    problem().stop = {.rule = Stop::Rule::fixed, .iterations = iterations, .max_iterations = iterations};
    restart();
    solve();
    problem().stop = stop;
    download();
    return {labels_now(), centroids_now()};
  }

  void check_step(const std::vector<T>& before, const std::vector<int32_t>& label, const std::vector<T>* after,
                  const std::string& where) {
    const Problem<T>& p = problem();
    validation_.add(
        check_labels(p.points, p.n, p.d, before.data(), p.k, label.data(), card_.arithmetic, std::span(rows_)), where);
    // Means of labels that do not exist cannot be checked.
    if (!after || !validation_.fault.empty()) return;
    validation_.add(
        check_centroids(p.points, p.n, p.d, before.data(), after->data(), p.k, label.data(), card_.arithmetic), where);
  }
  double inertia_of(const std::vector<T>& centroids, const std::vector<int32_t>& label) {
    const Problem<T>& p = problem();
    return inertia(p.points, p.n, p.d, centroids.data(), label.data());
  }
  bool labels_exist(const std::vector<int32_t>& label) {
    return std::all_of(label.begin(), label.end(), [&](int32_t j) { return j >= 0 && j < problem().k; });
  }

  /// Follows the variant through a solve (or through two steps where no solve is asked for), on poisoned outputs.
  void validate() {
    report_({{"event", "scope"}, {"scope", "validation"}});
    const Problem<T>& p = problem();
    const int64_t count = std::max<int64_t>(1000, int64_t(request_.validation_budget / (double(p.k) * p.d)));
    rows_ = sample_rows(p.n, int(std::min<int64_t>(p.n, count)), sample_seed);
    std::vector<T> before(p.centroids, p.centroids + size_t(p.k) * p.d);
    if (!step_by_step()) {
      validate_whole_solve(before);
    } else {
      const bool whole = wanted("solve") || wanted("end_to_end") || !request_.dump.empty();
      const Stop stop = whole ? p.stop : Stop{.rule = Stop::Rule::fixed, .iterations = 2};
      std::vector<int32_t> previous(p.n, -1);
      restart();
      for (int done = 1;; ++done) {
        auto [label, after] = one_step();
        int64_t changed = 0;
        for (int i = 0; i < p.n; ++i) changed += label[i] != previous[i];
        const double spent = now_seconds() - begin_seconds_;
        if (whole && spent > solve_share * request_.time_limit && !stop.reached(done, changed, p.n)) {
          no_solve_ = "not solved after " + std::to_string(done) + " iterations and " + std::to_string(int(spent)) +
                      " s of the session's " + std::to_string(int(request_.time_limit)) + ": raise --time-limit";
        }
        const bool last = !no_solve_.empty() || stop.reached(done, changed, p.n);
        const std::string where = "in iteration " + std::to_string(done);
        if (done == 1 || last)
          check_step(before, label, &after, where);
        else if (!labels_exist(label))
          check_step(before, label, nullptr, where);
        if (!validation_.fault.empty()) return;
        if (whole) {
          reassigned_.push_back(changed);
          inertia_.push_back(inertia_of(before, label));
        }
        before = std::move(after);
        previous = std::move(label);
        if (last) break;
      }
      if (whole && no_solve_.empty()) {
        iterations_ = int(reassigned_.size());
      } else {
        reassigned_.clear();
        inertia_.clear();
      }
      // A last assignment, so that the labels belong to the centroids that are handed out.
      final_label_ = one_step().first;
      check_step(before, final_label_, nullptr, "after the last iteration");
      final_centroids_ = std::move(before);
    }
    if (!validation_.fault.empty()) return;
    validation_.inertia = inertia_of(final_centroids_, final_label_);
    if (!request_.dump.empty() && no_solve_.empty()) dump();
  }
  bool step_by_step() const { return phases_.iterate || phases_.assign; }

  void validate_whole_solve(const std::vector<T>& initial) {
    auto [first_label, first_after] = solve_steps(1);
    check_step(initial, first_label, &first_after, "in iteration 1");
    restart();
    synchronize();
    const double begin = now_seconds();
    solve();
    synchronize();
    solve_seconds_ = now_seconds() - begin;
    reassigned_ = s_->reassigned;
    iterations_ = int(reassigned_.size());
    if (!validation_.fault.empty()) return;
    if (*iterations_ < 1) {
      validation_.fault = "solve reported no iteration: append the reassigned labels of each to State::reassigned";
      return;
    }
    final_centroids_ = solve_steps(*iterations_).second;
    auto [label, after] = solve_steps(*iterations_ + 1);
    check_step(final_centroids_, label, &after, "in the iteration after the last");
    final_label_ = std::move(label);
  }

  /// The same first step once more, after the last sample: results that were only kept from before fail here.
  void validate_again() {
    const Problem<T>& p = problem();
    const std::vector<T> initial(p.centroids, p.centroids + size_t(p.k) * p.d);
    std::pair<std::vector<int32_t>, std::vector<T>> now;
    if (step_by_step()) {
      restart();
      now = one_step();
    } else {
      now = solve_steps(1);
    }
    check_step(initial, now.first, &now.second, "in a first iteration after the last sample");
  }

  // --------------------------------------------------------------------------------------------------------- timing

  /// Seconds of one iteration on the first `few` points, once everything is warm.
  double pilot(int few) {
    Problem<T> part = problem();
    part.n = few;
    s_.emplace(part, device_);
    s_->axes = chosen_axes();
    label_.resize(few);
    centroids_.resize(size_t(part.k) * part.d);
    s_->result = {label_.data(), centroids_.data()};
    call(phases_.prepare);
    call(phases_.upload);
    call(phases_.restart);
    const bool usable = labels_exist(one_step().first);  // else: nothing to time, validation will say what is wrong
    call(phases_.restart);
    synchronize();
    const double begin = now_seconds();
    if (usable) step();
    synchronize();
    const double seconds = now_seconds() - begin;
    s_.reset();
    return seconds;
  }
  /// A CPU can be asked for work that takes it days. Iterations on a few points, and on more, tell what all would take,
  /// before anything is begun.
  std::string too_slow() {
    if (device_.kind == DeviceKind::cuda || !step_by_step()) return "";
    const Problem<T>& p = problem();
    double fewer = 0, fewer_seconds = 0, few = 32, seconds = 0;
    for (;; fewer = few, fewer_seconds = seconds, few *= 8) {
      if (few * 8 > p.n) return "";
      seconds = pilot(int(few));
      if (seconds > 0.2) break;
    }
    const double iteration = seconds + (seconds - fewer_seconds) / (few - fewer) * (p.n - few);
    const bool whole = wanted("solve") || wanted("end_to_end");
    const int iterations = p.stop.rule == Stop::Rule::fixed ? p.stop.iterations : 20;
    const double needed = iteration * (whole ? 2 * iterations + 4 : 6);
    if (needed < request_.time_limit) return "";
    char text[400];
    std::snprintf(text, sizeof text,
                  "would take about %.0f s here (one iteration about %.3g s, from iterations on %.0f of %d points), "
                  "the limit is %.0f s: raise --time-limit",
                  needed, iteration, few, p.n, request_.time_limit);
    return text;
  }

  /// Seconds of `work` on the device's own clock, or on the host's where `from_host`.
  template <class F>
  double measure(bool from_host, F work) {
    synchronize();
    if (request_.cold && !on_cpu()) check(cudaMemsetAsync(evict_, 0, evict_bytes, s_->stream), "evicting the L2 cache");
    if (on_cpu() || from_host) {
      synchronize();
      const double begin = now_seconds();
      work();
      synchronize();
      return now_seconds() - begin;
    }
    check(cudaEventRecord(begin_, s_->stream), "recording an event");
    work();
    check(cudaEventRecord(end_, s_->stream), "recording an event");
    check(cudaEventSynchronize(end_), "waiting for the work");
    check(cudaGetLastError(), "running a kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "reading the time");
    return ms * 1e-3;
  }
  /// SM clock in MHz just now; 0 where there is none.
  double clock_mhz() {
    if (device_.kind != DeviceKind::cuda) return 0;
    stock::measure_clock(clock_, s_->stream);
    unsigned long long out[2] = {};
    check(cudaMemcpyAsync(out, clock_, sizeof out, cudaMemcpyDeviceToHost, s_->stream), "reading the clock");
    synchronize();
    return out[1] ? double(out[0]) / double(out[1]) * 1e3 : 0;
  }
  double default_mhz() const {
    int khz = 0;
    if (device_.kind == DeviceKind::cuda) cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device_.ordinals[0]);
    return khz * 1e-3;
  }

  double sample_once(const std::string& scope) {
    const bool whole = scope == "solve" || scope == "end_to_end";
    if (scope != "end_to_end")
      restart();
    else
      poison_labels(), forget_labels(), poison_result();
    if (scope == "update") call(phases_.assign);
    return measure(scope == "end_to_end", [&] {
      if (scope == "end_to_end") {
        call(phases_.upload);
        call(phases_.restart);
      }
      if (scope == "assign")
        call(phases_.assign);
      else if (scope == "update")
        call(phases_.update);
      else if (whole)
        solve();
      else
        step();
      if (scope == "end_to_end") call(phases_.download);
    });
  }

  /// Why this variant has no such scope; empty where it has.
  std::string missing(const std::string& scope) const {
    if ((scope == "assign" && !phases_.assign) || (scope == "update" && !phases_.update)) {
      return phases_.iterate ? "assign and update are one pass here: see iteration"
                             : "the whole solve is one piece here: see solve";
    }
    if (scope == "iteration" && !step_by_step()) return "the whole solve is one piece here: see solve";
    return "";
  }

  void time_scope(const std::string& scope) {
    report_({{"event", "scope"}, {"scope", scope}});
    json row = {{"event", "row"},
                {"scope", scope},
                {"status", "refused"},
                {"reason", missing(scope)},
                {"samples_ms", json::array()},
                {"median_ms", nullptr},
                {"q1_ms", nullptr},
                {"q3_ms", nullptr},
                {"sm_mhz", nullptr}};
    const double deadline = begin_seconds_ + 0.9 * request_.time_limit;
    const bool whole = scope == "solve" || scope == "end_to_end";
    if (row["reason"] == "" && whole) row["reason"] = no_solve_;
    if (row["reason"] == "" && whole && now_seconds() + solve_seconds_ > deadline) {
      row["reason"] = "no time left in the session for a solve: raise --time-limit";
    }
    if (row["reason"] != "") return report_(row);

    std::vector<double> mhz;
    bool unstable = false;
    int retries = 0;
    const double floor = clock_floor * default_mhz();
    const auto sample = [&] {
      for (;;) {
        const double seconds = sample_once(scope);
        const double now = clock_mhz();
        if (now < floor && retries < clock_retries) {
          ++retries;
          continue;
        }
        unstable = unstable || now < floor;
        if (now > 0) mhz.push_back(now);
        return seconds;
      }
    };
    // Warm up caches and lazily loaded code; a long solve was warmed up by its validation.
    if (!whole || solve_seconds_ < 1) sample_once(scope);
    const std::vector<double> samples = take_samples(
        request_.variant + "/" + request_.workload + "/" + scope,
        {.min_seconds = request_.min_seconds, .max_seconds = request_.max_seconds, .deadline = deadline}, sample);
    if (samples.empty()) {
      row["reason"] = "left out by --benchmark_filter";
      return report_(row);
    }
    const Summary q = summarise(samples);
    row.update({{"status", "ok"}, {"samples_ms", samples}, {"median_ms", q.median}, {"q1_ms", q.q1}, {"q3_ms", q.q3}});
    if (!mhz.empty()) row["sm_mhz"] = summarise(mhz).median;
    if (unstable) {
      row["status"] = "unstable";
      row["reason"] = "the SM clock stayed below " + std::to_string(int(floor)) + " MHz after " +
                      std::to_string(clock_retries) + " retries: let the GPU cool, or give it to this run alone";
    }
    report_(row);
  }

  // -------------------------------------------------------------------------------------------------------- results

  void dump() {
    const fs::path dir = request_.dump;
    fs::create_directories(dir);
    const Problem<T>& p = problem();
    const std::vector<size_t> centroids{size_t(p.k), size_t(p.d)};
    write_npy((dir / "labels.npy").string(), final_label_.data(), {size_t(p.n)});
    write_npy((dir / "centroids.npy").string(), final_centroids_.data(), centroids);
    write_npy((dir / "initial_centroids.npy").string(), p.centroids, centroids);
    std::ofstream out(dir / "inertia.txt.part");
    out.precision(17);
    out << validation_.inertia << "\n";
    out.close();
    if (!out) throw Error("cannot write " + (dir / "inertia.txt.part").string() + ": is the disk full?");
    fs::rename(dir / "inertia.txt.part", dir / "inertia.txt");
  }

  void report_result() {
    const Findings& v = validation_;
    report_({{"event", "result"},
             {"fault", v.fault},
             {"validation",
              {{"rows_checked", v.rows_checked},
               {"labels_wrong", v.labels_wrong},
               {"ties", v.ties},
               {"worst_regret", v.worst_regret},
               {"centroid_error", v.centroid_error},
               {"inertia", v.inertia},
               {"steps_checked", v.steps_checked}}},
             {"iterations", iterations_ ? json(*iterations_) : json(nullptr)},
             {"reassigned", reassigned_},
             {"inertia", inertia_},
             {"dumped", !request_.dump.empty() && no_solve_.empty()},
             {"axes", s_->axes.value},
             {"peak_device_bytes", on_cpu() ? json(nullptr) : json(s_->device_bytes())}});
  }

  static constexpr size_t evict_bytes = size_t(256) << 20;  // several times any L2

  const Request& request_;
  const Device& device_;
  const Card& card_;
  const Phases<T>& phases_;
  const Report& report_;
  MappedProblem<T> mapped_;
  std::vector<int32_t> label_, previous_host_;  // what result points at, where the variant does not say otherwise
  std::vector<T> centroids_;
  std::optional<State<T>> s_;
  int32_t* previous_ = nullptr;  // labels at the last count; on the device, or previous_host_
  unsigned long long *changed_ = nullptr, *clock_ = nullptr;
  void* evict_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;

  const double begin_seconds_ = now_seconds();
  double solve_seconds_ = 0;  // a solve (or the steps that stood for it) while it was validated
  std::vector<int32_t> rows_;
  Findings validation_;
  std::string no_solve_;  // why a whole solve is out of reach here; empty where it is not
  std::optional<int> iterations_;
  std::vector<int64_t> reassigned_;
  std::vector<double> inertia_;
  std::vector<int32_t> final_label_;
  std::vector<T> final_centroids_;
};

}  // namespace

void run_session(const Request& request, const Device& device, const Report& report) {
  const Card& card = *load_card(request.module);
  if (request.type == "f32")
    Session<float>(request, device, card, report).run();
  else if (request.type == "f64")
    Session<double>(request, device, card, report).run();
  else
    throw Error("element type '" + request.type + "' is unknown: f32 or f64");
}

}  // namespace ladder
