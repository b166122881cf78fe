#include "runner/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.hpp"
#include "protocol/json.hpp"
#include "records/tuned.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double nearness = 0.25;         // octaves: nearer shapes weigh no more
constexpr double other_type_octaves = 4;  // float and double: as far apart as sixteen times as many points
constexpr double filled_octaves = 2;      // per factor of two in the share of coordinates that are not zero
constexpr double least_share = 0.1;       // of the weight that shapes with a time must have

double octaves_apart(const ProblemShape& a, const ProblemShape& b) {
  double sum = a.type == b.type ? 0 : other_type_octaves * other_type_octaves;
  for (const double ratio : {a.n / b.n, a.d / b.d, a.k / b.k}) sum += std::pow(std::log2(ratio), 2);
  sum += std::pow(filled_octaves * std::log2(double(a.filled) / b.filled), 2);
  return std::sqrt(sum);
}

double weight(double octaves) { return 1 / std::pow(octaves + nearness, 4); }

double fastest(const ShapeTimes& times, const std::function<bool(const std::string&)>& may_run) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [variant, ms] : times.ms) {
    if (may_run(variant)) least = std::min(least, ms);
  }
  return least;
}

json entry_of(const ShapeTimes& t) {
  return {{"device", t.device},      {"machine", t.machine},     {"workload", t.workload},
          {"type", t.shape.type},    {"n", int64_t(t.shape.n)},  {"d", int64_t(t.shape.d)},
          {"k", int64_t(t.shape.k)}, {"filled", t.shape.filled}, {"ms", t.ms}};
}

}  // namespace

ProblemShape shape_of(const Workload& w) {
  return {.type = w.type,
          .n = double(w.n),
          .d = double(w.d),
          .k = double(w.k),
          .filled = filled_percent(w.nonzeros, double(w.n) * double(w.d))};
}

std::string to_text(const ProblemShape& s) {
  const auto grouped = [](double number) {
    std::string digits = fmt::format("{:.0f}", number);
    for (int at = int(digits.size()) - 3; at > 0; at -= 3) digits.insert(size_t(at), ",");
    return digits;
  };
  return fmt::format("{} x {}, K = {}, {}{}", grouped(s.n), grouped(s.d), grouped(s.k), s.type,
                     s.filled < 100 ? fmt::format(", {} % of the values not zero", s.filled) : "");
}

std::vector<ShapeTimes> times_in(const json& record) {
  std::map<std::pair<std::string, std::string>, ShapeTimes> found;  // by workload and device
  std::map<std::string, json> workloads;
  for (const json& w : record.at("workloads")) workloads[w.at("name")] = w;
  for (const json& row : record.at("rows")) {
    const bool right = row.at("status") == "ok" || row.at("status") == "unstable";
    if (row.at("scope") != "solve" || !right || row.at("per_iteration_ms").is_null()) continue;
    const std::string name = row.at("workload"), device = row.at("device");
    const json& w = workloads.at(name);
    if (w.at("metric") != "euclidean" || w.at("kernel") != "none" || device == "simt") continue;
    ShapeTimes& times = found[{name, device}];
    times.device = device, times.workload = name;
    times.machine = machine_of(record.at("context"), device_kind(device));
    const double n = w.at("n"), d = w.at("d");
    times.shape = {.type = w.at("type"),
                   .n = n,
                   .d = d,
                   .k = w.at("k"),
                   .filled = filled_percent(w.at("nonzeros").is_null() ? -1 : w.at("nonzeros").get<int64_t>(), n * d)};
    const double ms = row.at("per_iteration_ms");
    const auto [place, first] = times.ms.emplace(row.at("variant"), ms);
    if (!first) place->second = std::min(place->second, ms);  // with other values of its axes
  }
  std::vector<ShapeTimes> all;
  for (auto& [key, times] : found) all.push_back(std::move(times));
  return all;
}

std::vector<ShapeTimes> read_choice(const fs::path& file) {
  if (!fs::exists(file))
    throw Error(fmt::format("{} is not there: `ladder choose --make RECORD...` writes it from records", file.string()));
  try {
    const json document = json::parse(read_whole(file));
    if (document.at("schema_version") != choice_version) throw Error("another schema version");
    std::vector<ShapeTimes> table;
    for (const json& e : document.at("entries")) {
      table.push_back(
          {.device = e.at("device"),
           .machine = e.at("machine"),
           .workload = e.at("workload"),
           .shape = {.type = e.at("type"), .n = e.at("n"), .d = e.at("d"), .k = e.at("k"), .filled = e.at("filled")},
           .ms = e.at("ms")});
      const ShapeTimes& t = table.back();
      if (t.shape.n < 1 || t.shape.d < 1 || t.shape.k < 1 || t.shape.filled < 1)
        throw Error("an entry with an empty shape");
      for (const auto& [variant, ms] : t.ms) {
        if (!(ms > 0)) throw Error(fmt::format("the time of {} on {} is not positive", variant, t.workload));
      }
    }
    return table;
  } catch (const std::exception& error) {
    throw Error(
        fmt::format("{} does not hold a table of choices of schema version {} ({}): make it anew by `ladder "
                    "choose --make RECORD...`",
                    file.string(), choice_version, error.what()));
  }
}

void write_choice(const fs::path& file, std::vector<ShapeTimes> table) {
  const auto place = [](const ShapeTimes& t) {
    return std::make_tuple(t.device, t.machine, t.shape.type, t.shape.n, t.shape.d, t.shape.k, t.workload);
  };
  std::sort(table.begin(), table.end(), [&](const ShapeTimes& a, const ShapeTimes& b) { return place(a) < place(b); });
  // A line for each entry, so that a difference can be read.
  std::string text = fmt::format("{{\n\"schema_version\": {},\n\"entries\": [", choice_version);
  for (size_t i = 0; i < table.size(); ++i) text += (i ? ",\n " : "\n ") + entry_of(table[i]).dump();
  write_whole(file, text + "\n]\n}\n");
}

Choice choose_variant(const std::vector<ShapeTimes>& table, const std::string& device, const std::string& machine,
                      const ProblemShape& shape, const std::function<bool(const std::string&)>& may_run) {
  const bool known = machine.empty() || std::any_of(table.begin(), table.end(), [&](const ShapeTimes& t) {
                       return t.device == device && t.machine == machine;
                     });
  struct Sum {
    double weights = 0, logarithms = 0;
  };
  std::map<std::string, Sum> sums;
  double all = 0, most = 0;
  Choice choice;
  choice.other_machine = !known;
  for (const ShapeTimes& times : table) {
    const double least = fastest(times, may_run);
    if (times.device != device || (known && !machine.empty() && times.machine != machine) || !std::isfinite(least))
      continue;
    const double w = weight(octaves_apart(times.shape, shape));
    all += w;
    if (w > most) most = w, choice.nearest = times;
    for (const auto& [variant, ms] : times.ms) {
      if (!may_run(variant)) continue;
      Sum& sum = sums[variant];
      sum.weights += w, sum.logarithms += w * std::log(ms / least);
    }
  }
  for (const auto& [variant, sum] : sums) {
    if (sum.weights >= least_share * all) choice.ranking.push_back({variant, std::exp(sum.logarithms / sum.weights)});
  }
  std::stable_sort(choice.ranking.begin(), choice.ranking.end(),
                   [](const Candidate& a, const Candidate& b) { return a.slowdown < b.slowdown; });
  return choice;
}

std::string reason(const Choice& choice, const ProblemShape& shape) {
  const std::string& best = choice.ranking.at(0).variant;
  const auto time = choice.nearest.ms.find(best);
  std::string text = fmt::format("{} for {}; the nearest measured shape is {} ({})", best, to_text(shape),
                                 choice.nearest.workload, to_text(choice.nearest.shape));
  text += time == choice.nearest.ms.end() ? ", which it does not take"
                                          : fmt::format(", {:.4g} ms an iteration", time->second);
  if (choice.ranking.size() > 1)
    text += fmt::format("; next is {}, expected to take {:.3g} times as long", choice.ranking[1].variant,
                        choice.ranking[1].slowdown / choice.ranking[0].slowdown);
  if (choice.other_machine) text += fmt::format("; measured on another machine, {}", choice.nearest.machine);
  return text;
}

}  // namespace ladder
