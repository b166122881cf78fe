#include "sessions/run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "base/clock.hpp"
#include "base/statistics.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "records/record.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

volatile sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

fs::path worker(DeviceKind kind) {
  return program_folder() / (kind == DeviceKind::cuda ? "ladder_worker_cuda" : "ladder_worker_simt");
}

/// A folder that goes when the run goes.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "ladder-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// ------------------------------------------------------------------------------------------------------------ progress

std::string clock_text(double seconds) {
  const long s = std::lround(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

/// A line that is rewritten on a terminal; elsewhere a plain line per session.
class Progress {
 public:
  explicit Progress(size_t sessions) : sessions_(sessions), terminal_(isatty(STDERR_FILENO)) {}
  void doing(const std::string& what) {
    if (terminal_) fmt::print(stderr, "\r\033[K{} {}", head(), what);
  }
  void session_done(const std::string& what) {
    ++done_;
    fmt::print(stderr, "{}{} {}\n", terminal_ ? "\r\033[K" : "", head(), what);
  }
  /// That many sessions need not run: they take no time, and count no more.
  void not_to_do(size_t sessions, const std::string& why) {
    sessions_ -= sessions;
    fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", why);
  }

 private:
  std::string head() const {
    const double elapsed = now_seconds() - begin_;
    const std::string to_go = done_ == 0 || done_ == sessions_
                                  ? ""
                                  : fmt::format(", {} to go", clock_text(elapsed / done_ * (sessions_ - done_)));
    return fmt::format("[{:>{}}/{} {}{}]", done_, std::to_string(sessions_).size(), sessions_, clock_text(elapsed),
                       to_go);
  }
  size_t sessions_, done_ = 0;
  bool terminal_;
  double begin_ = now_seconds();
};

// ------------------------------------------------------------------------------------------------- a child per session

/// How a session's process ended.
struct End {
  bool timed_out = false, interrupted = false;
  int status = 0;
  std::string last_words;  ///< end of what it wrote to its standard error
};

std::string tail(const fs::path& file, size_t bytes) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const auto size = size_t(std::max<std::streamoff>(0, in.tellg()));
  in.seekg(std::streamoff(size > bytes ? size - bytes : 0));
  std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t last = text.find_last_not_of(" \n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

/// Starts a worker on a request, hands each event it reports to `on_event`, and kills it after `time_limit` seconds.
End run_child(const fs::path& program, const fs::path& request, double time_limit,
              const std::function<void(const json&)>& on_event) {
  int events[2];
  if (pipe2(events, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe can be made: {}", std::strerror(errno)));
  const fs::path log = request.string() + ".log";
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    const int fd = dup(events[1]);  // without close-on-exec
    execl(program.c_str(), program.c_str(), "run", request.c_str(), std::to_string(fd).c_str(), nullptr);
    _exit(127);
  }
  close(events[1]);
  End end;
  std::string pending;
  const double deadline = now_seconds() + time_limit;
  for (;;) {
    const double left = deadline - now_seconds();
    if (left <= 0 || interrupted) {
      end.timed_out = !interrupted;
      end.interrupted = interrupted;
      break;
    }
    pollfd waiting{events[0], POLLIN, 0};
    if (poll(&waiting, 1, int(std::min(left, 1.0) * 1000) + 1) <= 0) continue;
    char buffer[65536];
    const ssize_t count = read(events[0], buffer, sizeof buffer);
    if (count <= 0) break;
    pending.append(buffer, size_t(count));
    for (size_t line; (line = pending.find('\n')) != std::string::npos; pending.erase(0, line + 1)) {
      const json event = json::parse(pending.substr(0, line), nullptr, false);
      if (event.is_object()) on_event(event);
    }
  }
  close(events[0]);
  if (end.timed_out || end.interrupted) kill(-child, SIGKILL);
  waitpid(child, &end.status, 0);
  kill(-child, SIGKILL);  // whatever it started
  end.last_words = tail(log, 1500);
  return end;
}

// -------------------------------------------------------------------------------------------------------------- a row

json empty_row(const Variant& v, const Workload& w, DeviceKind kind, const std::string& scope, bool cold) {
  return {{"variant", v.id},
          {"base", v.base},
          {"idea", v.idea},
          {"shows", v.card.is_object() ? v.card.value("shows", "") : ""},
          {"workload", w.name},
          {"device", to_string(kind)},
          {"scope", scope},
          {"status", "failed"},
          {"reason", ""},
          {"axes", json::object()},
          {"cache", cold ? "cold" : "warm"},
          {"samples_ms", json::array()},
          {"median_ms", nullptr},
          {"q1_ms", nullptr},
          {"q3_ms", nullptr},
          {"validation", nullptr},
          {"iterations", nullptr},
          {"reassigned", json::array()},
          {"inertia", json::array()},
          {"peak_device_bytes", nullptr},
          {"sm_mhz", nullptr},
          {"flop", 0.0},
          {"bytes", 0.0},
          {"dump", nullptr}};
}

void fault(json& row, const std::string& status, const std::string& reason) {
  row["status"] = status;
  row["reason"] = reason;
  for (const char* key : {"median_ms", "q1_ms", "q3_ms"}) row[key] = nullptr;
  row["samples_ms"] = json::array();
}

/// A scope's times, as its row has them.
void fill(json& row, const Timed& timed) {
  row.update(json(timed));
  row["sm_mhz_samples"] = timed.sm_mhz;
  row["sm_mhz"] = timed.sm_mhz.empty() ? json(nullptr) : json(summarise(timed.sm_mhz).median);
  row["sample_iterations"] = timed.iterations;
  row["iterations"] = nullptr;  // of the validated solve: it comes with the session's result
}

/// What is left of an address sanitizer's or a kernel's complaint: its first telling line.
std::string telling_line(const std::string& words) {
  std::string last;
  for (size_t from = 0; from < words.size();) {
    const size_t to = std::min(words.find('\n', from), words.size());
    const std::string line = words.substr(from, to - from);
    if (line.find("ERROR: ") != std::string::npos || line.find("runtime error: ") != std::string::npos) return line;
    if (line.find_first_not_of(" \t=") != std::string::npos) last = line;
    from = to + 1;
  }
  return last;
}

std::string how_it_ended(const End& end, const std::string& scope, double time_limit) {
  const std::string where = scope.empty() ? "before its first scope" : "in " + scope;
  if (end.timed_out) return fmt::format("not done after {:g} s (--time-limit), stopped {}", time_limit, where);
  const std::string words = telling_line(end.last_words);
  const std::string said = words.empty() ? "" : "; its last words: " + words;
  if (WIFSIGNALED(end.status)) {
    return fmt::format("ended by signal {} ({}) {}{}", WTERMSIG(end.status), strsignal(WTERMSIG(end.status)), where,
                       said);
  }
  return fmt::format("ended with status {} {}{}", WEXITSTATUS(end.status), where, said);
}

/// One session from request to rows.
std::vector<json> run_session(const Variant& v, const Workload& w, DeviceKind kind, const RunOptions& o,
                              const fs::path& scratch, const fs::path& dump, Progress& progress) {
  std::vector<json> rows;
  for (const std::string& scope : o.scopes) rows.push_back(empty_row(v, w, kind, scope, o.cold));
  const auto all = [&](const std::string& status, const std::string& reason) {
    for (json& row : rows) fault(row, status, reason);
  };
  if (const auto broken = v.broken.find(kind); broken != v.broken.end()) {
    all("failed", broken->second);
    return rows;
  }
  Request request;
  request.variant = v.id;
  request.workload = w.name;
  request.module = v.modules.at(kind).string();
  request.device = kind;
  request.ordinals = {o.ordinal};
  request.points = w.points.string();
  request.centroids = w.centroids.string();
  request.type = w.type;
  request.stop = w.stop;
  request.seed = w.seed;
  request.scopes = o.scopes;
  request.axes = o.axes;
  request.time_limit = o.time_limit;
  request.min_seconds = o.min_seconds;
  request.max_seconds = o.max_seconds;
  request.validation_budget = o.validation_budget;
  request.cold = o.cold;
  request.dump = dump.string();
  request.benchmark_flags = o.benchmark_flags;
  const fs::path request_file = scratch / "request.json";
  std::ofstream(request_file) << json(request).dump(1);

  std::string scope, refused, error;
  json result;
  bool ended = false;
  const std::string label = fmt::format("{} {} on {}", v.id, w.name, to_string(kind));
  const End end = run_child(worker(kind), request_file, o.time_limit, [&](const json& event) {
    const std::string what = event.value("event", "");
    if (what == "scope") {
      scope = event.value("scope", "");
      progress.doing(label + ": " + scope);
    } else if (what == "timed") {
      for (json& row : rows) {
        if (row["scope"] == event["scope"]) fill(row, event.get<Timed>());
      }
    } else if (what == "refused") {
      refused = event.value("reason", "");
    } else if (what == "error") {
      error = event.value("reason", "");
    } else if (what == "result") {
      result = event;
    } else if (what == "end") {
      ended = true;
    }
  });
  if (end.interrupted)
    all("failed", "interrupted (Ctrl-C) " + (scope.empty() ? "at its start" : "in " + scope));
  else if (!error.empty())
    all("failed", error);
  else if (!ended)
    all("failed", how_it_ended(end, scope, o.time_limit));
  else if (!refused.empty())
    all("refused", refused);
  if (!ended || !refused.empty() || !result.is_object()) return rows;

  const std::string wrong = result.value("fault", "");
  for (json& row : rows) {
    if (!wrong.empty()) fault(row, "invalid", wrong);
    row["validation"] = result["validation"];
    for (const char* key : {"axes", "iterations", "reassigned", "inertia", "iteration_ms", "counters", "prepare_ms",
                            "peak_device_bytes"}) {
      row[key] = result[key];
    }
    const int iterations = row["iterations"].is_number() ? row["iterations"].get<int>() : 1;
    const Minimum least = minimum_of(row["scope"], w, iterations);
    row["flop"] = least.flop;
    row["bytes"] = least.bytes;
    if (row["status"] != "refused" && wrong.empty() && result.value("dumped", false)) {
      row["dump"] = fs::relative(dump, o.out.parent_path().empty() ? fs::path(".") : o.out.parent_path()).string();
    }
  }
  return rows;
}

std::string summary(const std::vector<json>& rows) {
  std::string text;
  std::set<std::string> reasons;
  for (const json& row : rows) {
    const std::string scope = row["scope"], status = row["status"];
    if (row["median_ms"].is_number()) text += fmt::format("  {} {:.4g} ms", scope, row["median_ms"].get<double>());
    if (status != "ok" && status != "refused" && reasons.insert(row["reason"]).second) {
      text += fmt::format("  {}: {}", status, row["reason"].get<std::string>());
    }
  }
  if (text.empty()) text = "  refused: " + rows.front()["reason"].get<std::string>();
  return text;
}

json ask_devices(DeviceKind kind) {
  const fs::path program = worker(kind);
  if (!fs::exists(program)) return json::array();
  FILE* pipe = popen(fmt::format("'{}' devices 2>/dev/null", program.string()).c_str(), "r");
  if (!pipe) return json::array();
  std::string text;
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
  pclose(pipe);
  const json found = json::parse(text, nullptr, false);
  return found.is_array() ? found : json::array();
}

}  // namespace

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

json find_devices() {
  json devices = ask_devices(DeviceKind::cuda);
  for (const json& simt : ask_devices(DeviceKind::simt)) devices.push_back(simt);
  devices.push_back({{"kind", "cpu"},
                     {"ordinal", 0},
                     {"name", "native CPU code"},
                     {"multiprocessors", int(sysconf(_SC_NPROCESSORS_ONLN))},
                     {"memory_bytes", int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}});
  return devices;
}

std::string why_no_gpu() {
  if (!fs::exists(worker(DeviceKind::cuda)))
    return "this build has no CUDA in it (nvcc was not found when it was made)";
  return "the CUDA runtime finds no GPU that works (is there one, and its driver? nvidia-smi tells)";
}

int run_ladder(const RunOptions& o, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads) {
  struct sigaction action {};
  action.sa_handler = interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);

  json record = {{"schema_version", 1},
                 {"context", context(o.argv, o.gpu)},
                 {"workloads", json::array()},
                 {"rows", json::array()}};
  if (o.resume && fs::exists(o.out)) {
    const json old = read_record(o.out);
    // One record, one machine, one state of the sources: otherwise its rows could not be compared.
    const json &was = old.at("context"), &is = record["context"];
    for (const char* key : {"git_sha", "host", "gpu", "compiler"}) {
      if (was.at(key) == is[key]) continue;
      throw Error(fmt::format("{} was begun with another '{}' ({}, now {}): choose another --out", o.out.string(), key,
                              was.at(key).dump(), is[key].dump()));
    }
    record["workloads"] = old.at("workloads");
    record["rows"] = old.at("rows");
  }
  const auto is_for = [&](const Variant& v, DeviceKind kind) { return v.modules.count(kind) || v.broken.count(kind); };

  struct Session {
    const Variant* variant;
    DeviceKind kind;
    bool alone;  ///< its variant meets no other device in this run
  };
  std::vector<Session> all;
  for (const Variant& v : variants) {
    const auto meets = std::count_if(kinds.begin(), kinds.end(), [&](DeviceKind kind) { return is_for(v, kind); });
    for (const DeviceKind kind : kinds) {
      if (is_for(v, kind)) all.push_back({&v, kind, meets == 1});
    }
  }
  const auto is_of = [](const json& row, const Session& s, const Workload& w) {
    return row["variant"] == s.variant->id && row["workload"] == w.name && row["device"] == to_string(s.kind);
  };
  // What an earlier, interrupted run finished need not be done again.
  const auto done_before = [&](const Session& s, const Workload& w) {
    std::set<std::string> scopes;
    for (const json& row : record["rows"]) {
      if (is_of(row, s, w) && row["status"] != "failed") scopes.insert(row["scope"]);
    }
    return std::all_of(o.scopes.begin(), o.scopes.end(),
                       [&](const std::string& scope) { return scopes.count(scope) > 0; });
  };
  const auto forget = [&](const Session& s, const Workload& w) {
    json kept = json::array();
    for (json& row : record["rows"]) {
      if (!is_of(row, s, w)) kept.push_back(std::move(row));
    }
    record["rows"] = std::move(kept);
  };
  Progress progress(all.size() * workloads.size());
  const Scratch scratch;
  for (Workload& w : workloads) {
    if (interrupted) break;
    std::vector<Session> sessions;
    std::copy_if(all.begin(), all.end(), std::back_inserter(sessions),
                 [&](const Session& s) { return !done_before(s, w); });
    if (const size_t kept = all.size() - sessions.size(); kept > 0)
      progress.not_to_do(kept, fmt::format("{}: {} of {} sessions kept from before", w.name, kept, all.size()));
    if (sessions.empty()) continue;
    progress.doing(w.name + ": getting the data ready");
    try {
      make_ready(w, scratch.path);
    } catch (const std::exception& error) {
      if (o.insist) throw;
      progress.not_to_do(sessions.size(), fmt::format("{} is left out: {}", w.name, error.what()));
      record["context"]["left_out"].push_back({{"workload", w.name}, {"reason", error.what()}});
      continue;
    }
    const bool listed = std::any_of(record["workloads"].begin(), record["workloads"].end(),
                                    [&](const json& known) { return known["name"] == w.name; });
    if (!listed) record["workloads"].push_back(describe(w));
    for (const Session& session : sessions) {
      if (interrupted) break;
      const auto& [variant, kind, alone] = session;
      const Variant& v = *variant;
      forget(session, w);
      // A folder of one's own for each device only where one variant meets several.
      const fs::path dump =
          o.dump.empty() ? fs::path() : o.dump / w.name / (alone ? v.id : v.id + "@" + to_string(kind));
      std::vector<json> rows =
          run_session(v, w, kind, o, scratch.path, dump.empty() ? dump : fs::absolute(dump), progress);
      progress.session_done(fmt::format("{:<20} {:<14} {}", v.id, w.name, to_string(kind)) + summary(rows));
      for (json& row : rows) record["rows"].push_back(std::move(row));
      write_record(record, o.out);
    }
    // Initial centroids and converted points of this workload are not needed any more.
    for (const fs::path& file : {w.points, w.centroids}) {
      if (file.parent_path() == scratch.path) fs::remove(file);
    }
  }
  record["context"]["complete"] = !interrupted;
  write_record(record, o.out);
  fmt::print("\n{}\nrecord: {}\n", table(record), o.out.string());
  if (interrupted) {
    fmt::print(stderr, "interrupted: what is done is kept; the same command with --resume goes on\n");
    return 130;
  }
  // Rows that were kept count too: the status is the record's.
  const bool bad = std::any_of(record["rows"].begin(), record["rows"].end(),
                               [](const json& row) { return row["status"] == "invalid" || row["status"] == "failed"; });
  return bad ? 1 : 0;
}

}  // namespace ladder
