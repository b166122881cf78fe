#include "runner/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/clock.hpp"
#include "base/error.hpp"

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
  const size_t last = text.find_last_not_of(" \n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

/// Gives the child a second to say what it was doing, as the CPU device does of its kernel. It is still to be waited
/// for.
void end_politely(pid_t child) {
  kill(child, SIGTERM);
  for (int i = 0; i < 100; ++i) {
    siginfo_t ended = {};
    if (waitid(P_PID, id_t(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == child) return;
    usleep(10000);
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
  std::string name = (fs::temp_directory_path() / "ladder-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error(fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
  path = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void Waiting::start(const fs::path& program, const fs::path& request, bool alone) {
  int events[2], requests[2] = {-1, -1};
  make_pipe(events);
  if (!alone) make_pipe(requests);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
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
}

void Waiting::ask(const fs::path& request) {
  // What it writes from now on is of this session. That it is gone is seen by what it does not report.
  const std::string line = request.string() + "\n";
  if (truncate(log_of(request).c_str(), 0) != 0 || write(requests_, line.data(), line.size()) < 0)
    kill(process_, SIGKILL);
}

int Waiting::end() {
  int status = 0;
  if (process_ == 0) return status;
  close(events_);
  if (requests_ >= 0) close(requests_);
  waitpid(process_, &status, 0);
  kill(-process_, SIGKILL);  // whatever it started
  process_ = 0;
  return status;
}

Waiting::~Waiting() {
  if (process_ != 0) kill(-process_, SIGKILL);
  end();
}

End run_child(const fs::path& program, const fs::path& request, double time_limit,
              const std::function<void(const json&)>& on_event, Waiting* waiting) {
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
  while (!fit) {
    const double remaining = deadline - now_seconds();
    if (remaining <= 0 || caught) {
      end.timed_out = !caught;
      end.interrupted = caught;
      break;
    }
    pollfd reports{worker.events_, POLLIN, 0};
    if (poll(&reports, 1, int(std::min(remaining, 1.0) * 1000) + 1) <= 0) continue;
    char buffer[65536];
    const ssize_t count = read(worker.events_, buffer, sizeof buffer);
    if (count <= 0) break;
    pending.append(buffer, size_t(count));
    for (size_t line; (line = pending.find('\n')) != std::string::npos; pending.erase(0, line + 1)) {
      const json event = json::parse(pending.substr(0, line), nullptr, false);
      if (!event.is_object()) continue;
      const std::string what = event.value("event", "");
      begun = begun || what == "begin";
      fit = waiting && what == "next";
      on_event(event);
    }
  }
  if (!fit) {
    if (end.timed_out) end_politely(worker.process_);
    if (end.timed_out || end.interrupted) kill(-worker.process_, SIGKILL);
    end.status = worker.end();
    // It had gone before it began: that says nothing of this session.
    if (waited && !begun && !end.timed_out && !end.interrupted)
      return run_child(program, request, time_limit, on_event, waiting);
  }
  end.output = tail(log_of(request), size_t(1) << 20);
  end.last_words = end.output.substr(end.output.size() - std::min<size_t>(end.output.size(), 1500));
  return end;
}

}  // namespace ladder
