// Progress of a run, with the time to go: one rewritten line on a terminal, otherwise a line per session.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <string>

#include "base/clock.hpp"

namespace ladder {

class Progress {
 public:
  explicit Progress(size_t sessions) : sessions_(sessions), terminal_(isatty(STDERR_FILENO)) {}
  void doing(const std::string& what);
  /// What a session wrote, under a bar: it comes with the line of the session that is done next.
  void output(const std::string& text) { output_ = text; }
  void session_done(const std::string& what);
  /// Counts a session as done without a line.
  void count() { ++done_; }
  /// A line of its own.
  void say(const std::string& what);
  /// That many sessions need not run: they take no time, and count no more.
  void not_to_do(size_t sessions, const std::string& why);
  /// The same, without a word.
  void skip(size_t sessions) { sessions_ -= sessions; }
  /// There are more to run than was known.
  void expect(size_t more) { sessions_ += more; }
  /// Takes the line of `doing` away.
  void clear();

 private:
  std::string head() const;
  size_t sessions_, done_ = 0;
  bool terminal_;
  std::string output_;
  double begin_ = now_seconds();
};

}  // namespace ladder
