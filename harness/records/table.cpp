#include "records/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "protocol/scopes.hpp"
#include "records/row.hpp"

namespace ladder {
using nlohmann::json;

namespace {

using Times = std::map<std::string, const json*>;  // scope -> row

/// Rows of one workload, variant, device and setting: a line of the table.
struct Line {
  std::string workload, variant, device, setting;
  Times rows;
  bool tuned = false;
};

std::string setting_of(const json& row) {
  std::string text;
  if (row.value("gpus", 1) > 1) text += fmt::format(" x{}", row["gpus"].get<int>());
  if (row.value("ranks", 1) > 1) text += fmt::format(" ranks {}", row["ranks"].get<int>());
  if (row.value("cache", "warm") == "cold") text += " cold";
  if (row.value("sustained_seconds", 0.0) > 0)
    text += fmt::format(" sustained {:g} s", row["sustained_seconds"].get<double>());
  const json axes = row.value("axes", json::object());  // items() of a temporary would outlive it
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
      place.tuned = place.tuned || row.value("tuned", false);
      base_[row.at("variant")] = row.at("base");
      with_roof_percent_ = with_roof_percent_ || row.value("roof_percent", json()).is_number();
      with_right_ = with_right_ || (row.at("device") == "simt" && row.at("median_ms").is_number());
    }
    choose_scopes();
    choose_columns();
    for (const Line& line : lines_) {
      names_ = std::max(names_, line.variant.size());
      workloads_ = std::max(workloads_, line.workload.size());
    }
  }

  std::string text() const {
    std::string text = head();
    size_t right = 0, refused = 0;  // lines that a brief table leaves out
    for (const Line& line : lines_) {
      const bool bad =
          any_row(line, [](const json& row) { return row.at("status") != "ok" && row.at("status") != "refused"; });
      const bool timed = any_row(line, [](const json& row) { return bool(median_of(&row)); });
      if (!options_.brief || bad || (timed && line.device != "simt"))
        text += line_text(line);
      else
        ++(timed ? right : refused);
    }
    text += most_gained();
    if (right) text += fmt::format("{} lines are left out: a GPU's source on the CPU, right\n", right);
    if (refused) text += fmt::format("{} lines are left out: refused; without --brief this table says why\n", refused);
    return text;
  }

 private:
  static bool any_row(const Line& line, const auto& which) {
    return std::any_of(line.rows.begin(), line.rows.end(), [&](const auto& of) { return which(*of.second); });
  }

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

  void choose_columns() {
    using Over = TableOptions::Over;
    const auto any = [&](auto speedup) {
      return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
        return std::any_of(scopes_.begin(), scopes_.end(),
                           [&](const std::string& s) { return bool(speedup(line, s)); });
      });
    };
    with_root_ =
        options_.over != Over::base && any([&](const Line& l, const std::string& s) { return over_root(l, s); });
    with_prepare_ = std::find(scopes_.begin(), scopes_.end(), "end_to_end") != scopes_.end() &&
                    std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return prepare_of(line) > 0; });
    with_base_ = (options_.over != Over::root || !with_root_) &&
                 any([&](const Line& l, const std::string& s) { return over_base(l, s); });
  }

  /// What a whole run had done before it was timed, ms; 0 where there is no whole run, or nothing to prepare.
  static double prepare_of(const Line& line) {
    const auto row = line.rows.find("end_to_end");
    return row == line.rows.end() || !median_of(row->second) ? 0 : row->second->value("prepare_ms", 0.0);
  }

  int speedup_columns() const { return std::max(with_base_ + with_root_, int(with_right_)); }
  size_t cell_width() const { return size_t(10 + 7 * speedup_columns() + 5 * with_roof_percent_); }

  std::string head() const {
    const std::string blank = fmt::format("{:<{}} {:<{}} {:<4}", "", workloads_, "", names_, "");
    std::string text = fmt::format("{:<{}} {:<{}} {:<4}", "workload", workloads_, "variant", names_, "on");
    for (const std::string& scope : scopes_) text += fmt::format(" {:>{}}", scope, cell_width());
    if (with_prepare_) text += fmt::format(" {:>9}", "prepare");
    text += "\n" + blank;
    std::string columns = fmt::format(" {:>10}", "ms ");
    if (with_base_) columns += fmt::format("{:>7}", "base");
    if (with_root_) columns += fmt::format("{:>7}", "root");
    if (with_right_ && !with_base_ && !with_root_) columns += fmt::format("{:>7}", "");
    if (with_roof_percent_) columns += fmt::format("{:>5}", "roof");
    for (size_t i = 0; i < scopes_.size(); ++i) text += columns;
    if (with_prepare_) text += fmt::format(" {:>9}", "ms");
    text += "\nms: the median";
    if (with_base_) text += "; base: so many times faster than its base";
    if (with_root_) text += "; root: than the root of its tree";
    if (with_prepare_) text += "; prepare: once per process, before end_to_end and not in it";
    if (with_roof_percent_) text += "; roof: share of what this device can do at most with such arithmetic";
    if (with_right_ && !options_.brief) text += std::string("\n") + of_no_gpu;
    return text + "\n*: mostly launch: two events with nothing between them take a tenth of this time or more\n";
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

  std::string root_of(const std::string& variant) const {
    std::string root = variant;
    std::set<std::string> seen;
    while (base_.count(root) && !base_.at(root).empty() && seen.insert(root).second) root = base_.at(root);
    return root;
  }

  std::optional<double> speedup(const Line& line, const std::string& scope, const std::string& over) const {
    const auto row = line.rows.find(scope);
    const auto ms = row == line.rows.end() ? std::nullopt : median_of(row->second);
    if (over.empty() || over == line.variant || !ms || line.device == "simt") return std::nullopt;
    const auto before = time_of(over, line, scope);
    return before ? std::optional(*before / *ms) : std::nullopt;
  }
  std::optional<double> over_base(const Line& line, const std::string& scope) const {
    return speedup(line, scope, base_.at(line.variant));
  }
  std::optional<double> over_root(const Line& line, const std::string& scope) const {
    return speedup(line, scope, root_of(line.variant));
  }

  static std::string times(std::optional<double> ratio) {
    if (!ratio) return "";
    return *ratio < 100 ? fmt::format("{:.3g}x", *ratio) : fmt::format("{:.0f}x", *ratio);
  }

  std::string cell(const Line& line, const std::string& scope) const {
    const auto found = line.rows.find(scope);
    if (found == line.rows.end()) return std::string(cell_width(), ' ');
    const json& row = *found->second;
    const auto ms = median_of(&row);
    if (!ms) {
      const std::string status = row.at("status");
      return fmt::format("{:>9}{}", status == "refused" ? "-" : status, std::string(cell_width() - 9, ' '));
    }
    std::string text = fmt::format("{:>9.4g}{:1}", *ms, row.value("launch_bound", false) ? "*" : "");
    if (line.device == "simt") {
      if (options_.grey) text = "\x1b[90m" + text + "\x1b[0m";
      return text + fmt::format("{:>{}}", "right", 7 * speedup_columns()) + std::string(5 * with_roof_percent_, ' ');
    }
    if (with_base_) text += fmt::format("{:>7}", times(over_base(line, scope)));
    if (with_root_) text += fmt::format("{:>7}", times(over_root(line, scope)));
    if (with_roof_percent_) {
      const json roof = row.value("roof_percent", json());
      text += fmt::format("{:>5}", roof.is_number() ? fmt::format("{:.0f}%", roof.get<double>()) : "");
    }
    return text;
  }

  /// The scopes of the table whose time is a single sample's. Of the CPU device no time counts.
  std::string of_one_sample(const Line& line) const {
    std::vector<std::string> scopes;
    for (const std::string& scope : scopes_) {
      const auto found = line.rows.find(scope);
      if (found == line.rows.end() || line.device == "simt" || !median_of(found->second)) continue;
      const json& row = *found->second;
      if (row.at("samples_ms").size() == 1 && row.value("samples_taken", 1) == 1) scopes.push_back(scope);
    }
    return listed(scopes);
  }

  std::string line_text(const Line& line) const {
    std::string text = fmt::format("{:<{}} {:<{}} {:<4}", line.workload, workloads_, line.variant, names_, line.device);
    for (const std::string& scope : scopes_) text += " " + cell(line, scope);
    if (const double prepare = prepare_of(line); with_prepare_ && prepare > 0)
      text += fmt::format(" {:>9.4g}", prepare);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
    if (!line.setting.empty()) text += fmt::format("   {}{}\n", line.setting, line.tuned ? " (tuned)" : "");
    // A step that a variant does not have needs no words. A variant that did not run, or failed, does, and so does a
    // whole run that was left out.
    const bool ran = any_row(line, [](const json& row) { return row.at("status") != "refused"; });
    std::vector<std::pair<std::string, std::string>> said;  // reason, scopes
    for (const std::string& scope : scope_names()) {
      const auto found = line.rows.find(scope);
      if (found == line.rows.end()) continue;
      const json& row = *found->second;
      const std::string status = row.at("status"), reason = row.at("reason");
      if (reason.empty() || (status == "refused" && ran && !scope_named(scope).whole)) continue;
      const std::string words = status + ": " + reason;
      const auto same =
          std::find_if(said.begin(), said.end(), [&](const auto& before) { return before.first == words; });
      if (same == said.end())
        said.emplace_back(words, scope);
      else
        same->second += ", " + scope;
    }
    for (const auto& [words, scopes] : said) {
      const bool all = said.size() == 1 && !(ran && words.rfind("refused", 0) == 0);
      text += all ? fmt::format("    {}\n", words) : fmt::format("    {}: {}\n", scopes, words);
    }
    if (const std::string scopes = of_one_sample(line); !scopes.empty())
      text += fmt::format("    {}: n = 1, a median of one sample\n", scopes);
    return text;
  }

  /// For each workload and device, the rung whose iteration gained most over its base, where there are three to choose
  /// from; and where to see why.
  std::string most_gained() const {
    struct Most {
      int rungs = 0;  // that have a gain
      double gain = 0;
      const json* row = nullptr;
    };
    std::map<std::pair<std::string, std::string>, Most> found;  // by workload and device
    for (const Line& line : lines_) {
      const auto gain = over_base(line, "iteration");
      if (!gain) continue;
      Most& most = found[{line.workload, line.device}];
      ++most.rungs;
      if (*gain > most.gain) most.gain = *gain, most.row = line.rows.at("iteration");
    }
    std::string text;
    for (const auto& [where, most] : found) {
      if (most.rungs < 3 || most.gain < 1.1) continue;
      const auto& [workload, device] = where;
      const auto said = [&row = *most.row](const char* key) { return row.value(key, ""); };
      text += fmt::format("{} on {}: {} gained most over its base, {}: {}\n", workload, device, said("variant"),
                          times(most.gain), said("idea"));
      if (!said("counter").empty())
        text += fmt::format("    what shows it: {}, by `build/ladder profile {} {} --workload {}`\n", said("counter"),
                            said("base"), said("variant"), workload);
    }
    return text;
  }

  const TableOptions& options_;
  std::vector<Line> lines_;
  std::map<std::string, std::string> base_;
  std::vector<std::string> scopes_;
  bool with_base_ = false, with_root_ = false, with_roof_percent_ = false;  ///< columns of each scope
  bool with_prepare_ = false;
  bool with_right_ = false;  ///< where the CPU device says "right"
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
