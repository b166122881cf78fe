#include "runner/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files.hpp"
#include "base/foreign.hpp"
#include "formats/schema.hpp"
#include "protocol/json.hpp"
#include "records/tuned.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double nearness = 0.25;         // octaves: nearer shapes weigh no more
constexpr double other_type_octaves = 4;  // float and double: as far apart as sixteen times as many points
constexpr double filled_octaves = 2;      // per factor of two in the share of coordinates that are not zero
constexpr double most_dimensions = 3;     // of points that have rungs of their own,
constexpr double dimensions_octaves = 8;  // and so far from all others
constexpr double least_share = 0.1;       // of the weight that shapes with a time must have
// What a time grows by with each octave of N, D and K where few shapes say it, and how much that counts: fitted to the
// 124 shapes of map_* on an H200, each left out in turn.
constexpr std::array<double, 3> usual_slope = {0.8, 0.8, 0.7};
constexpr double usual_share = 0.3;

std::array<double, 3> octaves_of(const ProblemShape& a, const ProblemShape& b) {
  return {std::log2(a.n / b.n), std::log2(a.d / b.d), std::log2(a.k / b.k)};
}

double octaves_apart(const ProblemShape& a, const ProblemShape& b) {
  double sum = a.type == b.type ? 0 : other_type_octaves * other_type_octaves;
  if ((a.d <= most_dimensions) != (b.d <= most_dimensions)) sum += dimensions_octaves * dimensions_octaves;
  for (const double octaves : octaves_of(a, b)) sum += octaves * octaves;
  sum += std::pow(filled_octaves * std::log2(double(a.filled) / b.filled), 2);
  return std::sqrt(sum);
}

double weight(double octaves) { return 1 / std::pow(octaves + nearness, 4); }

/// A plane through the logarithms of a variant's times over those of N, D and K, by least squares with weights. Where
/// the shapes do not say how steep it is, it has the usual slopes.
class Plane {
 public:
  /// `octaves`: from the shape that is asked for to a measured one.
  void add(double weight, const std::array<double, 3>& octaves, double ms) {
    std::array<double, 4> row = {1, octaves[0], octaves[1], octaves[2]};
    double above = std::log2(ms);
    for (int i = 0; i < 3; ++i) above -= usual_slope[i] * octaves[i];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) squares_[i][j] += weight * row[i] * row[j];
      right_[i] += weight * row[i] * above;
    }
  }
  double weight() const { return squares_[0][0]; }
  /// Milliseconds where the octaves are 0.
  double ms() const {
    auto a = squares_;
    auto b = right_;
    for (int i = 1; i < 4; ++i) a[i][i] += usual_share * weight();
    for (int i = 3; i > 0; --i) {  // eliminates the slopes; the matrix is positive definite
      for (int r = 0; r < i; ++r) {
        const double factor = a[r][i] / a[i][i];
        for (int j = 0; j <= i; ++j) a[r][j] -= factor * a[i][j];
        b[r] -= factor * b[i];
      }
    }
    return std::exp2(b[0] / a[0][0]);
  }

 private:
  std::array<std::array<double, 4>, 4> squares_ = {};
  std::array<double, 4> right_ = {};
};

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
  const std::string remedy = "make it anew by `ladder choose --make RECORD...`";
  const json document = read_json(file);
  if (!document.is_object() || document.value("schema_version", json()) != choice_version) {
    throw Error(fmt::format("{} does not hold a table of choices of schema version {}: {}", file.string(),
                            choice_version, remedy));
  }
  schema_named("choice").need(document, file, remedy);
  std::vector<ShapeTimes> table;
  for (const json& e : document.at("entries")) {
    table.push_back(
        {.device = e.at("device"),
         .machine = e.at("machine"),
         .workload = e.at("workload"),
         .shape = {.type = e.at("type"), .n = e.at("n"), .d = e.at("d"), .k = e.at("k"), .filled = e.at("filled")},
         .ms = e.at("ms")});
  }
  return table;
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
  std::map<std::string, Plane> planes;
  double all = 0, most = 0;
  Choice choice;
  choice.other_machine = !known;
  for (const ShapeTimes& times : table) {
    const bool useful =
        std::any_of(times.ms.begin(), times.ms.end(), [&](const auto& time) { return may_run(time.first); });
    if (times.device != device || (known && !machine.empty() && times.machine != machine) || !useful) continue;
    const double w = weight(octaves_apart(times.shape, shape));
    all += w;
    if (w > most) most = w, choice.nearest = times;
    for (const auto& [variant, ms] : times.ms) {
      if (may_run(variant)) planes[variant].add(w, octaves_of(times.shape, shape), ms);
    }
  }
  for (const auto& [variant, plane] : planes) {
    if (plane.weight() >= least_share * all) choice.ranking.push_back({variant, plane.ms()});
  }
  std::stable_sort(choice.ranking.begin(), choice.ranking.end(),
                   [](const Candidate& a, const Candidate& b) { return a.ms < b.ms; });
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
                        choice.ranking[1].ms / choice.ranking[0].ms);
  if (choice.other_machine) text += fmt::format("; measured on another machine, {}", choice.nearest.machine);
  return text;
}

}  // namespace ladder
