#include "runner/session.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <set>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/npy.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/launcher.hpp"
#include "sandbox/sandbox.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// What a session said of itself.
struct Heard {
  std::string doing;  ///< the last thing that it began
  double doing_since = now_seconds();
  std::map<std::string, Timed> timed;   ///< by scope
  std::optional<SessionResult> result;  ///< the last word counts
  std::string refused, error;
  bool ended = false;

  void take(const json& event) {
    const std::string what = event.value("event", "");
    if (what == "scope") {
      doing = event.value("scope", "");
      doing_since = now_seconds();
    } else if (what == "timed") {
      const Timed times = event.get<Timed>();
      timed[times.scope] = times;
    } else if (what == "refused") {
      refused = event.value("reason", "");
    } else if (what == "result") {
      result = event.get<SessionResult>();
    } else if (what == "error") {
      error = event.value("reason", "");
    } else if (what == "end") {
      ended = true;
    }
  }
};

/// The end of a text: so many lines, and 2,000 bytes at most.
std::string last_lines(const std::string& text, size_t lines) {
  size_t from = text.size();
  for (size_t i = 0; i < lines && from != std::string::npos && from > 0; ++i) from = text.rfind('\n', from - 1);
  from = from == std::string::npos || from == 0 ? 0 : from + 1;
  return cleaned(std::string_view(text).substr(std::max(from, text.size() - std::min<size_t>(text.size(), 2000))));
}

/// What is left of an address sanitizer's or a kernel's complaint: its first telling line.
std::string telling_line(const std::string& words) {
  std::string last;
  for (size_t from = 0; from < words.size();) {
    const size_t to = std::min(words.find('\n', from), words.size());
    const std::string line = words.substr(from, to - from);
    if (line.find("ERROR: ") != std::string::npos || line.find("runtime error: ") != std::string::npos) return line;
    if (line.find_first_not_of(" \t=-") != std::string::npos) last = line;
    from = to + 1;
  }
  return last;
}

/// The cause first, then where.
std::string how_it_ended(const End& end, const Heard& heard, const Request& request) {
  const std::string where = heard.doing.empty() ? "at its start" : "in " + heard.doing;
  const std::string words = telling_line(end.last_words);
  if (!end.stopped.empty()) return fmt::format("stopped {}: {}", where, end.stopped);
  if (end.timed_out) {
    return fmt::format(
        "not done after {:.3g} s: {}the last it began was {}, {:.0f} s before; --time-limit gives it more",
        request.time_limit, words.rfind("simt: kernel ", 0) == 0 ? words.substr(6) + "; " : "",
        heard.doing.empty() ? "to start" : heard.doing, now_seconds() - heard.doing_since);
  }
  if (WIFSIGNALED(end.status)) {
    const int signal = WTERMSIG(end.status);
    const std::string ended = fmt::format("signal {} ({}) {}{}", signal, strsignal(signal), where,
                                          request.ranks > 1 ? ", as rank 0 or its launcher was" : "");
    const bool address = signal == SIGSEGV || signal == SIGBUS;
    const std::string remedy =
        address ? fmt::format(": a wrong address; run `ladder check {}` to see the line", request.variant) : "";
    return (words.empty() ? "" : words + "; ") + "ended by " + ended + remedy;
  }
  const std::string ended = fmt::format("ended with status {} {}", WEXITSTATUS(end.status), where);
  return words.empty() ? ended : fmt::format("{}; {}", words, ended);
}

Request request_of(const Session& session, const Workload& w, const RunOptions& o, const fs::path& dump) {
  const Variant& v = *session.variant;
  const DeviceKind kind = session.setting.device;
  Request request;
  request.variant = v.id;
  request.workload = w.name;
  request.device = kind;
  request.ranks = session.setting.ranks;
  for (int gpu = 0; gpu < session.setting.gpus * session.setting.ranks; ++gpu)
    request.ordinals.push_back(kind == DeviceKind::cuda ? o.ordinal + gpu : gpu);
  request.points = w.points.string();
  request.centroids = w.centroids.string();
  request.csr = w.csr;
  request.type = w.type;
  request.stop = w.stop;
  request.metric = w.metric;
  request.kernel = w.kernel;
  request.seed = w.seed;
  request.scopes = session.scopes;
  request.axes = session.setting.axes;
  request.judge = judge_of(session, o);
  request.time_limit = o.time_limit > 0 ? o.time_limit : time_limit_of(w, session, o);
  request.warm_up_seconds = o.warm_up_seconds;
  request.sustained_seconds = o.sustained_seconds;
  request.min_seconds = o.min_seconds;
  request.max_seconds = o.max_seconds;
  request.validation_budget = o.validation_budget;
  request.all_labels = o.all_labels;
  request.cold = o.cold;
  request.check_only = o.check_only;
  request.profile = o.profile;
  request.dump = dump.string();
  request.benchmark_flags = o.benchmark_flags;
  return request;
}

/// The module that a session loads: a copy, in a folder of the run, of the file that was hashed when the run began, so
/// that a build or another variant that changes the file meanwhile changes no row. Throws Error where it has changed.
fs::path copy_of_module(const Variant& v, DeviceKind kind, const fs::path& scratch) {
  const fs::path& module = v.modules.at(kind);
  const fs::path copy = scratch / "modules" / to_string(kind) / module.filename();
  const auto known = v.module_hash.find(kind);
  const auto is_it = [&] { return known == v.module_hash.end() || hash_file(copy) == known->second; };
  if (fs::exists(copy) && is_it()) return copy;
  std::error_code error;
  fs::create_directories(copy.parent_path(), error);
  if (!error) fs::copy_file(module, copy, fs::copy_options::overwrite_existing, error);
  if (error)
    throw Error(
        fmt::format("{} cannot be copied ({}): if it was removed since the run began, build it and run {} again",
                    module.string(), error.message(), v.id));
  if (!is_it())
    throw Error(fmt::format("{} has changed since the run began, so that its rows would be of two builds: run {} again",
                            module.string(), v.id));
  return copy;
}

/// Why there is nothing to run; empty where there is.
std::pair<std::string, std::string> status_beforehand(const Session& session, const RunOptions& o) {
  const Variant& v = *session.variant;
  const DeviceKind kind = session.setting.device;
  if (const auto broken = v.broken.find(kind); broken != v.broken.end()) return {"failed", broken->second};
  if (o.cold && kind != DeviceKind::cuda) return {"refused", "cold caches are made on a GPU only"};
  if (o.cold && v.modules.at(kind).extension() == ".py")
    return {"refused", "a library keeps its data where it likes: no cache is made cold for it"};
  const int most = v.card.value("gpus", 1), wanted = session.setting.gpus * session.setting.ranks;
  if (wanted > most)
    return {"refused", fmt::format("can use {} GPUs at most, and --gpus {} with --ranks {} gives it {}", most,
                                   session.setting.gpus, session.setting.ranks, wanted)};
  for (const json& axis : v.card.value("axes", json::array())) {
    const std::string name = axis.at("name");
    const auto values = axis.at("values").get<std::vector<int>>();
    const int value = session.setting.axes.at(name);
    if (std::find(values.begin(), values.end(), value) == values.end())
      return {"refused", fmt::format("its axis {} has no value {}: it has {}", name, value, listed(values))};
  }
  return {};
}

/// To start a worker and its context takes a GPU longer than to check a small problem. What is timed stays alone, so
/// that sessions are independent, unless --share asks for less; so does Python in a check, whose process ends with its
/// worker, and what might change other GPUs.
bool may_share(const Session& session, const RunOptions& o) {
  const Setting& setting = session.setting;
  const bool python = session.variant->modules.at(setting.device).extension() == ".py";
  return (o.share || (o.check_only && !python)) && setting.device != DeviceKind::cpu &&
         setting.gpus * setting.ranks == 1;
}

constexpr int cold_starts = 5, fewest_cold_starts = 3;

/// The row of the scope cold_start: fresh workers one after another, each of which runs the request once.
/// `request` is that of a session that has left its validated solve in request.validated.
Timed time_cold_starts(const fs::path& program, Request request, const fs::path& scratch) {
  Timed row;
  row.scope = "cold_start";
  request.scopes = {row.scope};
  const fs::path file = scratch / "cold_start.json";
  const int most = request.device == DeviceKind::simt ? 1 : cold_starts;  // that device's times say nothing of a GPU
  std::map<std::string, std::vector<double>> parts;
  const double begin = now_seconds();
  const auto late = [&] {
    const double limit =
        int(row.samples_ms.size()) < fewest_cold_starts ? 3 * request.max_seconds : request.max_seconds;
    return !row.samples_ms.empty() && now_seconds() - begin > limit;
  };
  while (int(row.samples_ms.size()) < most && !late()) {
    Heard heard;
    request.begun = now_seconds();
    write_whole(file, json(request).dump());
    const End end = run_child(program, file, request.time_limit, [&](const json& event) { heard.take(event); });
    const auto found = heard.timed.find(row.scope);
    if (found == heard.timed.end() || !heard.ended) {
      row.status = heard.refused.empty() ? "failed" : "refused";
      row.reason = !heard.refused.empty() ? heard.refused
                   : !heard.error.empty() ? heard.error
                   : end.interrupted      ? "interrupted (Ctrl-C) in cold_start"
                                          : how_it_ended(end, heard, request);
      row.samples_ms.clear();
      row.iterations.clear();
      return row;
    }
    const Timed& sample = found->second;
    row.samples_ms.push_back(seven_digits(sample.samples_ms.at(0)));
    row.iterations.push_back(sample.iterations.at(0));
    row.labels_differ = sample.labels_differ;
    for (const auto& [part, ms] : sample.parts_ms) parts[part].push_back(ms);
    row.status = sample.status;
    row.reason = sample.reason;
    if (row.status != "ok") break;
  }
  const Summary q = summarise(row.samples_ms);
  row.median_ms = q.median;
  if (row.samples_ms.size() >= 5) row.q1_ms = q.q1, row.q3_ms = q.q3;
  row.verdict = int(row.samples_ms.size()) < most            ? "time"
                : q.relative_iqr() < StopRule().relative_iqr ? "settled"
                                                             : "steady";
  for (const auto& [part, ms] : parts) row.parts_ms[part] = seven_digits(summarise(ms).median);
  return row;
}

/// Adds the roofline fields to a row that has all others.
void put_roofline(json& row, const Session& session, const Workload& w, const Limits& limits) {
  // Of a timed solve its own iterations count: a sum in another order may end it one sooner.
  const auto of_samples = row["solve_iterations"].get<std::vector<int>>();
  int iterations = row["iterations"].is_number() ? row["iterations"].get<int>() : 0;
  if (!of_samples.empty()) iterations = *std::min_element(of_samples.begin(), of_samples.end());
  const auto median = row["median_ms"].get<std::optional<double>>();
  const Roofline roofline = roofline_of(row["scope"], w, session.variant->card, iterations, median, limits);
  if (median) {
    const bool simt = session.setting.device == DeviceKind::simt;
    const Limits sure{simt ? limits.host : limits.ceilings,
                      simt ? double(limits.host.l2_bytes.value_or(0)) : limits.kept_bytes, simt ? 1 : limits.gpus};
    const Roofline least =
        simt ? roofline_of(row["scope"], w, session.variant->card, iterations, median, sure) : roofline;
    if (const std::string why = too_fast(least, *median, sure, session.setting.device); !why.empty()) {
      without_times(row, "invalid", why);
      row.update(json(roofline_of(row["scope"], w, session.variant->card, iterations, std::nullopt, limits)));
      return;
    }
  }
  row.update(json(roofline));
}

}  // namespace

std::vector<std::string> scopes_of(const Variant& v, const RunOptions& o) {
  if (!o.scopes.empty()) return o.scopes;
  const std::string shows = v.card.value("shows", "");
  std::vector<std::string> scopes;
  for (const Scope& scope : all_scopes) {
    if (scope.standard || scope.name == shows) scopes.emplace_back(scope.name);
  }
  return scopes;
}

std::string judge_of(const Session& session, const RunOptions& o) {
  const Setting& setting = session.setting;
  if (o.profile || setting.gpus * setting.ranks > 1) return "inside";
  return o.judge == "auto" ? "apart" : o.judge;
}

double time_limit_of(const Workload& w, const Session& session, const RunOptions& o) {
  // Multiply-adds a second that the slowest honest variants reached: one thread of a CPU, or a GPU whose threads queue.
  const double rate = session.setting.device == DeviceKind::cuda ? 5e9 : 1.5e8;
  const double pass = double(w.n) * double(w.d) * w.k / rate;
  const bool whole = std::any_of(session.scopes.begin(), session.scopes.end(),
                                 [](const std::string& scope) { return scope_named(scope).whole; });
  const double passes = !whole ? 2 : w.stop.rule == Stop::Rule::fixed ? w.stop.iterations : w.stop.max_iterations;
  const double load = double(w.n) * double(w.d) * 8 / 1e8;
  const double warm_up = session.setting.device == DeviceKind::cuda ? o.warm_up_seconds + o.sustained_seconds : 0;
  // A solve is validated and then timed in two scopes; every scope is checked, warmed up and sampled.
  const double every = double(w.n) * double(w.d) * w.k;
  const double check = std::min(o.validation_budget, every) / 2e8;
  const double scope = check + warm_up + std::max(2 * o.min_seconds, 5 * pass);
  const double all_labels = o.all_labels && whole ? every / 2e9 : 0;
  return std::clamp(15 + load + all_labels + 3 * passes * pass + double(session.scopes.size()) * scope, 20.0, 300.0);
}

namespace {

std::vector<json> new_rows(const Session& session, const Workload& w, const Limits& limits) {
  std::vector<json> rows;
  for (const std::string& scope : session.scopes) {
    rows.push_back(new_row(*session.variant, w, scope, session.setting));
    put_roofline(rows.back(), session, w, limits);
  }
  return rows;
}

std::vector<json> run_session(const Session& session, const Workload& w, const RunOptions& o, const Limits& limits,
                              const fs::path& scratch, const fs::path& dump, Progress& progress, Waiting* waiting) {
  const Variant& v = *session.variant;
  std::vector<json> rows = new_rows(session, w, limits);
  const auto all = [&](const std::string& status, const std::string& reason) {
    for (json& row : rows) without_times(row, status, reason);
    return rows;
  };
  if (const auto [status, reason] = status_beforehand(session, o); !status.empty()) return all(status, reason);

  Request request = request_of(session, w, o, dump);
  request.module = copy_of_module(v, session.setting.device, scratch).string();
  if (std::any_of(session.scopes.begin(), session.scopes.end(), [](const auto& s) { return scope_named(s).fresh; }))
    request.validated = (scratch / "validated").string();
  const fs::path request_file = scratch / "request.json";
  write_whole(request_file, json(request).dump(1));
  Heard heard;
  const std::string label = fmt::format("{} {} on {}", v.id, w.name, to_string(session.setting.device));
  fs::path program = session.worker.empty() ? worker(session.setting.device) : session.worker;
  if (session.worker.empty() && !o.workers.empty()) program = o.workers / program.filename();
  if (o.sandbox) {
    Sandbox sandbox;
    sandbox.readable = {scratch, program.parent_path(), source_folder(), request.points, request.centroids};
    sandbox.hidden = o.hidden;
    sandbox.cpu_seconds = request.time_limit * 4;  // of all threads
    program = in_sandbox(sandbox, program, scratch);
  }
  const std::string launcher = request.ranks > 1 ? mpi_launcher(o.launcher) : "";
  if (!launcher.empty()) program = under_mpi(launcher, program, request.ranks, scratch);
  const End end = run_child(
      program, request_file, request.time_limit,
      [&](const json& event) {
        heard.take(event);
        if (event.value("event", "") == "scope") progress.doing(label + ": " + heard.doing);
      },
      may_share(session, o) ? waiting : nullptr);
  progress.output(o.show_output ? end.output : last_lines(end.output, 5));
  if (!end.stopped.empty() && !heard.ended) return all("failed", how_it_ended(end, heard, request));
  if (!heard.error.empty()) return all("failed", heard.error);
  if (!heard.refused.empty()) return all("refused", heard.refused);
  const bool stopped = end.timed_out || end.interrupted;  // by us: what it had said until then was checked, and holds
  const std::string unfinished =
      end.interrupted
          ? "interrupted (Ctrl-C) " + (heard.doing.empty() ? "at its start" : "in " + heard.doing)
          : how_it_ended(end, heard, request) +
                (launcher.empty() || !heard.doing.empty()
                     ? ""
                     : fmt::format("; {} was to start the ranks: --launcher own does without it", launcher));
  if (!heard.ended && !stopped) return all("failed", unfinished);
  for (const std::string& scope : session.scopes) {
    const bool validated = heard.ended && heard.result && heard.result->fault.empty() && !o.check_only;
    if (!scope_named(scope).fresh || heard.timed.count(scope) || !validated) continue;
    progress.doing(label + ": " + scope);
    heard.timed[scope] = time_cold_starts(program, request, scratch);
  }

  for (json& row : rows) {
    if (heard.result) put(row, *heard.result);
    const bool validated = heard.result && heard.result->validation.steps_checked > 0;
    row["axes"] = session.setting.axes;
    row["judge"] = request.judge;
    const std::string scope = row["scope"];
    const auto timed = heard.timed.find(scope);
    if (timed != heard.timed.end()) put(row, timed->second);
    const std::string fault = heard.result ? heard.result->fault : "";
    if (!fault.empty() && row["status"] != "refused")
      without_times(row, "invalid", fault);
    else if (timed == heard.timed.end() && heard.ended && o.check_only)
      without_times(row, "checked", "validated, not timed (--check)");
    else if (timed == heard.timed.end())
      without_times(row, "failed", heard.ended ? "the session ended without a result for this scope" : unfinished);
    else if (row["status"] == "ok" || row["status"] == "unstable") {
      if (!validated)
        without_times(row, "failed", "the session reported no validation" + (heard.ended ? "" : ": " + unfinished));
      else if (!heard.ended)
        row["status"] = "unstable", row["reason"] = stopped_early + unfinished;
    }
    put_roofline(row, session, w, limits);
    if (row["status"] != "refused" && fault.empty() && heard.result && heard.result->dumped)
      row["dump"] = fs::relative(dump, o.out.parent_path().empty() ? fs::path(".") : o.out.parent_path()).string();
  }
  return rows;
}

}  // namespace

std::vector<json> rows_of_session(const Session& session, const Workload& w, const RunOptions& o, const Limits& limits,
                                  const fs::path& scratch, const fs::path& dump, Progress& progress, Waiting* waiting) {
  // A session's own trouble ends no other.
  const auto failed = [&](const std::string& reason) {
    std::vector<json> rows = new_rows(session, w, limits);
    for (json& row : rows) without_times(row, "failed", reason);
    return rows;
  };
  try {
    const std::string before = stamps_of(w);
    std::vector<json> rows = run_session(session, w, o, limits, scratch, dump, progress, waiting);
    mark_contradictions(rows);
    if (stamps_of(w) == before) return rows;
    return failed(fmt::format("the points or initial centroids of {} ({}) were changed or removed while it ran", w.name,
                              w.points.string()));
  } catch (const std::exception& error) {
    return failed(cleaned(error.what()));
  }
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

}  // namespace ladder
