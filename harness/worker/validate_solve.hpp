// Validates a variant through a solve against fp64: labels against the nearest of the variant's own centroids,
// centroids against the means of its own labels, always on poisoned outputs. Kernel k-means has no centroids: its
// labels are compared with the implicit means of the previous labels.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/npy.hpp"
#include "base/parallel.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "protocol/scopes.hpp"
#include "validation/initialise.hpp"
#include "validation/kernel.hpp"
#include "validation/reference.hpp"
#include "validation/validate.hpp"
#include "worker/drive.hpp"
#include "workloads/generate.hpp"

namespace ladder {

template <class T>
class SolveValidator {
 public:
  SolveValidator(Driver<T>& driver, const Request& request, double begin_seconds)
      : run_(driver), request_(request), begin_seconds_(begin_seconds) {
    const Problem<T>& p = problem();
    const double per_row = double(p.k) * p.d;
    const auto rows = [&](double budget, double least) {
      return int(std::min<double>(p.n, std::max(least, budget / per_row)));
    };
    thorough_ = rows(request.validation_budget, 1000);
    quick_ = rows(request.validation_budget / 16, 256);
    last_ = request.all_labels ? p.n : thorough_;
    // Means are held against fp64 in every iteration where that is cheap, else ever more rarely.
    all_means_ = double(p.n) * p.d * 50 <= request.validation_budget;
  }

  bool ok() const { return fault_.empty(); }
  const std::string& fault() const { return fault_; }
  void fail(const std::string& why) {
    if (fault_.empty()) fault_ = why;
  }
  /// The reason why a whole solve takes too long here; empty if it does not.
  const std::string& no_solve() const { return no_solve_; }
  /// Of a solve (or of the steps that stood for it) while it was validated.
  double solve_seconds() const { return solve_seconds_; }
  const std::optional<int>& iterations() const { return iterations_; }
  const std::vector<int32_t>& final_labels() const { return final_labels_; }
  /// Those of the first iteration, for the initial centroids; empty where they could not be seen.
  const std::vector<int32_t>& first_labels() const { return first_labels_; }
  /// The centroids (k x d) that a variant about initialisation drew by the request's seed; empty for others.
  const std::vector<T>& drawn() const { return drawn_; }
  const std::vector<T>& final_centroids() const { return final_centroids_; }

  void fill(SessionResult& result) const {
    result.fault = fault_;
    result.validation = found_;
    result.iterations = iterations_;
    result.reassigned = reassigned_;
    result.inertia = inertia_;
    result.counters = counters_;
  }

  // ----------------------------------------------------------------------------------------------- before any timing

  /// Whether the session is there to count one sample of each scope (`ladder count`): then one iteration is validated,
  /// and each sample. On the CPU device an iteration takes as long as the sample.
  bool is_counted() const { return request_.profile && run_.device().kind == DeviceKind::simt; }

  /// Validates the drawn centroids, if the variant draws them, and a solve, or two iterations if no solve is requested.
  void validate(bool whole) {
    if (run_.has(Act::initialise)) {
      for (const uint64_t more : {0, 1}) {
        run_.initialise(request_.seed + more);
        run_.download();
        check_initialised(more ? "in a second draw" : "in its first draw");
        if (!ok()) return;
        if (!more) drawn_ = run_.centroids();
      }
    }
    if (run_.step_by_step()) validate_steps(whole);
    if (ok() && run_.has(Act::solve) && whole && no_solve_.empty()) validate_solve();
    if (!ok() || final_labels_.empty()) return;
    found_.inertia = inertia_of({final_centroids_, &solved_labels_}, final_labels_);
  }

  /// The validated solve, for another process: into a folder, and from there in place of `validate`.
  void save(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    const int64_t counts[] = {iterations_.value_or(0), alike_};
    write_npy(folder + "/counts.npy", counts, {2});
    write_npy(folder + "/labels.npy", solved_labels_.data(), {solved_labels_.size()});
    write_npy(folder + "/centroids.npy", final_centroids_.data(), {final_centroids_.size()});
  }
  void load(const std::string& folder) {
    const NpyFile counts(folder + "/counts.npy"), labels(folder + "/labels.npy"), centroids(folder + "/centroids.npy");
    iterations_ = int(counts.data<int64_t>()[0]);
    alike_ = counts.data<int64_t>()[1];
    solved_labels_.assign(labels.data<int32_t>(), labels.data<int32_t>() + labels.size());
    final_centroids_.assign(centroids.template data<T>(), centroids.template data<T>() + centroids.size());
  }

  // -------------------------------------------------------------------------------------------- after timed samples

  /// Validates what the sample of a scope left on the device that was timed just now, from the start that was chosen
  /// last. A whole solve took so many `iterations`: another start may take more or fewer, where ties are decided by the
  /// centroids' numbers. Of a sample that is not the last fewer labels are looked at.
  void check_sample(const std::string& scope, Timed& timed, int iterations, bool last = true) {
    const std::string where = "in a timed " + scope;
    const int rows = last ? thorough_ : quick_;
    if (scope == "upload") {
      check_first_step("of upload");
    } else if (scope == "download") {
      check_downloaded(where, rows);
    } else if (scope == "initialise") {
      run_.download();
      check_initialised(where);
    } else if (scope_named(scope).whole) {
      check_solve(where, timed, iterations);
    } else {
      run_.download();
      const std::vector<T> before = run_.initial();
      if (scope == "assign") return check_step(before, run_.labels(), nullptr, where, rows);
      const std::vector<T> after = run_.centroids();
      check_step(before, run_.labels(), &after, where, rows);
    }
  }
  /// Validates what a solve of so many iterations from drawn centroids left.
  void check_witness(int iterations, int wanted, const std::string& where) {
    if (iterations != wanted)
      return fail(fmt::format("{} iterations were done {}, the stop rule was fixed:{}", iterations, where, wanted));
    run_.download();
    const Solved now{run_.labels(), run_.centroids()};
    if (!labels_exist(now.label) || run_.card().labels_last)
      return check_step(now.centroids, now.label, nullptr, where, quick_);
    if (wanted > 1 && any_order()) return check_near(now, wanted, solved_after(wanted), where);
    const Solved before = wanted > 1 ? solved_after(wanted - 1) : Solved{{}, run_.initial()};
    check_step({before.centroids, wanted > 1 ? &before.label : nullptr, wanted > 1}, now.label, &now.centroids, where,
               quick_);
  }

  /// Validates a first step from centroids in an order that no sample used: cached results fail here.
  void check_first_step(const std::string& after) {
    if (run_.has(Act::initialise)) {
      run_.initialise(request_.seed + unused_seed);
      run_.download();
      check_initialised("in a draw after the last sample " + after);
      if (!ok()) return;
    }
    run_.restart(unused_offset());
    const std::vector<T> before = run_.initial();
    const std::string where = "in a first iteration after the last sample " + after;
    if (run_.step_by_step()) {
      std::vector<int32_t> label;
      const std::vector<T> means = one_step(label);
      check_step(before, label, &means, where, thorough_);
    } else if (run_.has(Act::solve)) {
      if (run_.card().labels_last && !final_labels_.empty())
        return check_next({solved_labels_, final_centroids_}, where);
      run_.solve_exactly(1);
      const std::vector<int32_t> label = run_.labels();
      const std::vector<T> means = run_.centroids();
      if (!run_.card().labels_last) return check_step(before, label, &means, where, thorough_);
      check_step(means, label, nullptr, where, thorough_);
      check_began(before, means, where);
    }
  }

  // ------------------------------------------------------------------------------------------ what is drawn in secret

  /// The start of the next timed sample: of whole solves the problem's centroids under numbers drawn in secret, all but
  /// those of validation and of the last check; of other samples drawn centroids.
  void choose_next_start(bool whole) {
    if (!whole) return choose_drawn_start();
    const int k = problem().k;
    run_.choose_offset(k < 3 ? k - 1 : int(secret() % uint64_t(k - 2)) + 1);
  }
  /// Centroids that no run has met: each of the problem's moved by a part of the way to a point that is drawn.
  void choose_drawn_start() {
    const Problem<T>& p = problem();
    std::mt19937_64 drawn(secret());
    const int first = int(drawn() % uint64_t(p.k));
    std::vector<int64_t> towards(p.k);
    for (int64_t& row : towards) row = int64_t(drawn() % uint64_t(p.n));
    std::vector<T> centroids(size_t(p.k) * p.d);
    parallel_pieces(size_t(p.k), 256, [&](size_t, size_t begin, size_t end) {
      for (size_t j = begin; j < end; ++j) {
        const T* from = p.centroids + (j + size_t(first)) % size_t(p.k) * p.d;
        const T* to = p.points + towards[j] * p.d;
        for (int f = 0; f < p.d; ++f) centroids[j * p.d + f] = T(from[f] + (double(to[f]) - from[f]) * drawn_part);
      }
    });
    run_.choose_initial(std::move(centroids));
  }
  /// Known where a profiler looks or accesses are counted: no time is judged there, and two sessions, on a GPU and on
  /// the CPU device, too, count the same work.
  uint64_t secret() { return request_.profile ? sample_seed : uint64_t(secret_()) << 32 | secret_(); }
  uint64_t next_seed() { return secret() >> 1; }
  /// Is the sample just taken one that is validated? Some of the first are, then ever fewer.
  bool judges_next() { return secret() % uint64_t(4 + judge_asked_++) == 0; }

 private:
  /// The input of an assignment: centroids, or for kernel k-means, from its second iteration on, the previous labels.
  /// Of another run than its output, where sums may have been added in another order.
  struct Before {
    const std::vector<T>& centroids;
    const std::vector<int32_t>* label;
    bool another_run;
    // NOLINTNEXTLINE(google-explicit-constructor): centroids are what nearly every assignment follows from
    Before(const std::vector<T>& c, const std::vector<int32_t>* labels = nullptr, bool another = false)
        : centroids(c), label(labels), another_run(another) {}
  };

  const Problem<T>& problem() const { return run_.problem(); }
  bool implicit() const { return bool(problem().kernel); }
  Rules rules() const { return {run_.card().arithmetic, run_.card().moves_empty}; }
  int unused_offset() const { return problem().k - 1; }
  /// May two solves from the same centroids part? Libraries may add sums in any order.
  bool any_order() const {
    return !run_.card().library.empty() && run_.card().arithmetic.form != Arithmetic::Form::exact;
  }

  // -------------------------------------------------------------------------------------------------------- verdicts

  void add(const LabelReport& report, const std::string& where) {
    found_.rows_checked += report.rows_checked;
    found_.labels_wrong += report.labels_wrong;
    found_.ties += report.ties;
    found_.labels_differ += report.labels_differ;
    found_.worst_regret = std::min(std::max(found_.worst_regret, report.worst_regret), largest);
    ++found_.steps_checked;
    if (report.labels_wrong == 0) return;
    fail(std::to_string(report.labels_wrong) + " of " + std::to_string(report.rows_checked) +
         " checked labels are wrong " + where + ": " + report.first);
  }
  void add(const CentroidReport& report, const std::string& where) {
    found_.centroid_error = std::min(std::max(found_.centroid_error, report.worst_error), largest);
    if (!report.ok()) fail("a centroid is wrong " + where + ": " + report.first);
  }
  bool labels_exist(const std::vector<int32_t>& label) const {
    const int k = problem().k;
    return count_where(label.size(), [&](size_t i) { return label[i] >= 0 && label[i] < k; }) == label.size();
  }
  double inertia_of(const Before& before, const std::vector<int32_t>& label) const {
    const Problem<T>& p = problem();
    if (!implicit()) return inertia(p.points, p.n, p.d, before.centroids.data(), p.k, label.data(), p.metric);
    if (before.label) return kernel_inertia(p, before.label->data(), label.data());
    return kernel_inertia(p, before.centroids.data(), label.data());
  }
  /// `label` as it follows from `before`; `after`, where it is given, are the means of `label`. `rows` points are
  /// looked at, others in each call.
  void check_step(const Before& before, const std::vector<int32_t>& label, const std::vector<T>* after,
                  const std::string& where, int rows) {
    const Problem<T>& p = problem();
    const std::vector<int32_t> chosen = sample_rows(p.n, rows, sample_seed + uint64_t(found_.steps_checked));
    const std::span<const int32_t> rows_of(chosen);
    if (!implicit())
      add(check_labels(p, before.centroids.data(), label.data(), rules(), rows_of), where);
    else if (before.label)
      add(check_kernel_labels(p, before.label->data(), label.data(), rules(), rows_of), where);
    else
      add(check_kernel_labels(p, before.centroids.data(), label.data(), rules(), rows_of), where);
    if (after) check_means(before, label, *after, where);
  }
  /// The labels that a solve hands out, as they follow from `before`.
  void check_handed_out(const Before& before, const std::vector<int32_t>& label, const std::string& where) {
    check_step(before, label, nullptr, where, last_);
    found_.last_rows_checked = last_;
  }
  void check_means(const Before& before, const std::vector<int32_t>& label, const std::vector<T>& after,
                   const std::string& where) {
    if (!ok()) return;  // means of labels that do not exist cannot be checked
    if (implicit() || moves_points(label)) return;
    const Problem<T>& p = problem();
    const T* const old = before.centroids.data();
    CentroidReport report = check_centroids(p, old, after.data(), label.data(), rules());
    if (!report.ok() && report.empty_clusters > 0 && before.another_run)
      report = check_centroids(p, old, after.data(), label.data(), rules(), kept_reach(p, label.data(), rules()));
    add(report, where);
  }
  /// Did this update move points into empty clusters? Which points is known to the library only.
  bool moves_points(const std::vector<int32_t>& label) const {
    if (!run_.card().moves_empty) return false;
    std::vector<bool> used(problem().k, false);
    for (const int32_t j : label) used[j] = true;
    return std::find(used.begin(), used.end(), false) != used.end();
  }
  /// The same for labels that are nearly those of the update: a few may differ, since ties and the order of sums may be
  /// decided otherwise in another run. Most clusters have none of those, and must be right.
  void check_most_means(const std::vector<T>& before, const std::vector<int32_t>& label, const std::vector<T>& after,
                        const std::string& what, std::span<const double> reach = {}) {
    if (!ok()) return;
    if (const std::string wrong = most_means_wrong(before, label, after, reach); !wrong.empty())
      fail(what + ": " + wrong);
  }
  /// What is wrong with most of these means; empty if nothing is.
  std::string most_means_wrong(const std::vector<T>& before, const std::vector<int32_t>& label,
                               const std::vector<T>& after, std::span<const double> reach = {}) const {
    if (implicit() || moves_points(label)) return "";
    const Problem<T>& p = problem();
    const CentroidReport report = check_centroids(p, before.data(), after.data(), label.data(), rules(), reach);
    return 2 * report.values_wrong > report.values_checked ? report.first : "";
  }
  /// The first iteration of a solve whose labels belong to the centroids that it leaves: those for the centroids that
  /// it was given are not known. They are the fp64 reference's but for ties, of which points on a grid have many.
  void check_began(const std::vector<T>& initial, const std::vector<T>& after, const std::string& where) {
    if (!ok()) return;
    const NearestMeans nearest = nearest_means(problem(), initial.data(), rules());
    check_most_means(initial, nearest.label, after, "solve did not begin with the centroids that it was given " + where,
                     nearest.reach);
  }
  /// Do these labels take no longer than others that are checked?
  bool began_is_cheap() const {
    const Problem<T>& p = problem();
    return double(p.n) * p.k * p.d <= request_.validation_budget;
  }
  int64_t count_different(const std::vector<int32_t>& a, const std::vector<int32_t>& b) const {
    return int64_t(count_where(a.size(), [&](size_t i) { return a[i] != b[i]; }));
  }

  // ----------------------------------------------------------------------------------------- the harness's own loop

  /// One iteration from where the run stands: its labels, and the centroids after it. Labels that name no centroid are
  /// not handed to an update, which would use them as an index.
  std::vector<T> one_step(std::vector<int32_t>& label) {
    if (!run_.card().reads_labels) run_.poison_labels();
    run_.synchronize();
    const auto timed = [&](auto phase) {
      const double begin = now_seconds();
      phase();
      run_.synchronize();
      solve_seconds_ += now_seconds() - begin;
      run_.look_at_memory();
    };
    timed([&] { run_.assign_or_iterate(); });
    run_.download();
    run_.labels(label);
    if (run_.has(Act::iterate) || !labels_exist(label)) return run_.centroids();
    // This download was for validation: an update on the host must download what it reads itself, and wait for it.
    if (!run_.host_memory()) run_.poison_result();
    timed([&] { run_.call(Act::update); });
    run_.download();
    return run_.centroids();
  }
  /// Is this iteration one whose means are checked?
  bool means_due(int done) {
    if (!all_means_ && done < next_means_) return false;
    next_means_ = done + 1 + done / 2;
    return true;
  }
  /// The count that the variant keeps must be the count.
  void check_count(int64_t changed, const std::string& where) {
    if (!run_.keeps_count()) return;
    const int64_t counted = run_.count_changed();
    if (counted != changed) {
      fail("the variant counts " + std::to_string(counted) + " changed labels " + where + ", " +
           std::to_string(changed) + " have changed");
    }
  }

  void validate_steps(bool whole) {
    const Problem<T>& p = problem();
    const Stop stop = whole ? p.stop : Stop{.rule = Stop::Rule::fixed, .iterations = is_counted() ? 1 : 2};
    std::vector<int32_t> previous(p.n, -1), label;
    run_.restart(0);
    std::vector<T> before = run_.initial();
    for (int done = 1;; ++done) {
      std::vector<T> after = one_step(label);
      const std::string where = "in iteration " + std::to_string(done);
      const int64_t changed = count_different(label, previous);
      check_count(changed, where);
      const double spent = now_seconds() - begin_seconds_;
      if (whole && spent > solve_share * request_.time_limit && !stop.reached(done, changed, p.n)) {
        no_solve_ = "not solved after " + std::to_string(done) + " iterations and " + std::to_string(int(spent)) +
                    " s of the session's " + std::to_string(int(request_.time_limit)) + ": raise --time-limit";
      }
      if (done == 1) first_labels_ = label;
      const bool last = !no_solve_.empty() || stop.reached(done, changed, p.n);
      const Before from{before, done > 1 ? &previous : nullptr};
      if (last && whole && no_solve_.empty())
        check_handed_out(from, label, where);
      else
        check_step(from, label, nullptr, where, done == 1 || last ? thorough_ : quick_);
      if (last || means_due(done)) check_means(before, label, after, where);
      if (!ok()) return;
      reassigned_.push_back(changed);
      if (whole) inertia_.push_back(inertia_of(from, label));
      before = std::move(after);
      std::swap(previous, label);
      if (last) break;
    }
    counters_ = run_.counters();
    if (is_counted() && !whole) return;
    if (whole && no_solve_.empty()) {
      iterations_ = int(reassigned_.size());
    } else {
      reassigned_.clear();
      inertia_.clear();
    }
    solved_labels_ = std::move(previous);
    // A last assignment, so that the labels belong to the centroids that are handed out.
    one_step(final_labels_);
    check_step({before, &solved_labels_}, final_labels_, nullptr, "after the last iteration", thorough_);
    final_centroids_ = std::move(before);
  }

  // ------------------------------------------------------------------------------------------ the variant's own loop

  /// The stop rule must hold at the end of a solve and at no iteration before. Unknown counts are negative.
  void check_stop(const std::vector<int64_t>& reassigned, const std::string& where) {
    const int done = int(reassigned.size());
    if (done < 1) {
      return fail("solve reported no iteration " + where +
                  ": append the reassigned labels of each to State::reassigned");
    }
    for (int i = 1; i <= done; ++i) {
      const int64_t changed = reassigned[i - 1];
      if (changed < 0) continue;
      const bool reached = problem().stop.reached(i, changed, problem().n);
      if (reached == (i == done)) continue;
      return fail("solve " + std::string(reached ? "went on after iteration " : "ended after iteration ") +
                  std::to_string(i) + " " + where + ", in which " + std::to_string(changed) + " of " +
                  std::to_string(problem().n) + " labels changed: the stop rule is " + to_string(problem().stop));
    }
  }

  struct Solved {
    std::vector<int32_t> label;
    std::vector<T> centroids;
  };
  Solved solved_after(int iterations) {
    run_.solve_exactly(iterations);
    return {run_.labels(), run_.centroids()};
  }
  /// One iteration from these centroids.
  Solved solved_from(const std::vector<T>& centroids) {
    const Start<T> start = run_.start();
    run_.choose_initial(centroids);
    Solved now = solved_after(1);
    run_.choose(start);
    return now;
  }
  /// The same state under the numbers of a start at `offset`.
  Solved renumbered(const Solved& state, int offset) const {
    const int k = problem().k, d = problem().d;
    Solved other = state;
    for (int32_t& j : other.label) j = (j - offset + k) % k;
    std::rotate(other.centroids.begin(), other.centroids.begin() + std::ptrdiff_t(offset) * d, other.centroids.end());
    return other;
  }
  /// The iteration after a state, of which no sample had the numbers, and whose labels belong to its centroids: a solve
  /// that begins with those leaves the means of these.
  void check_next(const Solved& state, const std::string& where) {
    const Solved before = renumbered(state, unused_offset()), now = solved_from(before.centroids);
    check_step(now.centroids, now.label, nullptr, where, thorough_);
    check_most_means(before.centroids, before.label, now.centroids,
                     "solve did not begin with the centroids that it was given " + where);
  }

  /// A solve that the variant keeps to itself: its own count, its results, and the states on its way, each by a solve
  /// that ends there. Where labels belong to the centroids that a solve leaves, each state is the one before and a
  /// solve of one iteration: two libraries' runs of many iterations need not come to the same labels, as their sums may
  /// be added in any order.
  void validate_solve() {
    run_.restart(0);
    run_.synchronize();
    const double begin = now_seconds();
    run_.solve();
    run_.synchronize();
    solve_seconds_ = now_seconds() - begin;
    run_.look_at_memory();
    std::vector<int64_t> reassigned = run_.reassigned();
    run_.download();
    const Solved whole{run_.labels(), run_.centroids()};
    check_stop(reassigned, "in its first solve");
    if (!ok()) return;
    const int done = int(reassigned.size());
    const std::map<std::string, std::vector<int64_t>> counters = run_.counters();
    if (iterations_ && *iterations_ != done) {
      fail("solve took " + std::to_string(done) + " iterations where assign and update took " +
           std::to_string(*iterations_));
      return;
    }

    if (iterations_ && run_.card().arithmetic.form == Arithmetic::Form::exact) check_same_way(reassigned);
    if (!ok()) return;

    const bool last = run_.card().labels_last;
    const double seconds_left = solve_share * request_.time_limit - (now_seconds() - begin_seconds_);
    const bool all = solve_seconds_ * (last ? 2 : done) < seconds_left;
    std::vector<double> inertias;
    Solved before{{}, run_.initial()};  // the state after `at` iterations
    Solved previous;                    // the one before that
    int at = 0;
    const auto next = [&](int step) {
      if (step == 1 || step == done) return step + 1;
      if (iterations_) return done;  // the steps were followed: what is left is whether the solve goes their way
      return all || step == 2 ? step + 1 : std::min(done, step + step / 2);
    };
    for (int step = 1; step <= done && ok(); step = next(step)) {
      if (at != step - 1) before = solved_after(step - 1);
      const bool one = (last || any_order()) && step > 1;  // iteration from there
      const Solved now = one ? solved_from(before.centroids) : step == done ? whole : solved_after(step);
      const std::string where = "in iteration " + std::to_string(step) + " of a solve";
      const bool thorough = step == 1 || step == done;
      const Before from{last ? now.centroids : before.centroids, step > 1 ? &before.label : nullptr};
      if (step == done && !last)
        check_handed_out(from, now.label, where);
      else
        check_step(from, now.label, nullptr, where, thorough ? thorough_ : quick_);
      if (!last)
        check_means({before.centroids, nullptr, step > 1 && !one}, now.label, now.centroids, where);
      else if (step > 1)
        check_most_means(before.centroids, before.label, now.centroids, "a centroid is wrong " + where);
      else if (ok() && began_is_cheap())
        check_began(before.centroids, now.centroids, where);
      // The labels of the last assignment count in no iteration.
      if (!last) {
        const int64_t changed = step == 1 ? problem().n : count_different(now.label, before.label);
        int64_t& reported = reassigned[step - 1];
        const int64_t off = one ? changed / 4 : 0;  // on another way other points are near two centroids
        if (reported >= 0 && std::abs(reported - changed) > off && ok()) {
          fail("solve reports " + std::to_string(reported) + " changed labels " + where + ", " +
               std::to_string(changed) + " have changed");
        }
        if (!one || reported < 0) reported = changed;
      }
      if (ok()) inertias.push_back(inertia_of(from, now.label));
      if (step == 1 && !last) first_labels_ = now.label;
      previous = std::exchange(before, now);
      at = step;
    }
    check_stop(reassigned, "by its labels");
    if (last && ok()) check_last(whole, before, previous, done, reassigned.back());
    if (!last && any_order() && done > 1 && ok()) {
      if (iterations_) {  // its phases are the iterations one by one
        before = {solved_labels_, final_centroids_};
        alike_ = reassigned_.back() / 4;
        last_gain_ = inertia_[inertia_.size() - 2] - inertia_.back();
      } else {
        remember_gain(previous, before);
      }
      check_near(whole, done, before, "at the end of a solve");
    }
    if (!ok() || iterations_) return;
    iterations_ = done;
    if (std::all_of(reassigned.begin(), reassigned.end(), [](int64_t count) { return count >= 0; })) {
      reassigned_ = reassigned;
    }
    if (all) inertia_ = inertias;
    counters_ = counters;
    solved_labels_ = whole.label;
    final_centroids_ = whole.centroids;
    final_labels_ = last          ? whole.label
                    : any_order() ? solved_from(whole.centroids).label
                                  : solved_after(done + 1).label;
    if (last) return;  // these labels are checked
    check_step({final_centroids_, &solved_labels_}, final_labels_, nullptr, "in the iteration after the last",
               thorough_);
  }
  /// Labels that are those of the exact minimum leave a solve no other way than that of the steps.
  void check_same_way(const std::vector<int64_t>& reassigned) {
    for (size_t i = 0; i < reassigned.size(); ++i) {
      if (reassigned[i] < 0 || reassigned[i] == reassigned_[i]) continue;
      return fail("solve reports " + std::to_string(reassigned[i]) + " changed labels in iteration " +
                  std::to_string(i + 1) + ", assign and update have changed " + std::to_string(reassigned_[i]));
    }
  }
  /// What a first solve left whose labels belong to its centroids, against the same iterations one by one: the state
  /// after the last of them, and the one before. Fewer labels differ than an iteration more or less would change, or it
  /// is the means of the state before all the same, or the library does not take one way twice (check_other_way).
  void check_last(const Solved& whole, const Solved& steps, const Solved& previous, int done, int64_t changed) {
    check_handed_out(whole.centroids, whole.label, "at the end of a solve");
    check_ended(whole, done, changed, "in its first solve");
    if (done > 1 && ok()) {
      const int64_t differ = count_different(whole.label, steps.label);
      remember_gain(previous, steps);
      steps_inertia_ = inertia_of(steps.centroids, steps.label);
      if (differ == 0 || differ > alike_) {
        const std::string wrong = most_means_wrong(previous.centroids, previous.label, whole.centroids);
        if (!wrong.empty())
          check_other_way(whole, done, differ, steps_inertia_, "a centroid is wrong at the end of a solve: " + wrong);
      }
    }
    if (ok()) check_next(whole, "in an iteration after a solve");
  }
  /// What the last of the iterations one by one did: from `previous` to `steps`.
  void remember_gain(const Solved& previous, const Solved& steps) {
    alike_ = count_different(steps.label, previous.label) / 4;
    last_gain_ = inertia_of(previous.centroids, previous.label) - inertia_of(steps.centroids, steps.label);
  }
  /// What a solve left whose sums may be added in any order, beside another of as many iterations: its centroids are
  /// the means of its labels, and fewer of these differ than an iteration more or less would change. If more do, two
  /// solves part by themselves (check_other_way).
  void check_near(const Solved& now, int done, const Solved& other, const std::string& where) {
    check_means(now.centroids, now.label, now.centroids, where);
    const int64_t differ = count_different(now.label, other.label);
    if (!ok() || differ <= alike_) return;
    check_other_way(now, done, differ, inertia_of(other.centroids, other.label),
                    fmt::format("{} labels are wrong {}: they differ from those of its iterations one by one, where an "
                                "iteration changes {}",
                                differ, where, 4 * alike_));
  }
  /// A solve that met neither the iterations one by one nor a solve that is one iteration shorter. It is `wrong`,
  /// unless the library leaves other centroids when the same solve is repeated: then sums in any order have led another
  /// way, and no two solves of it can be held against each other by their labels. What holds on every way:
  /// - more than those few labels differ, and yet most are the same: clusters keep their numbers;
  /// - inertia is that of as many iterations, within half of what the last of them gained;
  /// - an iteration from the library's own state after one less is right, as are its labels for its own centroids.
  void check_other_way(const Solved& now, int done, int64_t differ, double inertia, const std::string& wrong) {
    const double off = std::abs(inertia_of(now.centroids, now.label) - inertia);
    const bool as_far = off <= std::max(last_gain_ / 2, least_gain * inertia);
    if (differ <= alike_ || 2 * differ > problem().n || !as_far) return fail(wrong);
    if (solved_after(done).centroids == now.centroids) return fail(wrong);
    const Solved before = solved_after(done - 1), after = solved_from(before.centroids);
    const std::string where = "in an iteration from a solve of " + std::to_string(done - 1);
    if (run_.card().labels_last) {
      check_step(before.centroids, before.label, nullptr, "at the end of a shorter solve", thorough_);
      check_step(after.centroids, after.label, nullptr, where, thorough_);
      check_most_means(before.centroids, before.label, after.centroids, "a centroid is wrong " + where);
    } else {
      check_step(before.centroids, after.label, &after.centroids, where, thorough_);
    }
    if (ok()) {
      found_.note =
          "the path of iterations is not reproducible: two solves from the same centroids differ, and each "
          "iteration from the solve's own state is right";
    }
  }
  /// A solve that does not tell how many labels its last iteration changed may end by a number of iterations, or where
  /// nothing would change any more: its centroids are then the means of the labels that belong to them.
  void check_ended(const Solved& now, int done, int64_t changed, const std::string& where) {
    if (changed >= 0 || problem().stop.reached(done, problem().n, problem().n)) return;
    if (problem().stop.rule == Stop::Rule::reassigned) {
      return fail("solve does not tell how many labels changed, by which the stop rule " + to_string(problem().stop) +
                  " ends it");
    }
    check_means(now.centroids, now.label, now.centroids, where + ", which ended where labels still change");
  }

  /// What a timed solve left: its own count and stop rule, its centroids as the means of its labels, and its labels as
  /// those of the validated solve under the numbers of this start. Labels that differ may be a sum in another order,
  /// and are reported; they must then be right for the centroids of a solve that is one iteration shorter.
  void check_solve(const std::string& where, Timed& timed, int done) {
    check_stop(run_.reassigned(), where);
    if (ok() && done < 1) fail("no iteration was done " + where);
    if (!ok()) return;
    if (timed.scope == "solve") run_.download();
    const Solved now{run_.labels(), run_.centroids()};
    const int k = problem().k, offset = run_.offset();
    const auto differ = int64_t(
        count_where(now.label.size(), [&](size_t i) { return (now.label[i] + offset) % k != solved_labels_[i]; }));
    timed.labels_differ = differ;
    if (!labels_exist(now.label)) return check_step(now.centroids, now.label, nullptr, where, thorough_);
    if (run_.card().labels_last) {
      check_step(now.centroids, now.label, nullptr, where, thorough_);
      if (ok()) check_ended(now, done, run_.reassigned().back(), where);
      if (!ok() || (done == *iterations_ && differ <= alike_)) return;
      if (done == 1) return check_began(run_.initial(), now.centroids, where);
      const Solved before = solved_after(done - 1);
      const std::string wrong = most_means_wrong(before.centroids, before.label, now.centroids);
      if (!wrong.empty() && done == *iterations_)
        check_other_way(now, done, differ, steps_inertia_, "a centroid is wrong " + where + ": " + wrong);
      else if (!wrong.empty())
        fail("a centroid is wrong " + where + ": " + wrong);
      return;
    }
    if (any_order() && done > 1) {
      const bool same = done == *iterations_;
      const Solved other = same ? renumbered({solved_labels_, final_centroids_}, offset) : solved_after(done);
      return check_near(now, done, other, where);
    }
    if (differ == 0 && done == *iterations_) {
      // The centroids of an empty cluster are the validated solve's.
      std::vector<T> stay(now.centroids.size());
      for (int j = 0; j < k; ++j) {
        const size_t from = size_t((j + offset) % k) * problem().d;
        std::copy_n(final_centroids_.begin() + std::ptrdiff_t(from), problem().d,
                    stay.begin() + std::ptrdiff_t(size_t(j) * problem().d));
      }
      return check_means({stay, nullptr, true}, now.label, now.centroids, where);
    }
    Solved before{{}, run_.initial()};
    if (done > 1) before = solved_after(done - 1);
    check_step({before.centroids, done > 1 ? &before.label : nullptr, done > 1}, now.label, &now.centroids, where,
               thorough_);
  }

  /// What a timed download left, of a first assignment.
  void check_downloaded(const std::string& where, int rows) {
    const std::vector<T> before = run_.initial();
    check_step(before, run_.labels(), nullptr, where, rows);
    if (implicit()) return;
    const std::vector<T> now = run_.centroids();
    for (size_t e = 0; e < now.size() && ok(); ++e) {
      if (now[e] == before[e]) continue;
      fail("a download left " + std::to_string(now[e]) + " in feature " + std::to_string(e % problem().d) +
           " of centroid " + std::to_string(e / problem().d) + ", which is " + std::to_string(before[e]) +
           " on the device, " + where);
    }
  }
  /// The rows that the seed draws, and the centroids that these rows are; both downloaded.
  void check_initialised(const std::string& where) {
    const Problem<T>& p = problem();
    const Draws draws = run_.card().draws;
    std::vector<T> uniform;
    if (draws == Draws::uniform) uniform = initial_centroids(p.points, p.n, p.d, p.k, p.seed).centroids;
    const std::vector<int32_t> chosen = run_.chosen();
    const std::vector<T> now = run_.centroids();
    const InitialReport report = check_initialisation(p, draws, chosen.data(), now.data(), uniform.data(), rules());
    found_.rows_checked += report.rows_checked;
    found_.labels_wrong += report.rows_wrong;
    found_.ties += report.ties;
    ++found_.steps_checked;
    if (!report.ok()) fail("the drawn centroids are wrong " + where + ": " + report.first);
  }

  static constexpr double largest = std::numeric_limits<double>::max();  // records have no word for infinity
  static constexpr uint64_t sample_seed = 20161126;           // of the rows that stand for all where a problem is large
  static constexpr uint64_t unused_seed = uint64_t(1) << 32;  // beyond those of samples
  static constexpr double drawn_part = 1.0 / 32;              // of the way from a centroid to a point
  static constexpr double solve_share = 0.4;                  // of the session's time that a first solve may take
  static constexpr double least_gain = 1e-5;                  // of inertia: other ways end no nearer to each other

  Driver<T>& run_;
  const Request& request_;
  const double begin_seconds_;
  int thorough_ = 0, quick_ = 0;  // rows per check of labels
  int last_ = 0;                  // of the labels that a solve hands out
  bool all_means_ = true;
  int next_means_ = 1;
  std::random_device secret_;
  int judge_asked_ = 0;

  Validation found_;
  std::string fault_, no_solve_;
  double solve_seconds_ = 0;
  std::optional<int> iterations_;
  std::vector<int64_t> reassigned_;
  std::vector<double> inertia_;
  std::map<std::string, std::vector<int64_t>> counters_;
  std::vector<int32_t> solved_labels_;  // of the last iteration of the validated solve
  std::vector<int32_t> final_labels_;   // of the centroids after it
  std::vector<int32_t> first_labels_;   // of the initial centroids
  int64_t alike_ = 0;                   // labels in which a solve may differ from its iterations one by one
  double steps_inertia_ = 0;            // after those iterations
  double last_gain_ = 0;                // what the last of them took off it
  std::vector<T> drawn_;
  std::vector<T> final_centroids_;
};

}  // namespace ladder
