#include "runner/interleave.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "records/comparison.hpp"
#include "records/record.hpp"
#include "runner/child.hpp"
#include "runner/progress.hpp"
#include "runner/run.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::vector<DeviceKind> kinds_of_all(const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants) {
  std::vector<DeviceKind> shared;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(shared), [&](DeviceKind kind) {
    return std::all_of(variants.begin(), variants.end(), [&](const Variant& v) { return v.modules.count(kind) > 0; });
  });
  if (!shared.empty()) return shared;
  std::string names, why;
  for (const Variant& v : variants) {
    names += (names.empty() ? "" : ", ") + v.id;
    for (const auto& [kind, reason] : v.broken) why += fmt::format("; {} {}", v.id, reason);
  }
  throw Error(fmt::format("there is no device here that all of {} were built for: choose others{}", names, why));
}

bool went_well(const json& row) {
  const std::string status = row.at("status");
  return status != "invalid" && status != "failed";
}

}  // namespace

std::vector<int> interleaved_order(int variants, int sessions) {
  std::vector<int> order;
  for (int round = 0; round < sessions; ++round)
    for (int i = 0; i < variants; ++i) order.push_back(round % 2 ? variants - 1 - i : i);
  return order;
}

int run_interleaved(const RunOptions& o, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
                    std::vector<Workload> workloads, int sessions, double margin) {
  catch_interrupts();
  const std::vector<DeviceKind> shared = kinds_of_all(kinds, variants);
  std::string holder;
  const auto alone = FileLock::take(o.out, holder);
  if (!alone)
    throw Error(fmt::format("{} is being written by {}: wait for it, or choose another --out", o.out.string(), holder));
  json record = {{"schema_version", record_version},
                 {"context", context(o.argv, o.gpu)},
                 {"workloads", json::array()},
                 {"rows", json::array()},
                 {"comparisons", json::array()}};
  const std::vector<int> order = interleaved_order(int(variants.size()), sessions);
  Progress progress(order.size() * shared.size() * workloads.size());
  std::map<DeviceKind, Limits> limits = limits_of(o, shared, record["context"], progress);
  const Scratch scratch;
  bool named_left_out = false;
  for (Workload& w : workloads) {
    if (interrupted()) break;
    progress.doing(w.name + ": getting the data ready");
    try {
      for (const std::string& done : make_ready(w, scratch.path)) progress.say(done);
    } catch (const std::exception& error) {
      if (o.insist) throw;
      progress.not_to_do(order.size() * shared.size(), fmt::format("{} is left out: {}", w.name, error.what()));
      record["context"]["left_out"].push_back({{"workload", w.name}, {"reason", error.what()}});
      named_left_out = named_left_out || w.named;
      continue;
    }
    record["workloads"].push_back(describe(w));
    for (const DeviceKind kind : shared) {
      std::set<int> out_of_it;  // refused, invalid or failed once: it would be again
      for (size_t position = 0; position < order.size() && !interrupted(); ++position) {
        const int which = order[position];
        const Variant& v = variants[size_t(which)];
        // Without the base, or with nothing but the base, there is nothing to compare.
        const bool pointless = out_of_it.count(0) || out_of_it.size() + 1 == variants.size();
        if (out_of_it.count(which) || pointless) {
          progress.skip(1);
          continue;
        }
        Setting setting = setting_of(v, kind, o);
        setting.session = int(position);
        limits[kind].gpus = setting.gpus * setting.ranks;
        std::vector<json> rows = rows_of_session({.variant = &v, .setting = setting, .scopes = scopes_of(v, o)}, w, o,
                                                 limits[kind], scratch.path, "", progress);
        progress.session_done(fmt::format("{:<20} {:<14} {}", v.id, w.name, to_string(kind)) + summary(rows));
        if (std::none_of(rows.begin(), rows.end(), [](const json& row) { return row["median_ms"].is_number(); }))
          out_of_it.insert(which);
        for (json& row : rows) record["rows"].push_back(std::move(row));
        write_record(record, o.out);
      }
    }
  }
  const Comparisons found = compare_variants(
      record, [&](const json& row) { return row.at("variant") == variants[0].id ? "" : variants[0].id; }, nullptr,
      margin);
  record["comparisons"] = found.rows;
  record["context"]["complete"] = !interrupted();
  write_record(record, o.out);
  fmt::print("\n{}record: {}\n", table(found), o.out.string());
  if (interrupted()) return 130;
  const bool well = std::all_of(record["rows"].begin(), record["rows"].end(), went_well);
  return well && !named_left_out ? 0 : 1;
}

}  // namespace ladder
