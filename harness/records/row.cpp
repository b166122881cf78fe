#include "records/row.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "base/statistics.hpp"
#include "protocol/parts.hpp"

namespace ladder {
using nlohmann::json;

namespace {

const char* cache_name(bool cold) { return cold ? "cold" : "warm"; }

std::string of_device(const std::map<DeviceKind, std::string>& hashes, DeviceKind device) {
  const auto found = hashes.find(device);
  return found == hashes.end() ? "" : found->second;
}

}  // namespace

void to_json(json& j, const Interleaving& turns) { j = {{"variants", turns.variants}, {"seed", turns.seed}}; }

std::string row_key(const Variant& v, const Workload& w, const std::string& scope, const Setting& s) {
  std::string key = fmt::format(
      "{}:{} {}:{} K={} {} {} {} init={} {} x{} {} {}", v.id, of_device(v.module_hash, s.device), w.name, w.data_hash,
      w.k, w.type, to_string(w.metric), to_string(w.stop), w.init_hash.empty() ? std::to_string(w.seed) : w.init_hash,
      to_string(s.device), s.gpus, scope, cache_name(s.cold));
  if (s.ranks > 1) key += fmt::format(" ranks={}", s.ranks);
  if (w.kernel) key += " kernel=" + to_string(w.kernel);
  for (const auto& [name, value] : s.axes) key += fmt::format(" {}={}", name, value);
  if (s.sustained_seconds > 0) key += fmt::format(" sustained={:g}", s.sustained_seconds);
  if (s.turns) key += fmt::format(" turns={}", fmt::join(s.turns->variants, ","));
  if (s.session) key += fmt::format(" session={}", *s.session);
  return key;
}

std::map<std::string, int> axes_of(const Variant& v, const std::map<std::string, int>& wished) {
  std::map<std::string, int> axes;
  for (const json& axis : v.card.value("axes", json::array())) {
    const std::string name = axis.at("name");
    const auto wish = wished.find(name);
    axes[name] = wish == wished.end() ? axis.at("standard").get<int>() : wish->second;
  }
  return axes;
}

json new_row(const Variant& v, const Workload& w, const std::string& scope, const Setting& s) {
  json row = {{"key", row_key(v, w, scope, s)},
              {"variant", v.id},
              {"module_hash", of_device(v.module_hash, s.device)},
              {"source_hash", of_device(v.source_hash, s.device)},
              {"base", v.base},
              {"idea", v.idea},
              {"shows", v.card.value("shows", "")},
              {"counter", v.card.value("counter", "")},
              {"workload", w.name},
              {"metric", w.metric},
              {"device", s.device},
              {"gpus", s.gpus},
              {"ranks", s.ranks},
              {"cache", cache_name(s.cold)},
              {"sustained_seconds", s.sustained_seconds},
              {"dump", nullptr}};
  Timed none;
  none.scope = scope;
  none.status = "failed";
  put(row, SessionResult());
  put(row, none);
  row["validation"] = nullptr;
  row["axes"] = s.axes;
  if (s.session) row["session"] = *s.session;
  if (s.turns) row["turns"] = *s.turns;
  if (s.tuned) row["tuned"] = true;
  return row;
}

void put(json& row, const Timed& timed) {
  json said = timed;
  // Both a sample and the validated solve have iterations; the row tells them apart.
  said["solve_iterations"] = std::move(said["iterations"]);
  said.erase("iterations");
  row.erase("parts_ms");
  if (timed.parts_ms.empty()) said.erase("parts_ms");
  row.update(said);
  row["communication_share"] =
      timed.communication_ms && timed.median_ms ? json(*timed.communication_ms / *timed.median_ms) : json();
  row["median_mhz"] = timed.sm_mhz.empty() ? json() : json(quantile(timed.sm_mhz, 0.5));
}

void put(json& row, const SessionResult& result) {
  json said = result;
  for (const char* not_in_rows : {"fault", "dumped", "cpu_ms"}) said.erase(not_in_rows);
  row.update(said);
  row.erase("cpu_ms");
  const auto used = result.cpu_ms.find(row.value("scope", ""));
  if (used != result.cpu_ms.end()) row["cpu_ms"] = used->second;
}

void without_times(json& row, const std::string& status, const std::string& reason) {
  Timed none;
  none.scope = row.at("scope");
  none.status = status;
  none.reason = reason;
  put(row, none);
  row.erase("cpu_ms");
}

namespace {

/// What a row of a scope took of its device: time of a GPU, on a CPU what its threads used.
std::optional<double> took(const json& row) {
  if (row.at("status") != "ok" || !row.at("median_ms").is_number()) return std::nullopt;
  if (row.at("device") == "cuda") return row.at("median_ms").get<double>();
  return row.contains("cpu_ms") ? std::optional(row.at("cpu_ms").get<double>()) : std::nullopt;
}

}  // namespace

void mark_contradictions(std::vector<json>& rows) {
  std::map<std::string, double> ms;
  int iterations = 0;
  bool on_host = false;
  for (const json& row : rows) {
    on_host = on_host || row.at("device") != "cuda";
    const std::string reason = row.at("reason");
    const auto found = on_host && (reason == no_upload || reason == one_piece) ? std::optional(0.0) : took(row);
    if (!found || (reason == one_piece && row.at("scope") != "download")) continue;
    ms[row.at("scope")] = *found;
    const auto counts = row.at("solve_iterations").get<std::vector<int>>();
    if (row.at("scope") == "solve" && !counts.empty()) iterations = *std::min_element(counts.begin(), counts.end());
  }
  for (const Contradiction& one : contradictions_of(ms, iterations, on_host)) {
    for (json& row : rows) {
      const bool meant = std::find(one.scopes.begin(), one.scopes.end(),
                                   row.at("scope").get_ref<const std::string&>()) != one.scopes.end();
      if (row.at("status") != "ok" || !meant) continue;
      row["status"] = "unstable";
      row["reason"] = one.reason + (row.at("device") == "cuda" ? "" : " (CPU time)");
    }
  }
}

}  // namespace ladder
