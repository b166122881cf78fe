#include "sessions/session.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <set>

#include "protocol/request.hpp"
#include "records/record.hpp"
#include "sessions/child.hpp"
#include "sessions/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

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

}  // namespace

std::vector<json> rows_of_session(const Variant& v, const Workload& w, DeviceKind kind, const RunOptions& o,
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
    } else if (what == "row") {
      for (json& row : rows) {
        if (row["scope"] != event["scope"]) continue;
        for (const auto& [key, value] : event.items()) {
          if (key != "event") row[key] = value;
        }
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
    for (const char* key : {"axes", "iterations", "reassigned", "inertia", "peak_device_bytes"}) row[key] = result[key];
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

}  // namespace ladder
