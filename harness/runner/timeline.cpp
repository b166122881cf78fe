#include "runner/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "base/text.hpp"
#include "formats/schema.hpp"
#include "records/record.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int schema_version = 1;

/// A program that runs the worker with the library in it.
fs::path with_library(const fs::path& events, const fs::path& scratch) {
  const fs::path script = scratch / "with_timeline";
  std::ofstream(script) << fmt::format("#!/bin/sh\nCUDA_INJECTION64_PATH={} LADDER_TIMELINE={} exec {} \"$@\"\n",
                                       quoted(timeline_library().string()), quoted(events.string()),
                                       quoted(worker(DeviceKind::cuda).string()));
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

bool same_place(const json& a, const json& b) {
  constexpr std::array fields = {"variant", "workload", "scope"};
  return std::all_of(fields.begin(), fields.end(), [&](const char* field) { return a.at(field) == b.at(field); });
}

Traced trace_session(const Variant& v, const Workload& w, const RunOptions& o, const fs::path& scratch,
                     Progress& progress) {
  const fs::path events = scratch / "timeline.json";
  fs::remove(events);
  Session session;
  session.variant = &v;
  session.setting = {.device = DeviceKind::cuda, .axes = axes_of(v, o.axes)};
  session.scopes = o.scopes;
  session.worker = with_library(events, scratch);
  const json row = rows_of_session(session, w, o, {}, scratch, "", progress).at(0);
  if (row.at("status") != "ok") return {row.at("status"), row.at("reason"), {}};
  if (!fs::exists(events)) {
    const fs::path log = scratch / "request.json.log";
    const std::string words = fs::exists(log) ? read_whole(log) : "";
    const size_t ours = words.rfind("timeline: ");
    return {"failed",
            ours == std::string::npos ? "CUPTI recorded nothing: a sandbox may keep it from the driver"
                                      : words.substr(ours, words.find('\n', ours) - ours),
            {}};
  }
  const json where = context({}, o.gpu);
  json timeline = {{"variant", v.id},
                   {"workload", w.name},
                   {"n", w.n},
                   {"d", w.d},
                   {"k", w.k},
                   {"type", w.type},
                   {"scope", o.scopes.at(0)},
                   {"module_hash", v.module_hash.at(DeviceKind::cuda)},
                   {"iterations", row.at("solve_iterations")},
                   {"gpu", o.gpu},
                   {"time", where.at("time")},
                   {"git_sha", where.at("git_sha")},
                   {"git_dirty", where.at("git_dirty")}};
  const json traced = read_json(events);
  if (!traced.is_object()) throw Error(fmt::format("{} holds no timeline: its library wrote none", events.string()));
  timeline.update(traced);
  schema_named("timeline")
      .need({{"schema_version", schema_version}, {"timelines", {timeline}}}, events,
            "its library wrote something else");
  return {"ok", "", {timeline}};
}

}  // namespace

fs::path timeline_library() {
  const fs::path library = worker(DeviceKind::cuda).parent_path() / "libladder_timeline.so";
  return fs::exists(library) ? library : fs::path();
}

Traced trace_sessions(const Variant& v, const Workload& w, const RunOptions& o, int samples, const fs::path& scratch,
                      Progress& progress) {
  std::vector<json> made;
  for (int s = 0; s < samples && !interrupted(); ++s) {
    Traced one = trace_session(v, w, o, scratch, progress);
    if (one.status != "ok") return one;
    made.push_back(std::move(one.timelines.front()));
  }
  if (made.empty()) return {"failed", "interrupted", {}};
  const auto middle = made.begin() + std::ptrdiff_t(made.size() / 2);
  std::nth_element(made.begin(), middle, made.end(),
                   [](const json& a, const json& b) { return a.at("us").get<double>() < b.at("us").get<double>(); });
  middle->emplace("samples", made.size());
  return {"ok", "", {*middle}};
}

json read_timelines(const fs::path& file) {
  if (!fs::exists(file)) return {{"schema_version", schema_version}, {"timelines", json::array()}};
  json whole = read_json(file);
  schema_named("timeline").need(whole, file, "name another file with --out");
  return whole;
}

void merge_into_timelines(const fs::path& file, const std::vector<json>& timelines) {
  const FileLock alone = FileLock::wait(file);
  json whole = read_timelines(file);
  json& kept = whole.at("timelines");
  for (const json& made : timelines) {
    kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const json& t) { return same_place(t, made); }),
               kept.end());
    kept.push_back(made);
  }
  write_record(whole, file);
}

std::string timeline_text(const json& timeline) {
  struct Stream {
    double busy = 0, end = 0, gap = 0, gap_from = 0;
    size_t events = 0;
  };
  std::map<int64_t, Stream> streams;
  for (const json& e : timeline.at("events")) {
    Stream& s = streams[e.at("stream")];
    const double start = e.at("start_us"), end = start + e.at("us").get<double>();
    if (s.events++ > 0 && start - s.end > s.gap) s.gap = start - s.end, s.gap_from = s.end;
    s.busy += std::max(0.0, end - std::max(start, s.end));
    s.end = std::max(s.end, end);
  }
  std::string text = fmt::format("{} {} {}: {:.2f} ms\n", timeline.at("variant").get<std::string>(),
                                 timeline.at("workload").get<std::string>(), timeline.at("scope").get<std::string>(),
                                 timeline.at("us").get<double>() * 1e-3);
  for (const auto& [number, s] : streams)
    text += fmt::format("  {:<10} {:>6} events, busy {:>8.2f} ms, longest gap {:>7.3f} ms at {:.2f} ms\n",
                        number < 0 ? "host waits" : fmt::format("stream {}", number), s.events, s.busy * 1e-3,
                        s.gap * 1e-3, s.gap_from * 1e-3);
  return text;
}

}  // namespace ladder
