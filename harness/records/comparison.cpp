#include "records/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "protocol/scopes.hpp"
#include "records/row.hpp"

namespace ladder {
using nlohmann::json;

namespace {

/// All rows of one thing in one record: one session, or several.
struct Group {
  std::string setting;
  std::vector<const json*> rows;  ///< in the order of their sessions
  const json& first() const { return *rows.front(); }
};
using Groups = std::map<std::string, Group>;

/// A record of before may lack fields: then they had the one value there was.
std::string field(const json& row, const char* name, const char* otherwise) {
  const auto found = row.find(name);
  return found == row.end() ? otherwise : found->is_string() ? found->get<std::string>() : found->dump();
}

/// What a row is of, its variant, its code and its machine aside.
std::string setting_of(const json& row, const std::map<std::string, json>& workloads) {
  std::string of = row.at("workload").get<std::string>();
  if (const auto known = workloads.find(of); known != workloads.end()) {
    for (const char* name : {"data_hash", "n", "d", "k", "type", "stop", "seed", "metric", "kernel", "init_hash"})
      of += " " + field(known->second, name, "");
  }
  for (const char* name : {"device", "scope", "cache"}) of += " " + field(row, name, "");
  return of + " x" + field(row, "gpus", "1") + " ranks " + field(row, "ranks", "1") + " " +
         field(row, "sustained_seconds", "0.0");
}

struct Side {
  Groups groups;                               ///< timed rows, by variant and setting
  std::vector<std::string> order;              ///< of the groups: as they begin in the record
  std::map<std::string, const json*> untimed;  ///< of the rest, one row each
};

std::string name_of(const std::string& variant, const std::string& setting, const json& axes) {
  return variant + " " + setting + " " + axes.dump();
}

/// `by_turns`: sessions that took turns with others are rows of another thing.
Side gather(const json& record, const RowFilter& filter, bool by_turns) {
  std::map<std::string, json> workloads;
  for (const json& w : record.at("workloads")) workloads[w.at("name")] = w;
  Side side;
  for (const json& row : record.at("rows")) {
    if (filter && !filter(row)) continue;
    std::string setting = setting_of(row, workloads);
    if (by_turns && row.contains("turns")) setting += " turns " + row["turns"].at("variants").dump();
    const std::string name = name_of(row.at("variant"), setting, row.at("axes"));
    if (row.at("status") != "ok" || !row.at("median_ms").is_number()) {
      side.untimed.emplace(name, &row);
      continue;
    }
    Group& group = side.groups[name];
    if (group.rows.empty()) {
      group.setting = setting;
      side.order.push_back(name);
    }
    group.rows.push_back(&row);
  }
  for (auto& [name, group] : side.groups) {
    std::stable_sort(group.rows.begin(), group.rows.end(),
                     [](const json* a, const json* b) { return a->value("session", 0) < b->value("session", 0); });
  }
  return side;
}

Estimate estimate_of(const Group& group) {
  if (group.rows.size() == 1) return estimate_of_samples(group.first().at("samples_ms").get<std::vector<double>>());
  std::vector<double> medians;
  for (const json* row : group.rows) medians.push_back(row->at("median_ms"));
  return estimate_of_sessions(medians);
}

/// Rows that scatter alike: those of one kind of device; on a GPU, kernels scatter least, times that are mostly the
/// launch's more, and times with work of the host in them most. That work shows in the scope, or in uneven samples.
struct Class {
  std::string name;
  double assumed;  ///< scatter, where nothing tells
};

Class class_of(const json& base, const json& candidate) {
  constexpr double launch_ms = 0.006;  // where the record does not say: events around a submission include it
  constexpr double uneven = 0.02;      // relative spread of samples; kernels alone stay below
  const auto either = [&](auto holds) { return holds(base) || holds(candidate); };
  const std::string device = base.at("device");
  if (device != "cuda") return {device, assumed_scatter};
  const bool with_host = scope_named(base.at("scope").get<std::string>()).from_host || either([&](const json& row) {
                           return summarise(row.at("samples_ms").get<std::vector<double>>()).relative_iqr() > uneven;
                         });
  if (with_host) return {"cuda, uneven or with the host in it", 0.1};
  const bool short_one = either(
      [&](const json& row) { return row.value("launch_bound", row.at("median_ms").get<double>() < 10 * launch_ms); });
  return {short_one ? "cuda, under ten launches" : "cuda, kernels", assumed_scatter};
}

/// The scatter between sessions, by class.
class Scatters {
 public:
  /// From rows that a record holds several sessions of.
  void learn_repeats(const Side& side) {
    for (const auto& [name, group] : side.groups) {
      if (group.rows.size() < 2) continue;
      std::vector<double> medians;
      for (const json* row : group.rows) medians.push_back(row->at("median_ms"));
      repeats_[class_of(group.first(), group.first()).name].push_back(medians);
    }
  }
  /// From a pair of rows that may well be of the same code, or are known to be.
  void learn_pair(const Group& base, const Group& candidate, bool same_code) {
    const std::string kind = class_of(base.first(), candidate.first()).name;
    const std::pair<Estimate, Estimate> pair = {estimate_of(base), estimate_of(candidate)};
    pairs_[kind].push_back(pair);
    if (same_code) same_[kind].push_back(pair);
  }
  double of(const json& base, const json& candidate) {
    const auto [kind, assumed] = class_of(base, candidate);
    if (const auto known = known_.find(kind); known != known_.end()) return known->second;
    const auto& repeats = repeats_[kind];
    const auto &same = same_[kind], &pairs = pairs_[kind];
    if (const auto scatter = scatter_of_same_code(same))
      return say(kind, *scatter, fmt::format("from {} rows of the same code in both records", same.size()));
    if (const auto scatter = scatter_of_repeats(repeats))
      return say(kind, *scatter, fmt::format("from {} rows with several sessions", repeats.size()));
    if (const auto scatter = scatter_of_pairs(pairs))
      return say(kind, *scatter, fmt::format("from {} rows that both records have", pairs.size()));
    assumed_.insert(kind);
    return say(kind, assumed, "assumed, since too few rows tell");
  }
  bool assumed(const json& base, const json& candidate) const {
    return assumed_.count(class_of(base, candidate).name) > 0;
  }
  const std::vector<std::string>& said() const { return said_; }

 private:
  double say(const std::string& kind, double scatter, const std::string& from) {
    said_.push_back(fmt::format("scatter between sessions ({}): {:.1f} %, {}", kind, 100 * scatter, from));
    return known_[kind] = scatter;
  }
  std::map<std::string, std::vector<std::vector<double>>> repeats_;
  std::map<std::string, std::vector<std::pair<Estimate, Estimate>>> pairs_, same_;  ///< all, and those of the same code
  std::map<std::string, double> known_;
  std::set<std::string> assumed_;
  std::vector<std::string> said_;
};

/// Both of one run, with positions, and enough of them.
bool interleaved(const Group& base, const Group& candidate) {
  std::set<int> positions;
  for (const Group* side : {&base, &candidate}) {
    if (side->rows.size() < size_t(fewest_sessions)) return false;
    for (const json* row : side->rows) {
      if (!row->contains("session") || !positions.insert(row->at("session").get<int>()).second) return false;
    }
  }
  return true;
}

RowComparison compare(const Group& base, const Group& candidate, bool one_run, Scatters& scatters, double margin) {
  const json &b = base.first(), &c = candidate.first();
  RowComparison row{.base = b.at("variant"),
                    .candidate = c.at("variant"),
                    .workload = c.at("workload"),
                    .device = c.at("device"),
                    .scope = c.at("scope"),
                    .axes = c.at("axes"),
                    .cache = field(c, "cache", "warm"),
                    .result = {},
                    .base_ms = estimate_of(base).median_ms,
                    .candidate_ms = estimate_of(candidate).median_ms,
                    .base_sessions = int(base.rows.size()),
                    .candidate_sessions = int(candidate.rows.size())};
  if (one_run && interleaved(base, candidate)) {
    std::vector<SessionMedian> sessions;
    for (const json* r : base.rows) sessions.push_back({r->at("session"), false, r->at("median_ms")});
    for (const json* r : candidate.rows) sessions.push_back({r->at("session"), true, r->at("median_ms")});
    row.interleaved = true;
    if (c.contains("turns")) row.order_seed = c["turns"].at("seed").get<uint32_t>();
    row.result = compare_interleaved(sessions, margin);
  } else {
    row.scatter = scatters.of(b, c);
    row.assumed = scatters.assumed(b, c);
    row.result = compare_apart(estimate_of(base), estimate_of(candidate), row.scatter, margin);
  }
  if (row.device == "simt") row.result.verdict = Comparison::Verdict::unsure;
  return row;
}

/// The rows of the base that differ from these in the variant alone. An axis that both have must have one value; one
/// that only one of them has is part of what differs. Where there are none, and one of the two was tuned, each stands
/// at the values that it runs with.
const Group* beside(const Side& side, const std::string& base, const Group& group) {
  const json axes = group.first().at("axes");
  const Group* own_values = nullptr;  // of axes: tuned ones, or those that a step changes
  for (const std::string& name : side.order) {
    const Group& other = side.groups.at(name);
    if (other.first().at("variant") != base || other.setting != group.setting) continue;
    const json others = other.first().at("axes");
    auto items = others.items();
    if (std::all_of(items.begin(), items.end(), [&](const auto& axis) {
          return !axes.contains(axis.key()) || axes.at(axis.key()) == axis.value();
        }))
      return &other;
    const bool either = group.first().value("tuned", false) || other.first().value("tuned", false);
    const json turns = group.first().value("turns", json());
    const bool pair = turns.is_object() && turns == other.first().value("turns", json());
    if ((either || pair) && !own_values) own_values = &other;
  }
  return own_values;
}

bool same_module(const json& a, const json& b) {
  const std::string hash = field(a, "module_hash", "");
  return !hash.empty() && hash == field(b, "module_hash", "");
}

/// The commit of a row of the record with this context; empty where the sources differed from it.
std::string commit_of(const json& context, const json& row) {
  const std::string sha = row.value("git_sha", context.at("git_sha").get<std::string>());
  return sha.size() == 40 && !context.at("git_dirty").get<bool>() ? sha : "";
}

std::string words_for(const json& row) {
  return fmt::format("{} on {} ({}, {})", row.at("variant").get<std::string>(), row.at("workload").get<std::string>(),
                     row.at("device").get<std::string>(), row.at("scope").get<std::string>());
}

std::string why_untimed(const json& row) {
  return row.at("status").get<std::string>() + ": " + row.at("reason").get<std::string>();
}

std::string at(const json& context, const std::string& path) {
  const json::json_pointer where("/" + path);
  if (!context.contains(where) || context.at(where).is_null()) return "none";
  const json& value = context.at(where);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

void to_json(json& j, const RowComparison& r) {
  j = {{"base", r.base},
       {"candidate", r.candidate},
       {"workload", r.workload},
       {"device", r.device},
       {"scope", r.scope},
       {"axes", r.axes},
       {"cache", r.cache},
       {"verdict", to_string(r.result.verdict)},
       {"ratio", r.result.ratio},
       {"low", r.result.low},
       {"high", r.result.high},
       {"p", r.result.p},
       {"base_ms", r.base_ms},
       {"candidate_ms", r.candidate_ms},
       {"base_sessions", r.base_sessions},
       {"candidate_sessions", r.candidate_sessions},
       {"method", r.interleaved ? "interleaved" : "apart"},
       {"scatter", r.interleaved ? json() : json(r.scatter)}};
  if (r.order_seed) j["order_seed"] = *r.order_seed;
}

Comparisons compare_records(const json& base, const json& candidate, const RowFilter& filter, double margin) {
  const Side was = gather(base, filter, false), is = gather(candidate, filter, false);
  Comparisons all;
  Scatters scatters;
  scatters.learn_repeats(was);
  scatters.learn_repeats(is);
  // On another machine even the same code differs by more than chance.
  const bool one_machine = machine_differences(base.at("context"), candidate.at("context")).empty();
  const auto same_commit = [&](const Group& a, const Group& b) {
    const std::string commit = commit_of(base.at("context"), a.first());
    return !commit.empty() && commit == commit_of(candidate.at("context"), b.first());
  };
  for (const auto& [name, group] : is.groups) {
    if (const auto other = was.groups.find(name); other != was.groups.end())
      scatters.learn_pair(
          other->second, group,
          one_machine && (same_commit(other->second, group) || same_module(other->second.first(), group.first())));
  }
  size_t only_there = 0;
  for (const std::string& name : is.order) {
    const Group& group = is.groups.at(name);
    if (const auto timed = was.groups.find(name); timed != was.groups.end())
      all.rows.push_back(compare(timed->second, group, false, scatters, margin));
    else if (const auto untimed = was.untimed.find(name); untimed != was.untimed.end())
      all.left_out.push_back(
          fmt::format("{} has no time in the base: {}", words_for(group.first()), why_untimed(*untimed->second)));
    else
      ++only_there;
  }
  size_t only_here = 0;
  for (const auto& [name, group] : was.groups) {
    if (is.groups.count(name)) continue;
    if (const auto other = is.untimed.find(name); other != is.untimed.end())
      all.left_out.push_back(
          fmt::format("{} has no time in the candidate: {}", words_for(group.first()), why_untimed(*other->second)));
    else
      ++only_here;
  }
  if (only_here)
    all.left_out.push_back(fmt::format("{} timed rows of the base have no match in the candidate", only_here));
  if (only_there)
    all.left_out.push_back(fmt::format("{} timed rows of the candidate have no match in the base", only_there));
  all.scatters = scatters.said();
  return all;
}

Comparisons compare_variants(const json& record, const std::function<std::string(const json&)>& base_of,
                             const RowFilter& filter, double margin) {
  const Side side = gather(record, filter, true);
  Comparisons all;
  Scatters scatters;
  scatters.learn_repeats(side);
  for (const std::string& name : side.order) {
    const Group& group = side.groups.at(name);
    const std::string base = base_of(group.first());
    if (base.empty()) continue;
    if (const Group* found = beside(side, base, group)) {
      all.rows.push_back(compare(*found, group, true, scatters, margin));
      const RowComparison& row = all.rows.back();
      if (group.first().contains("turns") && !row.interleaved)
        all.left_out.push_back(fmt::format(
            "{} with {} in turns: {} + {} sessions have times, and each side needs {}: compared as if apart",
            words_for(group.first()), base, row.base_sessions, row.candidate_sessions, fewest_sessions));
    } else {
      all.left_out.push_back(fmt::format("{} has no timed row of {} beside it", words_for(group.first()), base));
    }
  }
  for (const auto& [name, row] : side.untimed) {
    const bool matters = !base_of(*row).empty();
    if (matters && row->at("status") != "refused")
      all.left_out.push_back(fmt::format("{} has no time: {}", words_for(*row), why_untimed(*row)));
  }
  all.scatters = scatters.said();
  return all;
}

Comparison compare_rows(const json& base, const json& candidate, double margin) {
  const auto estimate = [](const json& row) {
    return estimate_of_samples(row.at("samples_ms").get<std::vector<double>>());
  };
  return compare_apart(estimate(base), estimate(candidate), class_of(base, candidate).assumed, margin);
}

std::vector<std::string> machine_differences(const json& base, const json& candidate) {
  static const std::vector<std::pair<const char*, const char*>> facts = {{"host/cpu", "processor"},
                                                                         {"host/cores", "cores"},
                                                                         {"host/os", "system"},
                                                                         {"gpu/name", "GPU"},
                                                                         {"gpu/driver", "driver"},
                                                                         {"gpu/cuda", "CUDA runtime"},
                                                                         {"compiler/host", "compiler"},
                                                                         {"compiler/cuda", "CUDA compiler"},
                                                                         {"compiler/flags", "flags"},
                                                                         {"gpu/sm_clock_mhz", "clock"},
                                                                         {"gpu/ecc", "ECC"}};
  std::vector<std::string> differences;
  for (const auto& [path, name] : facts) {
    const std::string was = at(base, path), is = at(candidate, path);
    if (was != is) differences.push_back(fmt::format("{} {}, then {}", name, was, is));
  }
  return differences;
}

std::string table(const Comparisons& all) {
  const bool one_variant =
      std::all_of(all.rows.begin(), all.rows.end(), [](const RowComparison& r) { return r.base == r.candidate; });
  std::string text =
      fmt::format("{:<20} {}{:<18} {:<5} {:<11} {:>10} {:>10}  {:>6} {:<16} {:>8}  {}\n",
                  one_variant ? "variant" : "candidate", one_variant ? "" : fmt::format("{:<20} ", "base"), "workload",
                  "on", "scope", "base ms", "ms", "ratio", "95 % interval", "sessions", "verdict");
  std::map<std::string, int> count;
  for (const RowComparison& r : all.rows) {
    ++count[to_string(r.result.verdict)];
    std::string variant = r.candidate;
    for (const auto& [name, value] : r.axes.items()) variant += fmt::format(" {}={}", name, value.dump());
    text += fmt::format("{:<20} {}{:<18} {:<5} {:<11} {:>10.4g} {:>10.4g}  {:>6.3f} {:<16} {:>8}  {}\n", variant,
                        one_variant ? "" : fmt::format("{:<20} ", r.base), r.workload, r.device, r.scope, r.base_ms,
                        r.candidate_ms, r.result.ratio,
                        r.assumed ? "not measured" : fmt::format("[{:.3f}, {:.3f}]", r.result.low, r.result.high),
                        fmt::format("{} + {}", r.base_sessions, r.candidate_sessions), to_string(r.result.verdict));
  }
  text += "\n";
  if (std::any_of(all.rows.begin(), all.rows.end(), [](const RowComparison& r) { return r.device == "simt"; }))
    text += std::string(of_no_gpu) + ": UNSURE, whatever the ratio\n";
  for (const std::string& words : all.scatters) text += words + "\n";
  for (const std::string& words : all.left_out) text += "not compared: " + words + "\n";
  text += fmt::format("SAME {}, FASTER {}, SLOWER {}, UNSURE {} of {} {}\n", count["SAME"], count["FASTER"],
                      count["SLOWER"], count["UNSURE"], all.rows.size(), all.rows.size() == 1 ? "row" : "rows");
  return text;
}

}  // namespace ladder
