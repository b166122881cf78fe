#include "records/row.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "base/statistics.hpp"

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
  for (const char* not_in_rows : {"fault", "dumped"}) said.erase(not_in_rows);
  row.update(said);
}

void without_times(json& row, const std::string& status, const std::string& reason) {
  Timed none;
  none.scope = row.at("scope");
  none.status = status;
  none.reason = reason;
  put(row, none);
}

namespace {

constexpr double times_iterations = 3, per_iteration_ms = 0.1;
constexpr double times_parts = 2, more_ms = 1;

/// The row of a scope, where it has a time of a GPU; else nullptr.
const json* timed(const std::vector<json>& rows, const std::string& scope) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const json& row) {
    return row.at("device") == "cuda" && row.at("scope") == scope && row.at("status") == "ok" &&
           row.at("median_ms").is_number();
  });
  return found == rows.end() ? nullptr : &*found;
}

double ms(const json* row) { return row->at("median_ms"); }

void mark(std::vector<json>& rows, std::initializer_list<const char*> scopes, const std::string& reason) {
  for (json& row : rows) {
    const auto is = [&](const char* scope) { return row.at("scope") == scope; };
    if (row.at("status") != "ok" || std::none_of(scopes.begin(), scopes.end(), is)) continue;
    row["status"] = "unstable";
    row["reason"] = reason;
  }
}

}  // namespace

void mark_contradictions(std::vector<json>& rows) {
  const json *iteration = timed(rows, "iteration"), *solve = timed(rows, "solve");
  const json *upload = timed(rows, "upload"), *download = timed(rows, "download");
  const json* whole = timed(rows, "end_to_end");
  if (whole && upload && solve && download &&
      ms(whole) > times_parts * (ms(upload) + ms(solve) + ms(download)) + more_ms) {
    mark(rows, {"upload", "solve", "download"},
         fmt::format(
             "a whole run takes {:.4g} ms, its upload {:.4g}, solve {:.4g} and download {:.4g}: some of its work "
             "is in none of these",
             ms(whole), ms(upload), ms(solve), ms(download)));
  }
  if (!iteration || !solve) return;
  const auto counts = solve->at("solve_iterations").get<std::vector<int>>();
  const int count = counts.empty() ? 0 : *std::min_element(counts.begin(), counts.end());
  if (count > 0 && ms(solve) > count * (times_iterations * ms(iteration) + per_iteration_ms)) {
    mark(rows, {"assign", "update", "iteration"},
         fmt::format("a solve of {} iterations takes {:.4g} ms, one iteration {:.4g}: some of its work is not timed",
                     count, ms(solve), ms(iteration)));
  }
}

}  // namespace ladder
