// A worker's process: started on a request, listened to, and ended in time. What it writes goes to a file.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace ladder {

/// From now on Ctrl-C (and SIGTERM) ends the session that runs, and then the run, instead of this process.
void catch_interrupts();
/// Was there one?
bool interrupted();

/// A folder that goes when the run goes. It also removes those that killed runs have left.
struct Scratch {
  std::filesystem::path path;
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  int held_ = -1;  ///< a lock on the folder; -1 where its file system has none
};

/// How a session's process ended.
struct End {
  bool timed_out = false, interrupted = false;
  std::string stopped;  ///< why it was stopped before its time: what it did that no session does; empty: it was not
  int status = 0;
  std::string output;      ///< what it wrote, cleaned(), the last MiB of it
  std::string last_words;  ///< the end of that
};

/// What a session's process may use.
struct Bounds {
  double memory = 0.9;             ///< of this machine's
  size_t log = size_t(64) << 20;   ///< bytes written to its output
  size_t line = size_t(64) << 20;  ///< bytes of one report
  double ending = 30;              ///< seconds from its last report's end to its own
};

/// A worker that waits for its next session, or none.
class Waiting {
 public:
  Waiting() = default;
  Waiting(const Waiting&) = delete;
  ~Waiting();

 private:
  friend End run_child(const std::filesystem::path&, const std::filesystem::path&, double,
                       const std::function<void(const nlohmann::json&)>&, Waiting*, const Bounds&);
  void start(const std::filesystem::path& program, const std::filesystem::path& request, bool alone);
  void ask(const std::filesystem::path& request);
  int end(double seconds, bool& killed);
  int process_ = 0, events_ = -1, requests_ = -1;
};

/// Starts a worker on a request, hands each event it reports to `on_event`, all text in it cleaned(), and kills it,
/// with all that it started, after `time_limit` seconds, at the first report that `on_event` throws a json::exception
/// at, or beyond `bounds`. `waiting`: the worker that waits there takes the request, if there is one, and the one that
/// took it waits there afterwards, if it is fit for another.
End run_child(const std::filesystem::path& program, const std::filesystem::path& request, double time_limit,
              const std::function<void(const nlohmann::json&)>& on_event, Waiting* waiting = nullptr,
              const Bounds& bounds = Bounds());

}  // namespace ladder
