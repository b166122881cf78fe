#include "records/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/files.hpp"
#include "base/foreign.hpp"
#include "formats/schema.hpp"
#include "records/metrics.hpp"
#include "records/record.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// ------------------------------------------------------------------------------------------------------ ncu's raw page

/// The cells of comma-separated values: quotes, doubled within them, may hold commas and ends of lines.
std::vector<std::vector<std::string>> cells_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  const auto end_row = [&] {
    if (row.empty() && cell.empty()) return;
    row.push_back(std::exchange(cell, ""));
    rows.push_back(std::exchange(row, {}));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      cell += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (quoted)
      cell += c;
    else if (c == ',')
      row.push_back(std::exchange(cell, ""));
    else if (c == '\n')
      end_row();
    else if (c != '\r')
      cell += c;
  }
  end_row();
  return rows;
}

/// `1,234.5` is a number, `n/a` and words are none.
std::optional<double> number_in(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || read != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// What a value in this unit is multiplied by, where ncu chose another than the base unit.
double scale_of(const std::string& unit) {
  static const std::map<std::string, double> scales = {
      {"us", 1e3},     {"usecond", 1e3}, {"ms", 1e6},    {"msecond", 1e6}, {"s", 1e9},
      {"second", 1e9}, {"Kbyte", 1e3},   {"Mbyte", 1e6}, {"Gbyte", 1e9},   {"Tbyte", 1e12}};
  const auto found = scales.find(unit.substr(0, unit.find('/')));
  return found == scales.end() ? 1 : found->second;
}

/// `(256, 1, 1)`
std::array<int64_t, 3> three_in(const std::string& text) {
  std::array<int64_t, 3> values{1, 1, 1};
  size_t at = 0;
  for (int64_t& value : values) {
    at = text.find_first_of("0123456789", at);
    if (at == std::string::npos) break;
    const auto [read, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    at = size_t(read - text.data());
  }
  return values;
}

double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

}  // namespace

std::string short_kernel_name(const std::string& demangled) {
  std::string text = demangled;
  // "unnamed>::" is what ncu leaves of an unnamed namespace where it takes off what all names of a report begin with.
  for (const char* unnamed : {"(anonymous namespace)::", "<unnamed>::", "(unnamed namespace)::", "unnamed>::"}) {
    for (size_t at; (at = text.find(unnamed)) != std::string::npos;) text.erase(at, std::string(unnamed).size());
  }
  // The parameters are the last parenthesis that no angle bracket holds; before them the last word, with its template
  // arguments, which may hold parentheses, colons and blanks of their own.
  int depth = 0;
  size_t begin = 0, end = text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth > 0) continue;
    if (text[i] == '(') {
      end = i;
      break;
    }
    if (text[i] == ' ' || text[i] == ':') begin = i + 1;
  }
  text = text.substr(begin, end - begin);
  for (const char* cast : {"(int)", "(bool)", "(unsigned int)", "(long)", "(unsigned long)"}) {
    for (size_t at; (at = text.find(cast)) != std::string::npos;) text.erase(at, std::string(cast).size());
  }
  constexpr size_t longest = 80;  // those of libraries go on for lines
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

RawPage read_raw_page(const std::string& csv) {
  const size_t header_at = csv.find("\"ID\"");
  if (header_at == std::string::npos) return {};
  const std::vector<std::vector<std::string>> rows = cells_of(csv.substr(header_at));
  const std::vector<std::string>& header = rows[0];
  std::vector<double> scale(header.size(), 1);
  RawPage page{{header.begin(), header.end()}, {}};
  for (size_t r = 1; r < rows.size(); ++r) {
    const std::vector<std::string>& row = rows[r];
    if (row.size() != header.size()) {
      if (row.size() == 1) continue;  // a remark of ncu's
      throw Error(fmt::format("ncu's table has {} columns, and {} in its row {}: another version of ncu may be needed",
                              header.size(), row.size(), r));
    }
    if (row[0].empty()) {  // the units
      std::transform(row.begin(), row.end(), scale.begin(), scale_of);
      continue;
    }
    Launch launch;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string& name = header[c];
      if (name == "Kernel Name")
        launch.kernel = short_kernel_name(row[c]);
      else if (name == "Grid Size")
        launch.grid = three_in(row[c]);
      else if (name == "Block Size")
        launch.block = three_in(row[c]);
      else if (name.find("Push/Pop") != std::string::npos)
        launch.ranges = row[c];
      else if (const auto value = number_in(row[c]); value && name.find("__") != std::string::npos)
        launch.values[name] = *value * scale[c];
    }
    page.launches.push_back(std::move(launch));
  }
  return page;
}

bool launched_in(const Launch& launch, const std::string& scope) {
  // In ncu's words: "DOMAIN:MESSAGE:..." for each range.
  return launch.ranges.find("ladder:" + scope + ":") != std::string::npos;
}

// --------------------------------------------------------------------------------------------------------- by kernel

namespace {

/// The means of what all launches of one kernel have.
std::map<std::string, double> means_of(const std::vector<const Launch*>& launches) {
  std::map<std::string, double> means = launches[0]->values;
  for (auto mean = means.begin(); mean != means.end();) {
    bool everywhere = true;
    double sum = 0;
    for (const Launch* launch : launches) {
      const auto found = launch->values.find(mean->first);
      everywhere = everywhere && found != launch->values.end();
      if (everywhere) sum += found->second;
    }
    mean->second = sum / double(launches.size());
    mean = everywhere ? std::next(mean) : means.erase(mean);
  }
  return means;
}

/// Has ncu all names of one of the ways to a metric?
bool has_way_to(const LessonMetric& metric, const std::set<std::string>& columns) {
  return std::any_of(metric.from.begin(), metric.from.end(), [&](const std::string& way) {
    const std::vector<std::string> names = names_in(way);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return columns.count(name) > 0; });
  });
}

bool is_stall(const std::string& name) {
  // The `not_issued` ones are the same once more, without the cycles in which a warp issued.
  return name.starts_with(stall_begin) && name.ends_with(stall_end) && name.find("_not_issued") == std::string::npos;
}

/// What lets the fewest blocks onto a multiprocessor; several where they are as few.
json limited_by(const std::map<std::string, double>& values) {
  std::optional<double> least;
  json names = json::array();
  for (const auto& [name, metric] : occupancy_limits()) {
    const auto found = values.find(metric);
    if (found == values.end() || found->second <= 0 || (least && found->second > *least)) continue;
    if (!least || found->second < *least) names = json::array();
    least = found->second;
    names.push_back(name);
  }
  return names;
}

/// Why warps wait, each reason's share of all warps that were looked at; the largest first, down to a hundredth.
json stalls_of(const std::map<std::string, double>& values) {
  std::vector<std::pair<double, std::string>> shares;
  double all = 0;
  for (const auto& [name, value] : values) {
    if (!is_stall(name)) continue;
    shares.emplace_back(value, name.substr(stall_begin.size(), name.size() - stall_begin.size() - stall_end.size()));
    all += value;
  }
  std::sort(shares.rbegin(), shares.rend());
  json stalls = json::array();
  for (const auto& [value, reason] : shares) {
    if (all > 0 && value >= 0.01 * all)
      stalls.push_back({{"reason", reason}, {"share", std::round(value / all * 1e4) / 1e4}});
  }
  return stalls;
}

}  // namespace

json kernels_of(const std::vector<Launch>& launches, const std::set<std::string>& columns) {
  using Kind = std::tuple<std::string, std::array<int64_t, 3>, std::array<int64_t, 3>>;
  std::vector<std::pair<Kind, std::vector<const Launch*>>> kinds;
  for (const Launch& launch : launches) {
    const Kind kind(launch.kernel, launch.grid, launch.block);
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& other) { return other.first == kind; });
    if (known == kinds.end())
      kinds.push_back({kind, {&launch}});
    else
      known->second.push_back(&launch);
  }
  json kernels = json::array();
  for (const auto& [kind, same] : kinds) {
    const std::map<std::string, double> values = means_of(same);
    json metrics = json::object();
    for (const LessonMetric& metric : lesson_metrics()) {
      if (!has_way_to(metric, columns)) continue;
      std::optional<double> value;
      for (size_t way = 0; !value && way < metric.from.size(); ++way) value = value_of(metric.from[way], values);
      // A difference of counters that were read in two passes can fall below 0.
      metrics[metric.name] = value ? json(rounded(std::max(0.0, *value * metric.scale))) : json();
    }
    kernels.push_back({{"name", std::get<0>(kind)},
                       {"grid", std::get<1>(kind)},
                       {"block", std::get<2>(kind)},
                       {"launches", same.size()},
                       {"limited_by", limited_by(values)},
                       {"stalls", stalls_of(values)},
                       {"metrics", metrics}});
  }
  return kernels;
}

std::vector<std::string> lacking(const std::set<std::string>& columns) {
  std::vector<std::string> names;
  for (const LessonMetric& metric : lesson_metrics()) {
    if (!has_way_to(metric, columns)) names.push_back(metric.name);
  }
  if (std::none_of(columns.begin(), columns.end(), is_stall)) names.emplace_back("stalls");
  if (std::none_of(occupancy_limits().begin(), occupancy_limits().end(),
                   [&](const auto& limit) { return columns.count(limit.second) > 0; }))
    names.emplace_back("limited_by");
  return names;
}

// -------------------------------------------------------------------------------------------------------- the file

json read_profile(const fs::path& file) {
  if (!fs::exists(file)) return {{"profile_version", profile_version}, {"profiles", json::array()}};
  json profile = read_json(file);
  if (!profile.is_object() || profile.value("profile_version", json()) != profile_version)
    throw Error(
        fmt::format("{} is not a profile of version {}: `ladder profile` makes them", file.string(), profile_version));
  schema_named("profile").need(profile, file, "mend the file, or make it anew by `ladder profile`");
  return profile;
}

void merge_into_profile(const fs::path& file, const std::vector<json>& profiles) {
  if (profiles.empty()) return;
  const FileLock alone = FileLock::wait(file);
  json whole = read_profile(file);
  const auto key = [](const json& p) {
    return std::array<std::string, 4>{p.at("variant"), p.at("workload"), p.at("type"), p.at("scope")};
  };
  std::map<std::array<std::string, 4>, json> by_key;
  for (const json& old : whole["profiles"]) by_key[key(old)] = old;
  for (const json& profile : profiles) by_key[key(profile)] = profile;
  whole["profiles"] = json::array();
  for (auto& [name, profile] : by_key) whole["profiles"].push_back(std::move(profile));
  // What the numbers are stands beside them.
  whole["metrics"] = json::array();
  for (const LessonMetric& metric : lesson_metrics())
    whole["metrics"].push_back(
        {{"name", metric.name}, {"unit", metric.unit}, {"meaning", metric.meaning}, {"from", metric.from}});
  write_record(whole, file);
}

std::string device_folder(const std::string& gpu) {
  std::string folder;
  for (const char c : gpu) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      folder += char(std::tolower(static_cast<unsigned char>(c)));
    else if (!folder.empty() && folder.back() != '-')
      folder += '-';
  }
  while (!folder.empty() && folder.back() == '-') folder.pop_back();
  return folder.empty() ? "gpu" : folder;
}

// ------------------------------------------------------------------------------------------------------------- people

std::string size_text(const json& dimensions) {
  std::string text;
  for (const json& extent : dimensions) {
    if (text.empty() || extent != 1) text += (text.empty() ? "" : " x ") + extent.dump();
  }
  return text;
}

namespace {

std::string value_text(double value, const std::string& unit) {
  if (unit == "%") return fmt::format("{:.3g} %", value);
  if (unit == "byte") {
    constexpr std::array<const char*, 5> names = {"B", "kB", "MB", "GB", "TB"};
    size_t step = 0;
    for (; value >= 999.5 && step + 1 < names.size(); ++step) value /= 1e3;
    return fmt::format("{:.3g} {}", value, names[step]);
  }
  const std::string number = std::abs(value) >= 1e5 ? fmt::format("{:.3e}", value) : fmt::format("{:.4g}", value);
  return unit.empty() ? number : number + " " + unit;
}

/// The metrics of one group in a line, those that are zero left out where all would be.
std::string group_text(const json& kernel, const std::string& group) {
  std::string text;
  for (const LessonMetric& metric : lesson_metrics()) {
    if (metric.group != group || !kernel.at("metrics").contains(metric.name)) continue;
    const json& value = kernel.at("metrics").at(metric.name);
    // Of the kinds of arithmetic only those that occur.
    if (!value.is_number() || (group == "arithmetic" && value == 0)) continue;
    if (!text.empty()) text += "   ";
    text += fmt::format("{}{}{}", metric.label, metric.label.empty() ? "" : " ", value_text(value, metric.unit));
  }
  return text;
}

}  // namespace

std::string profile_text(const std::vector<json>& profiles) {
  std::string text, last;
  std::vector<std::string> groups;
  for (const LessonMetric& metric : lesson_metrics()) {
    if (metric.group != "time" && (groups.empty() || groups.back() != metric.group)) groups.push_back(metric.group);
  }
  for (const json& p : profiles) {
    const auto word = [&](const char* key) { return p.at(key).get<std::string>(); };
    const std::string head = fmt::format(
        "{} on {} ({} x {}, K = {}, {}); {}, ncu {}, {}{}\n", word("variant"), word("workload"), p.at("n").dump(),
        p.at("d").dump(), p.at("k").dump(), word("type"), p.at("gpu").at("name").get<std::string>(), word("ncu"),
        word("time").substr(0, 10), p.at("git_dirty").get<bool>() ? ", sources with uncommitted changes" : "");
    if (head != last) text += (last.empty() ? "" : "\n") + head;
    last = head;
    if (p.at("kernels").empty()) text += fmt::format("  {}: no kernel: the host does it\n", word("scope"));
    for (const json& kernel : p.at("kernels")) {
      const int launches = kernel.at("launches");
      text +=
          fmt::format("  {}: {}   grid {}, block {}{}   {}\n", word("scope"), kernel.at("name").get<std::string>(),
                      size_text(kernel.at("grid")), size_text(kernel.at("block")),
                      launches > 1 ? fmt::format("   {} launches, means", launches) : "", group_text(kernel, "time"));
      for (const std::string& group : groups) {
        std::string line = group_text(kernel, group);
        if (group == "occupancy" && !kernel.at("limited_by").empty()) {
          std::string limits;
          for (const json& name : kernel.at("limited_by"))
            limits += (limits.empty() ? "" : ", ") + name.get<std::string>();
          line += (line.empty() ? "" : "   ") + ("limited by " + limits);
        }
        if (!line.empty()) text += fmt::format("    {:<11} {}\n", group, line);
      }
      std::string stalls;
      for (const json& stall : kernel.at("stalls")) {
        if (stall.at("share") < 0.05) break;
        stalls += fmt::format("{}{} {:.0f} %", stalls.empty() ? "" : "   ", stall.at("reason").get<std::string>(),
                              stall.at("share").get<double>() * 100);
      }
      if (!stalls.empty()) text += fmt::format("    {:<11} {}\n", "stalls", stalls);
    }
    if (p.at("cut_short").get<bool>())
      text += fmt::format("  {}: only its first launches were profiled; --launches takes more\n", word("scope"));
    if (!p.at("lacking").empty()) {
      std::string names;
      for (const json& name : p.at("lacking")) names += (names.empty() ? "" : ", ") + name.get<std::string>();
      text += fmt::format("  {}: this ncu has no {}\n", word("scope"), names);
    }
  }
  return text;
}

}  // namespace ladder
