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

using Key = std::array<std::string, 4>;                      // device, variant, workload, scope
using Texts = std::map<std::string, std::set<std::string>>;  // by variant: the hashes of the text that was measured

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

/// Is none of the texts in `recorded` one of those in `newest`, which has some of the same variant?
bool is_earlier(const std::string& variant, const Texts& recorded, const Texts& newest) {
  const auto mine = recorded.find(variant), now = newest.find(variant);
  if (mine == recorded.end() || now == newest.end()) return false;
  return std::none_of(mine->second.begin(), mine->second.end(),
                      [&](const std::string& text) { return now->second.count(text) > 0; });
}

Texts texts_of(const json& record) {
  Texts texts;
  for (const json& row : record.at("rows")) {
    if (const std::string text = row.value("source_hash", ""); !text.empty()) texts[row.at("variant")].insert(text);
  }
  return texts;
}

void add(const json& record, const Texts& recorded, const Texts& newest, std::set<Key>& known, Measured& all) {
  const std::string device = record.at("context").at("gpu").at("name");
  std::map<Key, Rows> found;
  for (const json& row : record.at("rows")) {
    if (!counts(row) || is_earlier(row.at("variant"), recorded, newest)) continue;
    Rows& rows = found[{device, row.at("variant"), row.at("workload"), row.at("scope")}];
    rows.medians.push_back(row.at("median_ms"));
    rows.axes = row.at("axes");
  }
  for (const auto& [key, rows] : found) {
    if (known.insert(key).second) all.times.push_back(time_of(key, rows));
  }
  for (const json& c : record.value("comparisons", json::array())) {
    if (c.at("method") != "interleaved") continue;
    if (is_earlier(c.at("candidate"), recorded, newest) || is_earlier(c.at("base"), recorded, newest)) continue;
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
  Texts newest;  // of the first GPU, whose record is renewed when a rung's text changes
  for (const fs::path& folder : folders) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name == "record.json" || (name.starts_with("comparisons") && name.ends_with(".json")))
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    Texts texts;
    for (const fs::path& file : files) {
      const json record = read_record(file);
      if (!record.at("context").at("gpu").is_object()) continue;
      Texts recorded = texts_of(record);
      add(record, recorded, newest, known, all);
      for (auto& [variant, some] : recorded) texts[variant].merge(some);
    }
    if (newest.empty()) newest = std::move(texts);
  }
  return all;
}

}  // namespace

const Measured& measured() {
  static const Measured all = read_measured();
  return all;
}

}  // namespace ladder
