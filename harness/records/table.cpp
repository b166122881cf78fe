#include "records/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "protocol/scopes.hpp"

namespace ladder {
using nlohmann::json;

namespace {

using Times = std::map<std::string, const json*>;  // scope -> row

/// Rows of one workload, variant, device and setting: a line of the table.
struct Line {
  std::string workload, variant, device, setting;
  Times rows;
};

std::string setting_of(const json& row) {
  std::string text;
  if (row.value("gpus", 1) > 1) text += fmt::format(" x{}", row["gpus"].get<int>());
  if (row.value("cache", "warm") == "cold") text += " cold";
  if (row.value("sustained_seconds", 0.0) > 0)
    text += fmt::format(" sustained {:g} s", row["sustained_seconds"].get<double>());
  const json axes = row.value("axes", json::object());
  for (const auto& [name, value] : axes.items()) text += fmt::format(" {}={}", name, value.dump());
  return text;
}

std::optional<double> median_of(const json* row) {
  if (!row || !row->at("median_ms").is_number()) return std::nullopt;
  return row->at("median_ms").get<double>();
}

class Table {
 public:
  Table(const json& record, const TableOptions& options) : options_(options) {
    for (const json& row : record.at("rows")) {
      Line line{row.at("workload"), row.at("variant"), row.at("device"), setting_of(row), {}};
      const auto same = std::find_if(lines_.begin(), lines_.end(), [&](const Line& known) {
        return known.workload == line.workload && known.variant == line.variant && known.device == line.device &&
               known.setting == line.setting;
      });
      Line& place = same == lines_.end() ? lines_.emplace_back(std::move(line)) : *same;
      place.rows[row.at("scope")] = &row;
      base_[row.at("variant")] = row.at("base");
      with_roof_ = with_roof_ || row.value("roof_percent", json()).is_number();
    }
    choose_scopes();
    for (const Line& line : lines_) {
      names_ = std::max(names_, line.variant.size());
      workloads_ = std::max(workloads_, line.workload.size());
    }
  }

  std::string text() const {
    std::string text = head();
    for (const Line& line : lines_) text += line_text(line);
    return text;
  }

 private:
  void choose_scopes() {
    if (!options_.scopes.empty()) {
      scopes_ = options_.scopes;
      return;
    }
    std::set<std::string> present;
    for (const Line& line : lines_) {
      for (const auto& [scope, row] : line.rows) present.insert(scope);
    }
    const auto take = [&](bool usual) {
      for (const Scope& scope : all_scopes) {
        // Transfers and initialisation are parts that few ask for: shown where nothing else is, or when asked for.
        const bool part = scope.name == "upload" || scope.name == "download" || scope.name == "initialise";
        if (part != usual && present.count(std::string(scope.name))) scopes_.emplace_back(scope.name);
      }
    };
    take(true);
    if (scopes_.empty()) take(false);
  }

  size_t cell_width() const { return with_roof_ ? 22 : 18; }

  std::string head() const {
    std::string text = fmt::format("{:<{}} {:<{}} {:<4}", "workload", workloads_, "variant", names_, "on");
    for (const std::string& scope : scopes_) text += fmt::format(" {:>{}}", scope, cell_width() - 1);
    const char* over = options_.over == TableOptions::Over::base ? "its base" : "its root";
    text += fmt::format("\nmedian ms, speedup over {}{}; * launch-bound: nothing at all takes a tenth of it or more\n",
                        over, with_roof_ ? ", share of what this device can do" : "");
    return text;
  }

  /// The time of `variant` where `line` has its own.
  std::optional<double> time_of(const std::string& variant, const Line& line, const std::string& scope) const {
    std::optional<double> found;
    for (const Line& other : lines_) {
      if (other.variant != variant || other.workload != line.workload || other.device != line.device) continue;
      const auto row = other.rows.find(scope);
      const auto ms = row == other.rows.end() ? std::nullopt : median_of(row->second);
      if (!ms) continue;
      if (other.setting == line.setting) return ms;
      // Axes differ from variant to variant; the cache must not.
      if (!found &&
          (other.setting.find("cold") == std::string::npos) == (line.setting.find("cold") == std::string::npos))
        found = ms;
    }
    return found;
  }

  std::optional<double> speedup(const Line& line, const std::string& scope, double ms) const {
    const std::string base = base_.at(line.variant);
    if (base.empty()) return std::nullopt;
    std::optional<double> over;
    if (options_.over == TableOptions::Over::root) {
      std::string root = line.variant;
      std::set<std::string> seen;
      while (base_.count(root) && !base_.at(root).empty() && seen.insert(root).second) root = base_.at(root);
      if (base_.count(root)) over = time_of(root, line, scope);
    }
    if (!over) over = time_of(base, line, scope);
    return over ? std::optional(*over / ms) : std::nullopt;
  }

  std::string cell(const Line& line, const std::string& scope) const {
    const auto found = line.rows.find(scope);
    if (found == line.rows.end()) return "";
    const json& row = *found->second;
    const auto ms = median_of(&row);
    if (!ms) {
      const std::string status = row.at("status");
      return (status == "refused" ? "-" : status) + std::string(cell_width() - 11, ' ');
    }
    const auto ratio = speedup(line, scope, *ms);
    std::string text = fmt::format("{:.4g}{:1}{:>7}", *ms, row.value("launch_bound", false) ? "*" : "",
                                   ratio ? fmt::format("{:.3g}x", *ratio) : "");
    if (with_roof_) {
      const json roof = row.value("roof_percent", json());
      text += fmt::format("{:>5}", roof.is_number() ? fmt::format("{:.0f}%", roof.get<double>()) : "");
    }
    return text;
  }

  std::string line_text(const Line& line) const {
    std::string text = fmt::format("{:<{}} {:<{}} {:<4}", line.workload, workloads_, line.variant, names_, line.device);
    for (const std::string& scope : scopes_) text += fmt::format(" {:>{}}", cell(line, scope), cell_width() - 1);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
    if (!line.setting.empty()) text += fmt::format("   {}\n", line.setting);
    // A scope that a variant does not have needs no words; a variant that did not run, or failed, does.
    const bool ran = std::any_of(line.rows.begin(), line.rows.end(),
                                 [](const auto& of) { return of.second->at("status") != "refused"; });
    std::vector<std::pair<std::string, std::string>> said;  // reason, scopes
    for (const std::string& scope : scope_names()) {
      const auto found = line.rows.find(scope);
      if (found == line.rows.end()) continue;
      const json& row = *found->second;
      const std::string status = row.at("status"), reason = row.at("reason");
      if (reason.empty() || (status == "refused" && ran)) continue;
      const std::string words = status + ": " + reason;
      const auto same =
          std::find_if(said.begin(), said.end(), [&](const auto& before) { return before.first == words; });
      if (same == said.end())
        said.emplace_back(words, scope);
      else
        same->second += ", " + scope;
    }
    for (const auto& [words, scopes] : said)
      text += said.size() == 1 ? fmt::format("    {}\n", words) : fmt::format("    {}: {}\n", scopes, words);
    return text;
  }

  const TableOptions& options_;
  std::vector<Line> lines_;
  std::map<std::string, std::string> base_;
  std::vector<std::string> scopes_;
  bool with_roof_ = false;
  size_t names_ = 12, workloads_ = 12;
};

}  // namespace

std::string table(const json& record, const TableOptions& options) {
  for (const std::string& scope : options.scopes) scope_named(scope);
  std::string text = Table(record, options).text();
  for (const json& without : record.at("context").value("left_out", json::array())) {
    text += fmt::format("{:<18} left out: {}\n", without.at("workload").get<std::string>(),
                        without.at("reason").get<std::string>());
  }
  return text;
}

}  // namespace ladder
