#include "sessions/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "records/record.hpp"
#include "sessions/child.hpp"
#include "sessions/progress.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

int run_ladder(const RunOptions& o, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads) {
  catch_interrupts();

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
    if (interrupted()) break;
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
      if (interrupted()) break;
      const auto& [variant, kind, alone] = session;
      const Variant& v = *variant;
      forget(session, w);
      // A folder of one's own for each device only where one variant meets several.
      const fs::path dump =
          o.dump.empty() ? fs::path() : o.dump / w.name / (alone ? v.id : v.id + "@" + to_string(kind));
      std::vector<json> rows =
          rows_of_session(v, w, kind, o, scratch.path, dump.empty() ? dump : fs::absolute(dump), progress);
      progress.session_done(fmt::format("{:<20} {:<14} {}", v.id, w.name, to_string(kind)) + summary(rows));
      for (json& row : rows) record["rows"].push_back(std::move(row));
      write_record(record, o.out);
    }
    // Initial centroids and converted points of this workload are not needed any more.
    for (const fs::path& file : {w.points, w.centroids}) {
      if (file.parent_path() == scratch.path) fs::remove(file);
    }
  }
  record["context"]["complete"] = !interrupted();
  write_record(record, o.out);
  fmt::print("\n{}\nrecord: {}\n", table(record), o.out.string());
  if (interrupted()) {
    fmt::print(stderr, "interrupted: what is done is kept; the same command with --resume goes on\n");
    return 130;
  }
  // Rows that were kept count too: the status is the record's.
  const bool bad = std::any_of(record["rows"].begin(), record["rows"].end(),
                               [](const json& row) { return row["status"] == "invalid" || row["status"] == "failed"; });
  return bad ? 1 : 0;
}

}  // namespace ladder
