#include "lessons/counted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>

#include "base/folders.hpp"
#include "lessons/formula.hpp"
#include "records/profile.hpp"
#include "records/renamed.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

double time_of(const json& kernel) {
  const json& time = kernel.at("metrics").value("time_ms", json());
  return time.is_number() ? time.get<double>() * kernel.at("launches").get<double>() : 0;
}

Counted counted_in(const json& profile) {
  const json* longest = &profile.at("kernels").front();
  for (const json& kernel : profile.at("kernels")) {
    if (time_of(kernel) > time_of(*longest)) longest = &kernel;
  }
  Counted counted{.device = profile.at("gpu").at("name"),
                  .workload = profile.at("workload"),
                  .type = profile.at("type"),
                  .scope = profile.at("scope"),
                  .kernel = longest->at("name"),
                  .n = profile.at("n"),
                  .k = profile.at("k"),
                  .d = profile.at("d"),
                  .axes = profile.at("axes"),
                  .threads = 1,
                  .launches = longest->at("launches"),
                  .metrics = {},
                  .stalls = {},
                  .limited_by = longest->at("limited_by")};
  for (const json& extent : longest->at("block")) counted.threads *= extent.get<double>();
  for (const auto& [name, value] : longest->at("metrics").items()) {
    if (value.is_number()) counted.metrics[name] = value;
  }
  for (const auto& [sum, first, second] :
       {std::tuple("multiply_adds", "ffma", "dfma"), {"additions", "fadd", "dadd"}}) {
    if (counted.metrics.count(first) && counted.metrics.count(second))
      counted.metrics[sum] = counted.metrics[first] + counted.metrics[second];
  }
  for (const json& stall : longest->at("stalls")) counted.stalls.emplace_back(stall.at("reason"), stall.at("share"));
  return counted;
}

/// In words, after "wait".
std::string waits_for(const std::string& stall) {
  static const std::map<std::string, std::string> words = {
      {"barrier", "at barriers"},
      {"branch_resolving", "for branches"},
      {"dispatch_stall", "for the dispatch of instructions"},
      {"drain", "for stores to drain"},
      {"imc_miss", "for constants that miss their cache"},
      {"lg_throttle", "for room in the queue of global and local memory"},
      {"long_scoreboard", "for global memory"},
      {"math_pipe_throttle", "for the arithmetic units"},
      {"membar", "at memory fences"},
      {"mio_throttle", "for room in the queue of shared memory"},
      {"no_instruction", "for instructions"},
      {"not_selected", "because another warp is issued"},
      {"short_scoreboard", "for shared memory"},
      {"sleeping", "asleep"},
      {"tex_throttle", "for room in the texture queue"},
      {"wait", "a fixed number of cycles for the instruction before"},
  };
  const auto found = words.find(stall);
  return found == words.end() ? "(" + stall + ")" : found->second;
}

}  // namespace

namespace {

/// Everything that was counted, by today's ids.
std::map<std::string, std::vector<Counted>> read_counted() {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(source_folder() / "results", none)) {
    const std::string name = entry.path().filename().string();
    const std::string folder = entry.path().parent_path().filename().string();
    if (name.starts_with("profile") && name.ends_with(".json") && folder != "latest" && folder != "local")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto& renamed = renamed_variants().renamed;
  std::map<std::string, std::vector<Counted>> all;
  for (const fs::path& file : files) {
    const json whole = read_profile(file);
    for (const json& profile : whole.at("profiles")) {
      const std::string then = profile.at("variant");
      const auto today = renamed.find(then);
      if (!profile.at("kernels").empty())
        all[today == renamed.end() ? then : today->second].push_back(counted_in(profile));
    }
  }
  return all;
}

}  // namespace

const std::vector<Counted>& counted_of(const std::string& id) {
  static const std::map<std::string, std::vector<Counted>> all = read_counted();
  static const std::vector<Counted> nothing;
  const auto found = all.find(id);
  return found == all.end() ? nothing : found->second;
}

const Counted* lesson_among(const std::vector<Counted>& all, const std::string& scope,
                            const std::vector<std::string>& prefer) {
  const Counted* best = nullptr;
  std::array<double, 3> highest{};
  for (const Counted& c : all) {
    if (c.scope != scope && c.scope != "assign") continue;
    const auto place = std::find(prefer.begin(), prefer.end(), c.workload);
    const std::array<double, 3> rank = {c.scope == scope ? 1.0 : 0.0, double(prefer.end() - place), c.n * c.k * c.d};
    if (!best || rank > highest) best = &c, highest = rank;
  }
  return best;
}

const std::vector<std::pair<std::string, std::string>>& derived_ratios() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"loads_per_fma", "load_requests / (N * K * D / 32)"},
      {"point_reads", "dram_bytes / (N * D * B)"},
      {"flop_per_byte", "2 * N * K * D / dram_bytes"},
  };
  return all;
}

std::map<std::string, double> sizes_of(const Counted& c) {
  std::map<std::string, double> sizes = c.axes;
  sizes.insert({{"N", c.n}, {"K", c.k}, {"D", c.d}, {"B", c.bytes_per_value()}});
  return sizes;
}

std::map<std::string, double> with_ratios(const Counted& sizes, const std::map<std::string, double>& metrics) {
  std::map<std::string, double> all = metrics;
  if (sizes.launches != 1 || sizes.scope == "update") return all;
  FormulaNames names{sizes_of(sizes)};
  names.values.insert(metrics.begin(), metrics.end());
  for (const auto& [name, formula] : derived_ratios()) {
    const std::vector<std::string> needed = values_in(formula);
    const bool known = std::all_of(needed.begin(), needed.end(), [&](const std::string& value) {
      const auto found = names.values.find(value);
      return found != names.values.end() && found->second > 0;
    });
    if (known) all.emplace(name, evaluate(formula, names));
  }
  return all;
}

Limit limit_of(const Counted& c) {
  const auto percent = [&](const char* name) {
    const auto found = c.metrics.find(name);
    return found == c.metrics.end() ? 0.0 : found->second;
  };
  const std::vector<std::pair<std::string, double>> units = {{"multiprocessor", percent("sm_percent")},
                                                             {"L1", percent("l1_percent")},
                                                             {"L2", percent("l2_percent")},
                                                             {"device memory", percent("dram_percent")}};
  const auto busiest =
      std::max_element(units.begin(), units.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Limit limit{busiest->first, busiest->second, ""};
  std::string what;
  if (units.back().second >= 80) {
    limit = {units.back().first, units.back().second, ""};
  } else if (percent("tensor_percent") >= 60) {
    limit = {"tensor cores", percent("tensor_percent"), ""};
  } else if (limit.percent < 75) {
    what = fmt::format("No unit is the limit: the busiest, {}, reaches {:.0f} % of its peak", limit.by, limit.percent);
    limit.by = "latency";
  }
  if (what.empty()) {
    static const std::map<std::string, std::string> words = {
        {"multiprocessor", "Arithmetic and the issue of instructions are the limit: the multiprocessors reach"},
        {"L1", "L1 and shared memory are the limit: they reach"},
        {"L2", "L2 is the limit: it reaches"},
        {"device memory", "Device memory is the limit: it reaches"},
        {"tensor cores", "The tensor cores are the limit: they are busy for"},
    };
    const char* of = limit.by == "tensor cores" ? "the time" : "their peak";
    if (limit.by == "L2" || limit.by == "device memory") of = "its peak";
    what = fmt::format("{} {:.0f} % of {}", words.at(limit.by), limit.percent, of);
  }
  // A warp that was issued, or that another was chosen over, waits for nothing.
  const auto wait = std::find_if(c.stalls.begin(), c.stalls.end(), [](const auto& stall) {
    return stall.first != "selected" && stall.first != "not_selected";
  });
  limit.text = what;
  if (wait != c.stalls.end() && wait->second >= 0.1)
    limit.text += fmt::format("; {:.0f} % of the time of its warps they wait {} ({})", 100 * wait->second,
                              waits_for(wait->first), wait->first);
  limit.text += ".";
  return limit;
}

}  // namespace ladder
