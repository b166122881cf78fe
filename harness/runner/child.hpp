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

/// A folder that goes when the run goes.
struct Scratch {
  std::filesystem::path path;
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

/// How a session's process ended.
struct End {
  bool timed_out = false, interrupted = false;
  int status = 0;
  std::string output;      ///< what it wrote, the last MiB of it
  std::string last_words;  ///< the end of that
};

/// A worker that waits for its next session, or none.
class Waiting {
 public:
  Waiting() = default;
  Waiting(const Waiting&) = delete;
  ~Waiting();

 private:
  friend End run_child(const std::filesystem::path&, const std::filesystem::path&, double,
                       const std::function<void(const nlohmann::json&)>&, Waiting*);
  void start(const std::filesystem::path& program, const std::filesystem::path& request, bool alone);
  void ask(const std::filesystem::path& request);
  int end();
  int process_ = 0, events_ = -1, requests_ = -1;
};

/// Starts a worker on a request, hands each event it reports to `on_event`, and kills it, with all that it started,
/// after `time_limit` seconds. `waiting`: the worker that waits there takes the request, if there is one, and the one
/// that took it waits there afterwards, if it is fit for another.
End run_child(const std::filesystem::path& program, const std::filesystem::path& request, double time_limit,
              const std::function<void(const nlohmann::json&)>& on_event, Waiting* waiting = nullptr);

}  // namespace ladder
