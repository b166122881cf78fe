#include "records/record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "protocol/scopes.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// First line of what a command prints; empty where it fails.
std::string first_line(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return "";
  char line[400] = "";
  const bool got = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = got ? line : "";
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

/// What follows `key` on its line in a file such as /proc/cpuinfo, without quotes.
std::string value_in(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    std::string value = line.substr(key.size());
    value.erase(0, value.find_first_not_of(" \t:=\""));
    while (!value.empty() && value.back() == '"') value.pop_back();
    return value;
  }
  return "unknown";
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

json context(const std::vector<std::string>& argv, const json& gpu) {
  // A copy of the checkout without its history (on a borrowed machine, say) is told its state by LADDER_GIT_SHA and
  // LADDER_GIT_DIRTY=0|1.
  const std::string git = "git -C '" LADDER_SOURCE_DIR "' ";
  std::string sha = environment("LADDER_GIT_SHA");
  bool dirty = environment("LADDER_GIT_DIRTY") == "1";
  if (sha.empty()) {
    sha = first_line(git + "rev-parse HEAD");
    dirty = !first_line(git + "status --porcelain").empty();
  }
  const std::string cuda = LADDER_CUDA_COMPILER;
  return {
      {"argv", argv},
      {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"git_sha", sha.empty() ? "unknown" : sha},
      {"git_dirty", dirty},
      {"complete", false},
      {"host",
       {{"cpu", value_in("/proc/cpuinfo", "model name")},
        {"cores", int(std::thread::hardware_concurrency())},
        {"os", value_in("/etc/os-release", "PRETTY_NAME=")}}},
      {"compiler",
       {{"host", "g++ " __VERSION__}, {"cuda", cuda.empty() ? json() : json("nvcc " + cuda)}, {"flags", LADDER_FLAGS}}},
      {"gpu", gpu},
      {"left_out", json::array()}};
}

json describe(const Workload& w) {
  return {{"name", w.name},    {"family", w.family},
          {"title", w.title},  {"n", w.n},
          {"d", w.d},          {"k", w.k},
          {"type", w.type},    {"stop", to_string(w.stop)},
          {"seed", w.seed},    {"data_hash", w.data_hash},
          {"source", w.source}};
}

Minimum minimum_of(const std::string& scope, const Workload& w, int iterations) {
  const double n = double(w.n), k = w.k, d = double(w.d), size = w.type == "f32" ? 4 : 8;
  if (scope == "upload") return {0, n * d * size};
  if (scope == "download") return {0, 4 * n + k * d * size};
  if (scope == "initialise") return {0, k * d * size};
  const double distances = 2 * n * k * d, sums = n * d, points = n * d * size, centroids = k * d * size, labels = 4 * n;
  if (scope == "assign") return {distances, points + centroids + labels};
  if (scope == "update") return {sums, points + labels + centroids};
  const double times = scope == "iteration" ? 1 : iterations;
  return {times * (distances + sums), times * (points + 2 * centroids + labels)};
}

void write_record(const json& record, const fs::path& file) {
  const fs::path part = file.string() + ".part";
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path());
  std::ofstream out(part);
  // A line for each workload and each row: short enough to keep, and a difference between two records can be read.
  out << "{\n";
  for (auto item = record.begin(); item != record.end(); ++item) {
    out << json(item.key()).dump() << ": ";
    if (item->is_array()) {
      const char* before = "[\n ";
      for (const json& line : *item) out << std::exchange(before, ",\n ") << line.dump();
      out << (item->empty() ? "[]" : "\n]");
    } else {
      out << item->dump(1);
    }
    out << (std::next(item) == record.end() ? "\n" : ",\n");
  }
  out << "}\n";
  out.close();
  if (!out)
    throw Error(fmt::format("{} cannot be written: is there room, and the right to write there?", part.string()));
  fs::rename(part, file);
}

json read_record(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw Error(fmt::format("{} cannot be read", file.string()));
  const json record = json::parse(in, nullptr, false);
  if (!record.is_object() || record.value("schema_version", 0) != 1 || !record.contains("rows")) {
    throw Error(fmt::format("{} is not a record of schema version 1", file.string()));
  }
  return record;
}

std::string table(const json& record) {
  // A column for each scope that some row has.
  std::vector<std::string> scopes;
  for (const std::string& scope : scope_names()) {
    const auto& rows = record.at("rows");
    if (std::any_of(rows.begin(), rows.end(), [&](const json& row) { return row.at("scope") == scope; }))
      scopes.push_back(scope);
  }
  std::string text = fmt::format("{:<18} {:<20} {:<5}", "workload", "variant", "on");
  for (const std::string& scope : scopes) text += fmt::format(" {:>12}", scope);
  text += "   (median ms)\n";
  struct Line {
    std::map<std::string, std::string> cell;
    std::string note;
  };
  std::vector<std::pair<std::string, Line>> lines;
  for (const json& row : record.at("rows")) {
    const std::string key = fmt::format("{:<18} {:<20} {:<5}", row.at("workload").get<std::string>(),
                                        row.at("variant").get<std::string>(), row.at("device").get<std::string>());
    if (lines.empty() || lines.back().first != key) lines.push_back({key, {}});
    Line& line = lines.back().second;
    const std::string status = row.at("status");
    const bool timed = row.at("median_ms").is_number();
    line.cell[row.at("scope")] = timed                 ? fmt::format("{:.4g}", row["median_ms"].get<double>())
                                 : status == "refused" ? "-"
                                                       : status;
    if (!timed && status != "refused") line.note = status + ": " + row.at("reason").get<std::string>();
    if (!timed && status == "refused" && line.note.empty())
      line.note = "refused: " + row.at("reason").get<std::string>();
  }
  for (const auto& [key, line] : lines) {
    text += key;
    bool any = false;
    for (const std::string& scope : scopes) {
      const auto cell = line.cell.find(scope);
      const std::string shown = cell == line.cell.end() ? "" : cell->second;
      any = any || (shown.size() && shown != "-");
      text += fmt::format(" {:>12}", shown);
    }
    // A scope that a variant does not have needs no words; a variant that did not run, or failed, does.
    if (!line.note.empty() && (!any || line.note.rfind("refused", 0) != 0)) {
      text += "   " + (line.note.size() > 160 ? line.note.substr(0, 157) + "..." : line.note);
    }
    text += "\n";
  }
  for (const json& without : record.at("context").value("left_out", json::array())) {
    text += fmt::format("{:<18} left out: {}\n", without.at("workload").get<std::string>(),
                        without.at("reason").get<std::string>());
  }
  return text;
}

}  // namespace ladder
