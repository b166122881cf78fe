#include "runner/interleave.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "base/philox.hpp"
#include "records/comparison.hpp"
#include "records/record.hpp"
#include "runner/child.hpp"
#include "runner/progress.hpp"
#include "runner/run.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::vector<DeviceKind> shared_kinds(const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants) {
  std::vector<DeviceKind> shared;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(shared), [&](DeviceKind kind) {
    return std::all_of(variants.begin(), variants.end(), [&](const Variant& v) { return v.modules.count(kind) > 0; });
  });
  return shared;
}

/// A session with a time that is not believed is run again at its place, and counts as it is then: a round without it
/// is lost, and fewer than five rounds are not compared in turns. One that took too long would do so again.
constexpr int most_repeats = 2;

const json* in_doubt(const std::vector<json>& rows) {
  const auto found = std::find_if(rows.begin(), rows.end(), [](const json& row) {
    return row["status"] == "unstable" && row["reason"].get<std::string>().rfind(stopped_early, 0) != 0;
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string no_shared_kind(const std::vector<Variant>& variants) {
  std::string names, why;
  for (const Variant& v : variants) {
    names += (names.empty() ? "" : ", ") + v.id;
    for (const auto& [kind, reason] : v.broken) why += fmt::format("; {} {}", v.id, reason);
  }
  return fmt::format("there is no device here that all of {} were built for: choose others{}", names, why);
}

/// Those of one comparison on one kind of device, one workload after another.
class InTurns {
 public:
  InTurns(const Compared& compared, DeviceKind kind, int sessions, uint32_t seed)
      : compared_(compared), kind_(kind), order_(interleaved_order(int(compared.variants.size()), sessions, seed)) {
    for (const Variant& v : compared.variants) turns_.variants.push_back(v.id);
    turns_.seed = seed;
  }

  void run(const Workload& w, const RunOptions& o, Limits& limits, const fs::path& scratch, Progress& progress,
           json& record) const {
    std::set<int> out_of_it;  // refused, invalid or failed once: it would be again
    for (size_t position = 0; position < order_.size() && !interrupted(); ++position) {
      const int which = order_[position];
      const Variant& v = compared_.variants[size_t(which)];
      // Without the base, or with nothing but the base, there is nothing to compare.
      const bool pointless = out_of_it.count(0) || out_of_it.size() + 1 == compared_.variants.size();
      if (out_of_it.count(which) || pointless) {
        progress.skip(1);
        continue;
      }
      Setting setting = setting_of(v, kind_, o);
      setting.session = int(position);
      setting.turns = turns_;
      limits.gpus = setting.gpus * setting.ranks;
      const std::vector<std::string> scopes = compared_.scopes.empty() ? scopes_of(v, o) : compared_.scopes;
      const Session session = {.variant = &v, .setting = setting, .scopes = scopes};
      std::vector<json> rows = rows_of_session(session, w, o, limits, scratch, "", progress);
      for (int repeat = 0; repeat < most_repeats && !interrupted(); ++repeat) {
        const json* row = in_doubt(rows);
        if (!row) break;
        progress.say(fmt::format("{} {} {} {}: once more, for it is unstable: {}", v.id, w.name, to_string(kind_),
                                 row->at("scope").get<std::string>(), row->at("reason").get<std::string>()));
        rows = rows_of_session(session, w, o, limits, scratch, "", progress);
      }
      progress.session_done(fmt::format("{:<20} {:<14} {}", v.id, w.name, to_string(kind_)) + summary(rows));
      if (std::none_of(rows.begin(), rows.end(), [](const json& row) { return row["median_ms"].is_number(); }))
        out_of_it.insert(which);
      for (json& row : rows) record["rows"].push_back(std::move(row));
      write_record(record, o.out);
    }
  }

 private:
  const Compared& compared_;
  DeviceKind kind_;
  std::vector<int> order_;
  Interleaving turns_;
};

bool went_well(const json& row) {
  const std::string status = row.at("status");
  return status != "invalid" && status != "failed";
}

}  // namespace

std::vector<int> interleaved_order(int variants, int sessions, uint32_t seed) {
  std::vector<int> order;
  Sequence draws(seed, Stream::turns);
  for (int round = 0; round < sessions; ++round) {
    const auto begin = std::ptrdiff_t(order.size());
    for (int i = 0; i < variants; ++i) order.push_back(i);
    for (uint32_t open = uint32_t(variants); open > 1; --open)  // Fisher and Yates
      std::swap(order[size_t(begin) + open - 1], order[size_t(begin) + draws.below(open)]);
  }
  return order;
}

std::vector<Compared> over_their_bases(const std::vector<Variant>& variants, const std::vector<Variant>& all,
                                       const std::vector<DeviceKind>& kinds, const std::vector<std::string>& scopes,
                                       std::vector<std::string>& left_out) {
  std::vector<Compared> found;
  for (const Variant& v : variants) {
    if (v.base.empty()) continue;
    const auto base = std::find_if(all.begin(), all.end(), [&](const Variant& other) { return other.id == v.base; });
    if (base == all.end()) {
      left_out.push_back(fmt::format("{} is not compared: its base {} was not built", v.id, v.base));
      continue;
    }
    const std::string shows = v.card.value("shows", "");
    Compared pair{{*base, v}, scopes};
    if (scopes.empty()) pair.scopes = {shows.empty() ? "iteration" : shows};
    if (shared_kinds(kinds, pair.variants).empty())
      left_out.push_back(fmt::format("{} is not compared: {}", v.id, no_shared_kind(pair.variants)));
    else
      found.push_back(std::move(pair));
  }
  if (found.empty())
    throw Error("--compare base: " +
                (left_out.empty() ? "none of the variants has a base: choose others by --variants" : left_out.front()));
  return found;
}

int run_interleaved(const RunOptions& o, const std::vector<DeviceKind>& kinds, const std::vector<Compared>& comparisons,
                    std::vector<Workload> workloads, int sessions, uint32_t seed, double margin) {
  catch_interrupts();
  size_t per_workload = 0;
  std::vector<DeviceKind> used;
  for (const Compared& compared : comparisons) {
    const std::vector<DeviceKind> shared = shared_kinds(kinds, compared.variants);
    if (shared.empty()) throw Error(no_shared_kind(compared.variants));
    per_workload += shared.size() * compared.variants.size() * size_t(sessions);
    for (const DeviceKind kind : shared)
      if (std::find(used.begin(), used.end(), kind) == used.end()) used.push_back(kind);
  }
  std::string holder;
  const auto alone = FileLock::take(o.out, holder);
  if (!alone)
    throw Error(fmt::format("{} is being written by {}: wait for it, or choose another --out", o.out.string(), holder));
  json record = {{"schema_version", record_version},
                 {"context", context(o.argv, o.gpu)},
                 {"workloads", json::array()},
                 {"rows", json::array()},
                 {"comparisons", json::array()}};
  Progress progress(per_workload * workloads.size());
  std::map<DeviceKind, Limits> limits = limits_of(o, used, record["context"], progress);
  const Scratch scratch;
  bool named_left_out = false;
  for (Workload& w : workloads) {
    if (interrupted()) break;
    progress.doing(w.name + ": getting the data ready");
    try {
      for (const std::string& done : make_ready(w, scratch.path)) progress.say(done);
    } catch (const std::exception& error) {
      if (o.insist) throw;
      progress.not_to_do(per_workload, fmt::format("{} is left out: {}", w.name, error.what()));
      record["context"]["left_out"].push_back({{"workload", w.name}, {"reason", error.what()}});
      named_left_out = named_left_out || w.named;
      continue;
    }
    record["workloads"].push_back(describe(w));
    for (const Compared& compared : comparisons) {
      for (const DeviceKind kind : shared_kinds(kinds, compared.variants))
        InTurns(compared, kind, sessions, seed++).run(w, o, limits[kind], scratch.path, progress, record);
    }
  }
  const Comparisons found = compare_variants(
      record,
      [](const json& row) -> std::string {
        const std::string base = row.at("turns").at("variants").front();
        return row.at("variant") == base ? "" : base;
      },
      nullptr, margin);
  record["comparisons"] = found.rows;
  record["context"]["complete"] = !interrupted();
  write_record(record, o.out);
  fmt::print("\n{}record: {}\n", table(found), o.out.string());
  if (interrupted()) return 130;
  const bool well = std::all_of(record["rows"].begin(), record["rows"].end(), went_well);
  return well && !named_left_out ? 0 : 1;
}

}  // namespace ladder
