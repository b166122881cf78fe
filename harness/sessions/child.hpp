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

/// Starts a worker on a request, hands each event it reports to `on_event`, and kills it, with all that it started,
/// after `time_limit` seconds.
End run_child(const std::filesystem::path& program, const std::filesystem::path& request, double time_limit,
              const std::function<void(const nlohmann::json&)>& on_event);

}  // namespace ladder
