#include "runner/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/foreign.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

volatile sig_atomic_t caught = 0;
void catch_one(int) { caught = 1; }

fs::path log_of(const fs::path& request) { return request.string() + ".log"; }

void make_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe can be made: {}", std::strerror(errno)));
}

std::string tail(const fs::path& file, size_t bytes) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const auto size = size_t(std::max<std::streamoff>(0, in.tellg()));
  in.seekg(std::streamoff(size > bytes ? size - bytes : 0));
  std::string text(std::istreambuf_iterator<char>(in), {});
  text = cleaned(text);
  const size_t last = text.find_last_not_of(" \n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

/// Processes that this one has started and not yet waited for.
std::set<pid_t>& workers() {
  static std::set<pid_t> known;
  return known;
}

bool has_ended(pid_t child) {
  siginfo_t ended = {};
  return waitid(P_PID, id_t(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == child;
}

/// The processes whose parent is this one and no worker: what a worker started and left behind.
std::vector<pid_t> left_behind() {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string words;
    std::getline(in, words);
    char state = 0;
    int parent = 0;
    const size_t after_name = words.rfind(')');
    if (after_name == std::string::npos || std::sscanf(words.c_str() + after_name + 1, " %c %d", &state, &parent) != 2)
      continue;
    const pid_t process = std::stoi(name);
    if (parent == getpid() && !workers().count(process)) found.push_back(process);
  }
  return found;
}

/// A worker's process group is killed with it. What left the group, to outlive the session, has become this process's
/// child (PR_SET_CHILD_SUBREAPER), and its children become so in turn.
void end_what_is_left_behind() {
  for (int generation = 0; generation < 100; ++generation) {
    const std::vector<pid_t> processes = left_behind();
    if (processes.empty()) return;
    for (const pid_t process : processes) kill(process, SIGKILL);
    for (const pid_t process : processes) waitpid(process, nullptr, 0);
  }
}

/// What a worker does that no session does; empty: nothing.
std::string beyond(const Bounds& bounds, pid_t worker, const fs::path& log) {
  std::error_code gone;
  if (const auto written = fs::file_size(log, gone); !gone && written > bounds.log)
    return fmt::format("it wrote more than {} MiB of output", bounds.log >> 20);
  const double whole = double(main_memory_bytes()), held = memory_below(worker);
  if (held > bounds.memory * whole)
    return fmt::format("it took {:.3g} GiB of this machine's {:.3g} GiB of memory", held / (1 << 30),
                       whole / (1 << 30));
  return "";
}

/// Gives the child a second to say what it was doing, as the CPU device does of its kernel. It is still to be waited
/// for.
void end_politely(pid_t child) {
  kill(child, SIGTERM);
  for (int i = 0; i < 100 && !has_ended(child); ++i) usleep(10000);
}

constexpr const char* scratch_name = "ladder-XXXXXX";
constexpr const char* scratch_mark = "scratch-of-a-run";  // a file in it, written once the lock is held

/// Takes the lock on a folder, for as long as the descriptor is open; -1 where another process has it, or the folder is
/// gone.
int hold(const fs::path& folder) {
  const int held = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat mine {};
  struct stat named {};
  if (held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0 && fstat(held, &mine) == 0 &&
      lstat(folder.c_str(), &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev &&
      mine.st_uid == geteuid())
    return held;
  if (held >= 0) close(held);
  return -1;
}

/// A run that was killed leaves its folder behind: it has the mark, and no process holds its lock. A folder without the
/// mark is not a run's, whatever its name.
void remove_scratch_of_killed_runs() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != std::strlen(scratch_name) || name.rfind("ladder-", 0) != 0) continue;
    if (!fs::exists(entry.path() / scratch_mark, ignored)) continue;
    const int held = hold(entry.path());
    if (held < 0) continue;
    fs::remove_all(entry.path(), ignored);
    close(held);
  }
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = catch_one;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return caught != 0; }

Scratch::Scratch() {
  remove_scratch_of_killed_runs();
  std::string name = (fs::temp_directory_path() / scratch_name).string();
  if (!mkdtemp(name.data()))
    throw Error(fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
  path = name;
  held_ = hold(path);
  if (held_ >= 0) std::ofstream(path / scratch_mark).put('\n');
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
  if (held_ >= 0) close(held_);
}

void Waiting::start(const fs::path& program, const fs::path& request, bool alone) {
  int events[2], requests[2] = {-1, -1};
  make_pipe(events);
  if (!alone) make_pipe(requests);
  fs::remove(log_of(request));  // of a session before: its output is not this one's
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE, 0);  // what a variant starts may not look into this process, nor open its pipes
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    prctl(PR_SET_DUMPABLE, 1);  // else its own files in /proc are root's
    // Where memory ends, this process goes before the run does.
    if (const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        score >= 0 && write(score, "800", 3)) {
    }
    const int out = open(log_of(request).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    const std::string report_to = std::to_string(dup(events[1]));  // without close-on-exec
    const std::string more = alone ? "" : std::to_string(dup(requests[0]));
    execl(program.c_str(), program.c_str(), "run", request.c_str(), report_to.c_str(), alone ? nullptr : more.c_str(),
          nullptr);
    _exit(127);
  }
  close(events[1]);
  if (!alone) close(requests[0]);
  process_ = child, events_ = events[0], requests_ = requests[1];
  workers().insert(child);
}

void Waiting::ask(const fs::path& request) {
  // What it writes from now on is of this session. That it is gone is seen by what it does not report.
  const std::string line = request.string() + "\n";
  if (truncate(log_of(request).c_str(), 0) != 0 || write(requests_, line.data(), line.size()) < 0)
    kill(process_, SIGKILL);
}

int Waiting::end(double seconds, bool& killed) {
  int status = 0;
  if (process_ == 0) return status;
  close(events_);
  if (requests_ >= 0) close(requests_);
  for (const double until = now_seconds() + seconds; !has_ended(process_) && now_seconds() < until;) usleep(1000);
  killed = !has_ended(process_);
  if (killed) kill(-process_, SIGKILL), kill(process_, SIGKILL);  // it may have left its group
  waitpid(process_, &status, 0);
  kill(-process_, SIGKILL);  // whatever it started
  workers().erase(process_);
  process_ = 0;
  end_what_is_left_behind();
  return status;
}

Waiting::~Waiting() {
  bool killed = false;
  end(0, killed);
}

End run_child(const fs::path& program, const fs::path& request, double time_limit,
              const std::function<void(const json&)>& on_event, Waiting* waiting, const Bounds& bounds) {
  Waiting alone;
  Waiting& worker = waiting ? *waiting : alone;
  const bool waited = worker.process_ != 0;
  if (waited)
    worker.ask(request);
  else
    worker.start(program, request, !waiting);
  End end;
  std::string pending;
  bool begun = false, fit = false;
  const double deadline = now_seconds() + time_limit;
  while (!fit && end.stopped.empty()) {
    const double remaining = deadline - now_seconds();
    if (remaining <= 0 || caught) {
      end.timed_out = !caught;
      end.interrupted = caught;
      break;
    }
    if (end.stopped = beyond(bounds, worker.process_, log_of(request)); !end.stopped.empty()) break;
    pollfd reports{worker.events_, POLLIN, 0};
    if (poll(&reports, 1, int(std::min(remaining, 0.5) * 1000) + 1) <= 0) {
      if (has_ended(worker.process_)) break;  // a process that it left behind holds the pipe
      continue;
    }
    char buffer[65536];
    const ssize_t count = read(worker.events_, buffer, sizeof buffer);
    if (count <= 0) break;
    size_t from = pending.size();  // no line ends before it
    pending.append(buffer, size_t(count));
    for (size_t line; !fit && (line = pending.find('\n', from)) != std::string::npos;
         pending.erase(0, line + 1), from = 0) {
      const json event = foreign_json(std::string_view(pending).substr(0, line));
      if (!event.is_object()) continue;
      try {
        const std::string what = event.value("event", "");
        begun = begun || what == "begin";
        fit = waiting && what == "next";
        on_event(event);
      } catch (const json::exception&) {
        end.stopped = "it sent a report that no worker sends: " + event.dump().substr(0, 200);
        break;
      }
    }
    if (pending.size() > bounds.line)
      end.stopped = fmt::format("it sent a report of more than {} MiB", bounds.line >> 20);
  }
  if (!fit) {
    if (end.timed_out) end_politely(worker.process_);
    const bool at_once = end.timed_out || end.interrupted || !end.stopped.empty();
    bool killed = false;
    end.status = worker.end(at_once ? 0 : std::clamp(deadline - now_seconds(), 0.0, bounds.ending), killed);
    if (killed && !at_once) end.stopped = "it closed its reports and did not end";
    // It had gone before it began: that says nothing of this session.
    if (waited && !begun && !at_once && !killed)
      return run_child(program, request, time_limit, on_event, waiting, bounds);
  }
  end.output = tail(log_of(request), size_t(1) << 20);
  end.last_words = end.output.substr(end.output.size() - std::min<size_t>(end.output.size(), 1500));
  return end;
}

}  // namespace ladder
