#include "runner/progress.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <utility>

namespace ladder {
namespace {

std::string clock_text(double seconds) {
  const long s = std::lround(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

void Progress::doing(const std::string& what) {
  if (terminal_) fmt::print(stderr, "\r\033[K{} {}", head(), what);
}

void Progress::session_done(const std::string& what) {
  ++done_;
  fmt::print(stderr, "{}{} {}\n", terminal_ ? "\r\033[K" : "", head(), what);
  std::istringstream lines(std::exchange(output_, ""));
  for (std::string line; std::getline(lines, line);) fmt::print(stderr, "    | {}\n", line);
}

void Progress::say(const std::string& what) { fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", what); }

void Progress::not_to_do(size_t sessions, const std::string& why) {
  sessions_ -= sessions;
  say(why);
}

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

std::string Progress::head() const {
  const double elapsed = now_seconds() - begin_;
  const std::string to_go = done_ == 0 || done_ == sessions_
                                ? ""
                                : fmt::format(", {} to go", clock_text(elapsed / done_ * (sessions_ - done_)));
  return fmt::format("[{:>{}}/{} {}{}]", done_, std::to_string(sessions_).size(), sessions_, clock_text(elapsed),
                     to_go);
}

}  // namespace ladder
