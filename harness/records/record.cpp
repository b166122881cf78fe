#include "records/record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "base/build.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "base/text.hpp"
#include "formats/place.hpp"
#include "formats/schema.hpp"
#include "protocol/json.hpp"
#include "records/renamed.hpp"

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
  // LADDER_GIT_SHA and LADDER_GIT_DIRTY=0|1 state the commit of a checkout that was copied without its history.
  const std::string git = "git -C " + quoted(source_folder()) + " ";
  std::string sha = environment("LADDER_GIT_SHA");
  bool dirty = environment("LADDER_GIT_DIRTY") == "1";
  if (sha.empty()) {
    sha = first_line(git + "rev-parse HEAD");
    // `ladder tune` writes results/tuned.json, which is not a source: each row states the values that it ran with.
    const std::string status = git + "status --porcelain -- . ':(exclude)results/tuned.json'";
    dirty = !sha.empty() && !first_line(status + " || echo no answer").empty();  // none is no proof of clean sources
  }
  const std::string cuda = cuda_compiler;
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
       {{"host", "g++ " __VERSION__}, {"cuda", cuda.empty() ? json() : json("nvcc " + cuda)}, {"flags", host_flags}}},
      {"gpu", gpu},
      {"ceilings", json::object()},
      {"floor_us", nullptr},
      {"left_out", json::array()}};
}

json describe(const Workload& w) {
  const auto or_null = [](const std::string& text) { return text.empty() ? json() : json(text); };
  return {{"name", w.name},
          {"family", w.family},
          {"title", w.title},
          {"n", w.n},
          {"d", w.d},
          {"k", w.k},
          {"type", w.type},
          {"metric", w.metric},
          {"kernel", w.kernel},
          {"stop", w.stop},
          {"seed", w.seed},
          {"data_hash", w.data_hash},
          {"init_hash", or_null(w.init_hash)},
          {"nonzeros", w.nonzeros < 0 ? json() : json(w.nonzeros)},
          {"made_by", or_null(w.made_by)},
          {"source", w.source}};
}

std::string why_not_together(const json& was, const json& is) {
  // One record, one machine, one state of the sources: otherwise its rows could not be compared.
  for (const char* key : {"git_sha", "host", "gpu", "compiler"}) {
    if (key == std::string("gpu") && (was.at(key).is_null() || is.at(key).is_null())) continue;
    if (was.at(key) != is.at(key))
      return fmt::format("made with another {} ({} there, {} here)", key, was.at(key).dump(), is.at(key).dump());
  }
  if (was.at("git_dirty") != is.at("git_dirty")) {
    return was.at("git_dirty").get<bool>() ? "made from sources with uncommitted changes, and here there are none"
                                           : "made from committed sources, and here there are uncommitted changes";
  }
  return "";
}

std::string other_problem(const json& was, const json& is) {
  const bool looked_at =
      !was.at("data_hash").get<std::string>().empty() && !is.at("data_hash").get<std::string>().empty();
  for (const char* key : {"n", "d", "k", "type", "metric", "kernel", "stop", "seed", "made_by"}) {
    if (was.at(key) != is.at(key))
      return fmt::format("{} is {} there, {} here", key, was.at(key).dump(), is.at(key).dump());
  }
  for (const char* key : {"data_hash", "init_hash"}) {
    if (looked_at && was.at(key) != is.at(key))
      return fmt::format("{} is {} there, {} here", key, was.at(key).dump(), is.at(key).dump());
  }
  return "";
}

size_t put_rows(json& rows, std::vector<json> more) {
  using Place = std::tuple<std::string, std::string, std::string>;
  const auto place_of = [](const json& row) { return Place(row.at("variant"), row.at("workload"), row.at("device")); };
  std::set<std::string> keys;
  std::map<Place, std::string> builds;
  for (const json& row : more) {
    keys.insert(row.at("key"));
    builds[place_of(row)] = row.at("module_hash");
  }
  size_t of_another_build = 0;
  json kept = json::array();
  for (json& row : rows) {
    if (keys.count(row.at("key"))) continue;
    const auto build = builds.find(place_of(row));
    if (build != builds.end() && build->second != row.at("module_hash").get<std::string>())
      ++of_another_build;
    else
      kept.push_back(std::move(row));
  }
  for (json& row : more) kept.push_back(std::move(row));
  rows = std::move(kept);
  return of_another_build;
}

void put_efficiency(json& rows) {
  const auto gpus = [](const json& row) { return row.value("gpus", 1) * row.value("ranks", 1); };
  const auto measurement = [](const json& row) {
    json what = json::array();
    for (const char* key :
         {"variant", "module_hash", "workload", "device", "scope", "axes", "cache", "sustained_seconds"})
      what.push_back(row.at(key));
    what.push_back(row.value("session", json()));
    what.push_back(row.value("turns", json()));
    return what;
  };
  std::map<json, double> on_one;  // ms
  for (const json& row : rows) {
    if (gpus(row) == 1 && row.at("median_ms").is_number()) on_one[measurement(row)] = row["median_ms"];
  }
  for (json& row : rows) {
    if (!row.contains("ranks")) continue;  // of an earlier version
    const auto one = on_one.find(measurement(row));
    const bool known = gpus(row) > 1 && row.at("median_ms").is_number() && one != on_one.end();
    row["parallel_efficiency"] = known ? json(one->second / (gpus(row) * row["median_ms"].get<double>())) : json();
  }
}

void put_tuning(json& record, json tuning) {
  const auto same = [&](const json& known) {
    const char* const place[] = {"variant", "workload", "device", "gpus", "scope"};
    return std::all_of(std::begin(place), std::end(place),
                       [&](const char* key) { return known.at(key) == tuning.at(key); });
  };
  json others = json::array();
  for (json& known : record["tuning"]) {
    if (!same(known)) others.push_back(std::move(known));
  }
  others.push_back(std::move(tuning));
  record["tuning"] = std::move(others);
}

namespace {

/// A line for each entry of an object, and for each of an array of objects.
void put_lines(std::ostream& out, const json& value, const std::string& indent) {
  const std::string inside = indent + " ";
  if (value.is_object()) {
    const char* before = "{\n";
    for (const auto& [key, entry] : value.items()) {
      out << std::exchange(before, ",\n") << inside << json(key).dump() << ": ";
      if (entry.is_array() && !entry.empty() && entry[0].is_object())
        put_lines(out, entry, inside);
      else
        out << entry.dump();
    }
    out << "\n" << indent << "}";
  } else {
    const char* before = "[\n";
    for (const json& line : value) out << std::exchange(before, ",\n") << inside << line.dump();
    out << "\n" << indent << "]";
  }
}

}  // namespace

void write_record(const json& record, const fs::path& file) {
  std::ostringstream out;
  // Short enough to keep, and a difference between two records can be read.
  const char* before = "{\n";
  for (const auto& [key, part] : record.items()) {
    out << std::exchange(before, ",\n") << json(key).dump() << ": ";
    if (part.is_structured() && !part.empty())
      put_lines(out, part, "");
    else
      out << part.dump();
  }
  out << "\n}\n";
  write_whole(file, out.str());
}

void need_place(const fs::path& out, const std::vector<fs::path>& inputs, bool force) {
  need_place("--out", out, json_kind("record", {"schema_version", "rows"}), inputs, force);
}

namespace {

constexpr const char* remedy = "mend the file, or take one that the ladder wrote";

/// What a schema cannot say, and every reader relies on.
void need_listed_workloads(const json& record, const fs::path& file) {
  const auto refuse = [&](const std::string& field, const std::string& why) {
    throw Error(fmt::format("{}: field {}: {}: {}", file.string(), field, why, remedy));
  };
  std::set<std::string> names;
  const json &workloads = record.at("workloads"), &rows = record.at("rows");
  for (size_t i = 0; i < workloads.size(); ++i) {
    if (!names.insert(workloads[i].at("name")).second)
      refuse(fmt::format("workloads[{}].name", i), shown(workloads[i].at("name")) + ", which is there twice");
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!names.count(rows[i].at("workload").get<std::string>()))
      refuse(fmt::format("rows[{}].workload", i), shown(rows[i].at("workload")) + ", which is not among the workloads");
    if (rows[i].at("device") == "cuda" && record.at("context").at("gpu").is_null())
      refuse("context.gpu", fmt::format("null, where rows[{}] ran on a GPU", i));
  }
}

}  // namespace

json read_record(const fs::path& file) {
  json record = read_json(file);
  const json version = record.is_object() ? record.value("schema_version", json()) : json();
  if (version != 1 && version != record_version) {
    throw Error(fmt::format("{} is not a record of schema version 1 or {}: {}", file.string(), record_version, remedy));
  }
  schema_named(version == 1 ? "record_v1" : "record").need(record, file, remedy);
  if (version == record_version) need_listed_workloads(record, file);
  use_todays_ids(record, renamed_variants());
  return record;
}

}  // namespace ladder
