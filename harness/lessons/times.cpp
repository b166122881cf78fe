#include "lessons/times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/folders.hpp"
#include "base/statistics.hpp"
#include "records/record.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

using Key = std::array<std::string, 4>;  // device, variant, workload, scope

struct Rows {
  std::vector<double> medians;
  std::map<std::string, double> axes;
};

MeasuredTime time_of(const Key& key, const Rows& rows) {
  MeasuredTime time{.variant = key[1],
                    .device = key[0],
                    .workload = key[2],
                    .scope = key[3],
                    .axes = rows.axes,
                    .median_ms = seven_digits(summarise(rows.medians).median),
                    .low = std::nullopt,
                    .high = std::nullopt,
                    .sessions = int(rows.medians.size())};
  if (time.sessions >= fewest_sessions) {
    const Estimate estimate = estimate_of_sessions(rows.medians);
    const double factor = std::exp(student_t(0.05, time.sessions - 1) * estimate.error);
    time.low = seven_digits(estimate.median_ms / factor);
    time.high = seven_digits(estimate.median_ms * factor);
  }
  return time;
}

bool counts(const json& row) {
  return row.at("status") == "ok" && row.at("device") == "cuda" && row.value("gpus", 1) == 1 &&
         row.value("ranks", 1) == 1 && row.at("median_ms").is_number();
}

void add(const json& record, std::set<Key>& known, Measured& all) {
  const json& gpu = record.at("context").at("gpu");
  if (!gpu.is_object()) return;
  const std::string device = gpu.at("name");
  std::map<Key, Rows> found;
  for (const json& row : record.at("rows")) {
    if (!counts(row)) continue;
    Rows& rows = found[{device, row.at("variant"), row.at("workload"), row.at("scope")}];
    rows.medians.push_back(row.at("median_ms"));
    rows.axes = row.at("axes");
  }
  for (const auto& [key, rows] : found) {
    if (known.insert(key).second) all.times.push_back(time_of(key, rows));
  }
  for (const json& c : record.value("comparisons", json::array())) {
    if (c.at("method") != "interleaved") continue;
    all.gains.push_back({.variant = c.at("candidate"),
                         .base = c.at("base"),
                         .device = device,
                         .workload = c.at("workload"),
                         .scope = c.at("scope"),
                         .ratio = seven_digits(1 / c.at("ratio").get<double>()),
                         .low = seven_digits(1 / c.at("high").get<double>()),
                         .high = seven_digits(1 / c.at("low").get<double>()),
                         .sessions = c.at("candidate_sessions"),
                         .verdict = c.at("verdict")});
  }
}

Measured read_measured() {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(source_folder() / "results", none)) {
    if (folder.is_directory() && folder.path().filename() != "latest" && folder.path().filename() != "local")
      folders.push_back(folder.path());
  }
  std::sort(folders.begin(), folders.end());
  // The GPU of the whole record comes first, then others that have comparisons alone.
  std::stable_partition(folders.begin(), folders.end(),
                        [](const fs::path& folder) { return fs::exists(folder / "record.json"); });
  Measured all;
  std::set<Key> known;
  for (const fs::path& folder : folders) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name == "record.json" || (name.starts_with("comparisons") && name.ends_with(".json")))
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add(read_record(file), known, all);
  }
  return all;
}

}  // namespace

const Measured& measured() {
  static const Measured all = read_measured();
  return all;
}

}  // namespace ladder
