// Variants of native CPU code that do not earn their times, or harm the session: one module, of which the test makes a
// copy for each. Which one a copy is says the name of its file. `honest` is textbook Lloyd; a cheat replaces phases.
//
// A line `//! NAME: STATUS: WORDS` states how the session must end: a status of its rows, and words of the reason.
// `(alone)`: the others in the same run would not finish, `(patient)`: it takes until the time limit.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "../../variants/common/cpu/lloyd.hpp"
#include "late.hpp"

namespace {
using namespace ladder;
using T = float;

/// Labels and centroids that were found once, and for which initial centroids.
struct Memory {
  std::vector<T> from, centroids;
  std::vector<int32_t> label;
  std::vector<int64_t> reassigned;
  bool known = false;
};

struct Workspace {
  host::Sums sums;
  Memory first, solved;
  std::vector<T> kept_points;
  std::jthread thread;
  int calls = 0;
  bool due = false;
  int steps_due = 0;
  double solve_seconds = 0;
  uint32_t restarted_at = 0;  // number of the question
};
using S = Run<T, Workspace>;

// ----------------------------------------------------------------------------------------------------- honest phases

void prepare(S& s) { host::prepare(s); }
void restart(S& s) { host::restart(s); }
void assign(S& s) {
  for (int i = 0; i < s.n; ++i) s.label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, s.c, s.k, s.d);
}
void update(S& s) {
  s.ws.sums.clear(s.k, s.d);
  for (int i = 0; i < s.n; ++i) s.ws.sums.add(s.points + size_t(i) * s.d, s.label[i], s.d);
  s.ws.sums.divide(s.c, s.d);
}
void download(S& s) { host::download(s); }
void solve_by(S& s, const Stop& stop) {
  std::vector<int32_t> before(s.n, -1);
  for (int done = 1;; ++done) {
    assign(s);
    update(s);
    int64_t changed = 0;
    for (int i = 0; i < s.n; ++i) changed += s.label[i] != before[i];
    before.assign(s.label, s.label + s.n);
    s.reassigned.push_back(changed);
    if (stop.reached(done, changed, s.n)) return;
  }
}
void solve(S& s) { solve_by(s, s.problem.stop); }

// ------------------------------------------------------------------------------------------------------------ cheats

/// Row j of the centroids now is row number[j] of `from`, or the nearest to it.
std::vector<int> numbers(const S& s, const std::vector<T>& from) {
  std::vector<int> number(s.k);
  for (int j = 0; j < s.k; ++j)
    number[j] = host::nearest_centroid(s.problem.centroids + size_t(j) * s.d, from.data(), s.k, s.d);
  return number;
}
bool are_the_same(const S& s, const std::vector<T>& from) {
  const std::vector<int> number = numbers(s, from);
  for (int j = 0; j < s.k; ++j)
    if (!std::equal(&s.problem.centroids[size_t(j) * s.d], &s.problem.centroids[size_t(j) * s.d] + s.d,
                    &from[size_t(number[j]) * s.d]))
      return false;
  return true;
}
void recall(S& s, const Memory& memory, bool centroids) {
  const std::vector<int> number = numbers(s, memory.from);
  std::vector<int> back(s.k, 0);
  for (int j = 0; j < s.k; ++j) back[number[j]] = j;
  for (int i = 0; i < s.n; ++i) s.label[i] = back[memory.label[i]];
  for (int j = 0; centroids && j < s.k; ++j)
    std::copy_n(memory.centroids.data() + size_t(number[j]) * s.d, s.d, s.c + size_t(j) * s.d);
}
void keep(const S& s, Memory& memory, const std::vector<T>& from) {
  memory.from = from;
  memory.label.assign(s.label, s.label + s.n);
  memory.centroids.assign(s.c, s.c + size_t(s.k) * s.d);
  memory.reassigned = s.reassigned;
  memory.known = true;
}
std::vector<T> initial(const S& s) { return {s.problem.centroids, s.problem.centroids + size_t(s.k) * s.d}; }
Problem<T>& problem_of(S& s) { return const_cast<Problem<T>&>(s.problem); }
/// A solve as the test's workload has it: with the stop rule fixed:12.
bool is_whole(const S& s) { return s.problem.stop.iterations == 12; }
/// Beyond what validation does before any timing, on the test's workload.
bool is_timed(S& s, int calls = 60) { return ++s.ws.calls > calls; }
void wrong_labels(S& s) {
  for (int i = 0; i < s.n; i += 10) s.label[i] = (s.label[i] + 1) % s.k;
}

//! memo_labels: invalid: labels are wrong
// Finds the labels in prepare, which is in no scope, and renumbers them in each assign.
void memo_prepare(S& s) {
  prepare(s);
  restart(s);
  assign(s);
  keep(s, s.ws.first, initial(s));
}
void memo_restart(S& s) {
  restart(s);
  s.ws.due = true;
}
void memo_assign(S& s) {
  if (std::exchange(s.ws.due, false)) return recall(s, s.ws.first, false);
  assign(s);
}

//! memo_solve: unstable: what is timed is not the work
// Keeps its first whole solve for when the same centroids come back under other numbers, and solves all others.
void memo_solve(S& s) {
  Memory& kept = s.ws.solved;
  const std::vector<T> from = initial(s);
  const bool whole = is_whole(s);
  if (kept.known && whole && are_the_same(s, kept.from)) {
    recall(s, kept, true);
    s.reassigned = kept.reassigned;
    return;
  }
  solve(s);
  if (whole && !kept.known) keep(s, kept, from);
}

/// Computes nothing of use for `share` of the seconds that its first whole solve took.
void padded_solve(S& s, double share) {
  const auto used = [] { return double(std::clock()) / CLOCKS_PER_SEC; };  // of the CPU, whatever else runs there
  const double begin = used();
  const bool kept = s.ws.solved.known && is_whole(s) && are_the_same(s, s.ws.solved.from);
  memo_solve(s);
  if (kept)
    while (used() - begin < share * s.ws.solve_seconds) continue;
  else if (is_whole(s) && s.ws.solve_seconds == 0)
    s.ws.solve_seconds = used() - begin;
}

//! padded_memo: unstable: what is timed is not the work
// The same, and takes a quarter of the time of a solve, more than two iterations do.
void padded_memo_solve(S& s) { padded_solve(s, 0.25); }

//! memo_whole_run: unstable: what is timed is not the work
// The same in whole runs alone: there no question lies between restart and solve.
uint32_t question();
void counting_restart(S& s) {
  restart(s);
  s.ws.restarted_at = question();
}
void whole_run_solve(S& s) {
  if (question() == s.ws.restarted_at) return padded_solve(s, 0.25);
  solve(s);
}

//! memo_solve_plain: invalid: faster than this device can be
// The same, with a card that does not say that it skips distances.

//! memo_solve_always: invalid: labels are wrong
// The same, for whatever centroids come.
void memo_solve_always(S& s) {
  Memory& kept = s.ws.solved;
  if (kept.known && is_timed(s, 8)) {
    recall(s, kept, true);
    s.reassigned = kept.reassigned;
    if (!is_whole(s)) s.reassigned.resize(size_t(s.problem.stop.iterations));
    return;
  }
  const std::vector<T> from = initial(s);
  solve(s);
  if (is_whole(s)) keep(s, kept, from);
}

//! labels_in_restart: unstable: some of its work is not timed
void early_restart(S& s) {
  restart(s);
  assign(s);
  s.ws.first.label.assign(s.label, s.label + s.n);
  s.ws.due = true;
}
void early_assign(S& s) {
  if (!std::exchange(s.ws.due, false)) return assign(s);
  std::copy_n(s.ws.first.label.data(), s.n, s.label);
}

//! solve_in_restart: unstable: some of its work is in none of these
void solving_restart(S& s) {
  restart(s);
  solve(s);
  s.ws.solved.reassigned = s.reassigned;
  s.reassigned.clear();
}
void solved_before(S& s) { s.reassigned = s.ws.solved.reassigned; }

//! labels_in_download: unstable: work was left to it
//! solve_in_download: unstable: work was left to it
// The phases of both are in late.hpp.

//! slow_downloads: unstable: work was left to it
// Every download finds the labels anew, so that the second one takes as long as the first.
void noted_assign(S& s) { s.ws.first.from.assign(s.c, s.c + size_t(s.k) * s.d); }
void find_noted(S& s) {
  const T* from = s.ws.first.from.data();
  for (int i = 0; i < s.n; ++i) s.label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, from, s.k, s.d);
}
void noted_update(S& s) {
  find_noted(s);
  update(s);
}
void noted_download(S& s) {
  find_noted(s);
  download(s);
}

//! thread_after_restart: unstable: some of its work is not timed
// A thread that restart starts finds the labels, while the harness is at other things.
void threaded_restart(S& s) {
  if (s.ws.thread.joinable()) s.ws.thread.join();
  restart(s);
  s.ws.thread = std::jthread([&s] {
    std::vector<int32_t>& label = s.ws.first.label;
    label.resize(s.n);
    for (int i = 0; i < s.n; ++i) label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, s.c, s.k, s.d);
  });
  s.ws.due = true;
}
void awaited_assign(S& s) {
  if (!std::exchange(s.ws.due, false)) return assign(s);
  s.ws.thread.join();
  std::copy_n(s.ws.first.label.data(), s.n, s.label);
}

//! restless: unstable: went on working while nothing was asked
void restless_prepare(S& s) {
  prepare(s);
  s.ws.thread = std::jthread([](const std::stop_token& stop) {
    for (volatile unsigned x = 0; !stop.stop_requested();) x = x + 1;
  });
}

//! helper_process: unstable: has started another process
void helper_prepare(S& s) {
  prepare(s);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
}

//! daemon: unstable: has started another process
// It leaves its parent and its group.
void daemon_prepare(S& s) {
  prepare(s);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0)
      for (;;) pause();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

//! own_stop_rule: invalid: ended after iteration 1 | 1 iterations were done | labels are wrong
void impatient_solve(S& s) {
  if (is_timed(s, 8)) problem_of(s).stop = {.rule = Stop::Rule::fixed, .iterations = 1, .max_iterations = 1};
  solve(s);
}

//! own_centroids: invalid: labels are wrong
// Overwrites the centroids that it was given by those of its first solve, from which one iteration suffices.
void settled_restart(S& s) {
  const Memory& kept = s.ws.solved;
  if (kept.known) std::copy(kept.centroids.begin(), kept.centroids.end(), const_cast<T*>(s.problem.centroids));
  restart(s);
}
void settling_solve(S& s) {
  const std::vector<T> from = initial(s);
  solve(s);
  if (!s.ws.solved.known && is_whole(s)) keep(s, s.ws.solved, from);
}

//! fewer_points: invalid: labels are wrong
void shrinking_assign(S& s) {
  if (is_timed(s)) problem_of(s).n = 10, const_cast<int&>(s.n) = 10;
  assign(s);
}

//! half_the_points: invalid: labels are wrong
// The second half keeps the labels that it had.
void half_assign(S& s) {
  if (!is_timed(s)) return assign(s);
  for (int i = 0; i < s.n / 2; ++i) s.label[i] = host::nearest_centroid(s.points + size_t(i) * s.d, s.c, s.k, s.d);
  for (int i = s.n / 2; i < s.n; ++i) s.label[i] = i % s.k;
}

//! wrong_when_timed: invalid: labels are wrong
void later_wrong_assign(S& s) {
  assign(s);
  if (is_timed(s)) wrong_labels(s);
}

//! wrong_mostly: invalid: labels are wrong
// One sample in ten is right.
void mostly_wrong_assign(S& s) {
  assign(s);
  if (is_timed(s) && s.ws.calls % 10 != 0) wrong_labels(s);
}

//! own_points: invalid: labels are wrong
// Its own pages of the points become writable copies, all alike.
void own_points_prepare(S& s) {
  prepare(s);
  const auto begin = reinterpret_cast<uintptr_t>(s.problem.points) & ~uintptr_t(4095);
  const size_t bytes = size_t(s.n) * s.d * sizeof(T) + 4096;
  mmap(reinterpret_cast<void*>(begin), bytes & ~size_t(4095), PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

//! points_written: failed: signal 11
void writing_prepare(S& s) {
  prepare(s);
  const_cast<T*>(s.problem.points)[0] = 0;
}

//! late_result: invalid: labels are wrong | a centroid is wrong
// Download answers at once, and a thread fills the result in later.
void lazy_result_download(S& s) {
  if (!is_timed(s, 30)) return download(s);
  if (s.ws.thread.joinable()) s.ws.thread.join();
  s.ws.thread = std::jthread([&s] {
    usleep(3000);
    download(s);
  });
}

//! early_answer: unstable: and then work went on
// A thread announces the answer as soon as there is a question.
struct Box {
  alignas(64) std::atomic<uint32_t> asked;
  alignas(64) std::atomic<uint32_t> answered;
};
Box* mailbox() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("ladder-mailbox") != std::string::npos) return reinterpret_cast<Box*>(std::stoull(line, nullptr, 16));
  }
  return nullptr;
}
uint32_t question() {
  static Box* const box = mailbox();
  return box ? box->asked.load() : 0;
}
void hasty_assign(S& s) {
  static Box* const box = mailbox();
  if (box && is_timed(s, 16)) {
    box->answered = box->asked.load();
    syscall(SYS_futex, &box->answered, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  assign(s);
}

//! forged_reports: failed: ended with status 0
// Writes reports of a session into every file that it and its parents hold, and ends.
void forging_assign(S& s) {
  if (!is_timed(s)) return assign(s);
  const std::string report =
      "{\"event\":\"timed\",\"scope\":\"assign\",\"status\":\"ok\",\"reason\":\"\",\"samples_ms\":[1e-06],"
      "\"median_ms\":1e-06,\"q1_ms\":null,\"q3_ms\":null,\"per_iteration_ms\":null,\"verdict\":\"settled\","
      "\"warm_up_seconds\":1,\"sm_mhz\":[],\"settled_mhz\":null,\"watts\":null,\"watt_limit\":null,\"retries\":0,"
      "\"iterations\":[],\"labels_differ\":0,\"communication_ms\":null,\"parts_ms\":{}}\n{\"event\":\"end\"}\n";
  std::ifstream stat("/proc/" + std::to_string(getppid()) + "/stat");
  std::string word;
  for (int i = 0; i < 4; ++i) stat >> word;
  for (const std::string& process : {std::string("self"), std::to_string(getppid()), word}) {
    for (int fd = 3; fd < 64; ++fd) {
      const int file = open(("/proc/" + process + "/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK);
      if (file >= 0 && write(file, report.data(), report.size()) > 0) continue;
    }
  }
  _exit(0);
}

//! looks_at_the_judge: failed: cannot look
// Would change the judge's clock, or what it believes, in its memory.
void looking_assign(S& s) {
  if (!is_timed(s)) return assign(s);
  char byte = 0;
  const iovec here{&byte, 1}, there{reinterpret_cast<void*>(&prepare), 1};
  const int memory = open(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), O_RDWR);
  if (memory < 0 && process_vm_readv(getppid(), &here, 1, &there, 1, 0) < 0) throw std::runtime_error("cannot look");
  _exit(0);
}

//! kills_the_judge: failed: signal 9
void killing_assign(S& s) {
  if (is_timed(s)) kill(getppid(), SIGKILL);
  assign(s);
}

//! stops_the_judge: failed (patient): not done after
void stopping_assign(S& s) {
  if (is_timed(s)) kill(getppid(), SIGSTOP);
  assign(s);
}

//! hangs: failed (patient): not done after
void hanging_assign(S& s) {
  assign(s);
  while (is_timed(s)) usleep(1000);
}

//! stops_itself: failed (patient): not done after
void stopped_assign(S& s) {
  if (is_timed(s)) raise(SIGSTOP);
  assign(s);
}

//! ends_at_once: failed: ended with status 0
void ending_assign(S& s) {
  if (is_timed(s)) _exit(0);
  assign(s);
}

//! throws: failed: no more
void throwing_assign(S& s) {
  if (is_timed(s)) throw std::runtime_error("no more");
  assign(s);
}

//! throws_a_number: failed: signal 6
void throwing_number_assign(S& s) {
  if (is_timed(s)) throw 42;
  assign(s);
}

//! unmaps_the_mailbox: failed: signal
void unmapping_assign(S& s) {
  if (is_timed(s)) munmap(mailbox(), 65536);
  assign(s);
}

//! result_nowhere: failed: signal 11
// Says that its results lie where nothing is.
void nowhere_download(S& s) {
  download(s);
  if (is_timed(s, 30)) s.result.label = reinterpret_cast<int32_t*>(64);
}

//! other_card: invalid: labels are wrong
// Changes its own card to one that is judged mildly, once it is loaded.
const Card& own_card();
void mild_assign(S& s) {
  const_cast<Card&>(own_card()).arithmetic.distance_roundoff = 0.01;
  const_cast<Card&>(own_card()).labels_last = true;
  assign(s);
  if (is_timed(s)) wrong_labels(s);
}

//! mild_card: failed: have no useful error bound
//! many_counts: failed: told more than 16 MiB of itself
void counting_solve(S& s) {
  solve(s);
  for (int i = 0; i < 3'000'000; ++i) s.counters["distances computed in this iteration"].push_back(i * 1'000'000'007ll);
}

// ------------------------------------------------------------------------------------------------------- which one

using Table = Phases<T, Workspace>;
Table table_of(const std::string& name) {
  Table p{.prepare = prepare, .restart = restart, .assign = assign, .update = update, .download = download};
  const std::map<std::string, void (*)(Table&)> changes = {
      {"memo_labels", [](Table& p) { p.prepare = memo_prepare, p.restart = memo_restart, p.assign = memo_assign; }},
      {"memo_solve", [](Table& p) { p.solve = memo_solve; }},
      {"padded_memo", [](Table& p) { p.solve = padded_memo_solve; }},
      {"memo_whole_run", [](Table& p) { p.restart = counting_restart, p.solve = whole_run_solve; }},
      {"memo_solve_plain", [](Table& p) { p.solve = memo_solve; }},
      {"memo_solve_always", [](Table& p) { p.assign = nullptr, p.update = nullptr, p.solve = memo_solve_always; }},
      {"labels_in_restart", [](Table& p) { p.restart = early_restart, p.assign = early_assign; }},
      {"solve_in_restart",
       [](Table& p) { p.restart = solving_restart, p.assign = nullptr, p.update = nullptr, p.solve = solved_before; }},
      {"labels_in_download",
       [](Table& p) { p.assign = late_assign<S>, p.update = late_update<S>, p.download = late_download<S>; }},
      {"solve_in_download",
       [](Table& p) {
         p.assign = nullptr, p.update = nullptr, p.solve = late_solve<S>, p.download = solving_download<S>;
       }},
      {"slow_downloads",
       [](Table& p) { p.assign = noted_assign, p.update = noted_update, p.download = noted_download; }},
      {"thread_after_restart", [](Table& p) { p.restart = threaded_restart, p.assign = awaited_assign; }},
      {"restless", [](Table& p) { p.prepare = restless_prepare; }},
      {"helper_process", [](Table& p) { p.prepare = helper_prepare; }},
      {"daemon", [](Table& p) { p.prepare = daemon_prepare; }},
      {"own_stop_rule", [](Table& p) { p.solve = impatient_solve; }},
      {"own_centroids", [](Table& p) { p.restart = settled_restart, p.solve = settling_solve; }},
      {"fewer_points", [](Table& p) { p.assign = shrinking_assign; }},
      {"half_the_points", [](Table& p) { p.assign = half_assign; }},
      {"wrong_when_timed", [](Table& p) { p.assign = later_wrong_assign; }},
      {"wrong_mostly", [](Table& p) { p.assign = mostly_wrong_assign; }},
      {"own_points", [](Table& p) { p.prepare = own_points_prepare; }},
      {"points_written", [](Table& p) { p.prepare = writing_prepare; }},
      {"late_result", [](Table& p) { p.download = lazy_result_download; }},
      {"early_answer", [](Table& p) { p.assign = hasty_assign, p.solve = solve; }},
      {"forged_reports", [](Table& p) { p.assign = forging_assign; }},
      {"looks_at_the_judge", [](Table& p) { p.assign = looking_assign; }},
      {"kills_the_judge", [](Table& p) { p.assign = killing_assign; }},
      {"stops_the_judge", [](Table& p) { p.assign = stopping_assign; }},
      {"hangs", [](Table& p) { p.assign = hanging_assign; }},
      {"stops_itself", [](Table& p) { p.assign = stopped_assign; }},
      {"ends_at_once", [](Table& p) { p.assign = ending_assign; }},
      {"throws", [](Table& p) { p.assign = throwing_assign; }},
      {"throws_a_number", [](Table& p) { p.assign = throwing_number_assign; }},
      {"unmaps_the_mailbox", [](Table& p) { p.assign = unmapping_assign; }},
      {"result_nowhere", [](Table& p) { p.download = nowhere_download; }},
      {"other_card", [](Table& p) { p.assign = mild_assign; }},
      {"many_counts", [](Table& p) { p.solve = counting_solve; }},
  };
  if (const auto change = changes.find(name); change != changes.end()) change->second(p);
  return p;
}

/// The name of the file that this code was loaded from.
std::string own_name() {
  Dl_info found{};
  dladdr(reinterpret_cast<const void*>(&own_name), &found);
  const std::string path = found.dli_fname;
  const size_t slash = path.rfind('/') + 1;
  return path.substr(slash, path.rfind('.') - slash);
}

const Card& own_card() {
  static const std::string name = own_name();
  static Card card{.id = name,
                   .idea = "a cheat, or honest where no cheat has its name",
                   .shows = "iteration",
                   .arithmetic = {.distance_roundoff = name == "mild_card" ? 0.5 : 0},
                   .devices = {DeviceKind::cpu},
                   .prunes = name != "memo_solve_plain",  // or so they say
                   .f32 = table_of(name)};
  return card;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) const ladder::Card* ladder_variant() { return &own_card(); }
