#include "worker/apart/accused.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/clock.hpp"
#include "base/machine.hpp"

namespace ladder::apart {
namespace {

constexpr double ending_seconds = 30;  // from the last answer to the process's end

volatile sig_atomic_t handed_to = 0;
/// It says what it was doing, as the CPU device does of its kernel, and ends; then this process does.
void hand_on(int signal) {
  if (handed_to > 0) kill(pid_t(handed_to), signal);
}

int write_request(const Request& request) {
  const std::string text = nlohmann::json(request).dump();
  const int file = memfd_create("ladder-request", MFD_CLOEXEC);
  if (file < 0 || write(file, text.data(), text.size()) != ssize_t(text.size()) || lseek(file, 0, SEEK_SET) != 0)
    throw Error(fmt::format("a request cannot be handed on: {}", std::strerror(errno)));
  return file;
}

double used_by(clockid_t clock) {
  timespec used{};
  if (clock_gettime(clock, &used) != 0) return 0;
  return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

/// Of a process.
bool has_thread_at_work(pid_t process) {
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream in(thread.path() / "stat");
    std::string words;
    std::getline(in, words);
    const size_t name = words.rfind(')');
    if (name != std::string::npos && words.compare(name, 3, ") R") == 0) return true;
  }
  return false;
}

/// The right of root to look into any process, this one among them.
void drop_right_to_look() {
  prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return;
  for (__u32* set : {&data[0].effective, &data[0].permitted, &data[0].inheritable}) *set &= ~(1u << CAP_SYS_PTRACE);
  syscall(SYS_capset, &header, data);
}

}  // namespace

Accused::Accused(const std::string& program, const Request& request, size_t room) : shared_(room) {
  const int file = write_request(request);
  start(program, file);
  close(file);
  const nlohmann::json card = nlohmann::json::parse(ask_text({.what = What::load}), nullptr, false);
  try {
    facts_ = card.get<Facts>();
  } catch (const nlohmann::json::exception&) {
    throw Error("the process that loads the module sent a card that no worker sends");
  }
}

void Accused::start(const std::string& program, int request) {
  // Another process of this user can neither look into this one nor open its files from now on.
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw Error(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (process_ == 0) {
    constexpr int first = 3;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    drop_right_to_look();
    // Nothing else of the judge's stays open there.
    const int mailbox = fcntl(shared_.descriptor(), F_DUPFD, first + 2), asked = fcntl(request, F_DUPFD, first + 2);
    dup2(mailbox, first);
    dup2(asked, first + 1);
    close_range(first + 2, ~0u, 0);
    execl(program.c_str(), program.c_str(), "accused", "3", "4", nullptr);
    _exit(127);
  }
  clock_getcpuclockid(process_, &clock_);
  handed_to = process_;
  struct sigaction action {};
  action.sa_handler = hand_on;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

Accused::~Accused() {
  handed_to = 0;
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Accused::end_as_it_did(int status) {
  process_ = 0;
  handed_to = 0;
  std::fflush(nullptr);
  if (WIFSIGNALED(status)) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void Accused::look_for_its_end() {
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) == process_) end_as_it_did(status);
}

void Accused::put(const Question& question) {
  Mailbox& box = shared_.box();
  box.question = question;
  announce(box.asked, ++number_);
}

const Answer& Accused::take(double spin) {
  Mailbox& box = shared_.box();
  await(box.answered, number_, spin, [&] { look_for_its_end(); });
  const Answer& theirs = box.answer;  // which may change while it is read
  answer_.kind = theirs.kind;
  answer_.value = theirs.value;
  answer_.seconds = theirs.seconds;
  answer_.submit_seconds = theirs.submit_seconds;
  answer_.cpu_seconds = theirs.cpu_seconds;
  answer_.label = theirs.label;
  answer_.centroids = theirs.centroids;
  answer_.chosen = theirs.chosen;
  answer_.keeps_count = theirs.keeps_count;
  answer_.text_bytes = theirs.text_bytes;
  if (answer_.kind == Answer::Kind::done) return answer_;
  const std::string why(theirs.text, std::min<size_t>(answer_.text_bytes, sizeof theirs.text));
  if (answer_.kind == Answer::Kind::refused) throw Refusal(why);
  throw Error(why);
}

const Answer& Accused::ask(const Question& question, double spin) {
  put(question);
  return take(spin);
}

std::string Accused::ask_text(Question question) {
  constexpr uint64_t most = uint64_t(16) << 20;
  std::string text;
  for (uint64_t all = 1; text.size() < all;) {
    question.value = int64_t(text.size());
    all = ask(question).text_bytes;
    if (all > most) throw Error(fmt::format("the variant told more than {} MiB of itself", most >> 20));
    const Answer& theirs = shared_.box().answer;
    text.append(theirs.text, std::min<size_t>(all - std::min<size_t>(all, text.size()), sizeof theirs.text));
  }
  return text;
}

bool Accused::read(uint64_t from, void* to, size_t bytes) {
  kill(process_, SIGSTOP);
  siginfo_t stopped{};
  while (waitid(P_PID, id_t(process_), &stopped, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  size_t done = 0;
  while (done < bytes) {
    const iovec here{static_cast<char*>(to) + done, bytes - done};
    const iovec there{reinterpret_cast<void*>(from + done), bytes - done};
    const ssize_t count = process_vm_readv(process_, &here, 1, &there, 1, 0);
    if (count <= 0) break;
    done += size_t(count);
  }
  waitid(P_PID, id_t(process_), &stopped, WSTOPPED | WNOHANG);
  kill(process_, SIGCONT);
  look_for_its_end();
  return done == bytes;
}

double Accused::cpu_seconds(bool and_children) const {
  double seconds = used_by(clock_);
  for (const pid_t child : and_children ? children_of(process_) : std::vector<pid_t>()) {
    clockid_t clock = 0;
    if (clock_getcpuclockid(child, &clock) == 0) seconds += used_by(clock);
  }
  return seconds;
}

bool Accused::is_at_work(bool and_children) const {
  std::vector<pid_t> all = and_children ? children_of(process_) : std::vector<pid_t>();
  all.push_back(process_);
  return std::any_of(all.begin(), all.end(), has_thread_at_work);
}

bool Accused::has_company() const {
  const std::vector<pid_t> mine = children_of(getpid());  // what it left to itself has become this process's
  return !children_of(process_).empty() ||
         std::any_of(mine.begin(), mine.end(), [&](pid_t child) { return child != process_; });
}

void Accused::finish() {
  put({.what = What::quit});
  const double until = now_seconds() + ending_seconds;
  int status = 0;
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (now_seconds() > until) throw Error("the variant's process does not end");
    usleep(500);
  }
  if (status != 0) end_as_it_did(status);
  process_ = 0;
  handed_to = 0;
}

}  // namespace ladder::apart
