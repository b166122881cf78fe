#include "runner/profile.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "records/profile.hpp"
#include "records/record.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

bool runs(const fs::path& program) { return access(program.c_str(), X_OK) == 0 && !fs::is_directory(program); }

/// Where ncu is; empty where it is not.
fs::path ncu_program() {
  if (const char* named = std::getenv("LADDER_NCU"); named && *named) return runs(named) ? fs::path(named) : fs::path();
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (runs(fs::path(folder) / "ncu")) return fs::path(folder) / "ncu";
  }
  if (const fs::path program = "/usr/local/cuda/bin/ncu"; runs(program)) return program;
  std::error_code none;
  std::vector<fs::path> versions;
  for (const auto& entry : fs::directory_iterator("/opt/nvidia/nsight-compute", none)) versions.push_back(entry.path());
  std::sort(versions.rbegin(), versions.rend());
  for (const fs::path& version : versions) {
    if (runs(version / "ncu")) return version / "ncu";
  }
  return {};
}

/// The first line that begins with `mark`, without it; empty where there is none.
std::string line_after(const std::string& text, const std::string& mark) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(mark, 0) == 0) return line.substr(std::min(line.find_first_not_of(' ', mark.size()), line.size()));
  }
  return "";
}

std::string read_if_there(const fs::path& file) { return fs::exists(file) ? read_whole(file) : ""; }

/// How many launches are profiled in a session with so many scopes.
size_t limit_of(const ProfileOptions& o, size_t scopes) { return size_t(o.launches) * scopes; }

/// ncu's options for what is counted, and how.
std::string ncu_options(const ProfileOptions& o, size_t scopes) {
  // No clock is locked: the card is measured as it is found, and a locked clock needs rights.
  std::string options = "--clock-control none --profile-from-start off --nvtx --force-overwrite ";
  options += o.full ? "--set full --import-source yes "
                    : "--section SpeedOfLight --section LaunchStats --section Occupancy --section WarpStateStats ";
  if (!o.metrics.empty()) {
    std::string names = listed(o.metrics);
    std::erase(names, ' ');
    options += "--metrics " + names + " ";
  }
  return options + fmt::format("--launch-count {}", limit_of(o, scopes) + 1);  // one more tells that there are more
}

/// A program that runs the worker under ncu. What ncu says goes to `log`; the worker is told where to report to by a
/// name, so that it does not depend on which open files ncu hands on.
fs::path under_ncu(const ProfileOptions& o, size_t scopes, const fs::path& report, const fs::path& log,
                   const fs::path& scratch) {
  const fs::path script = scratch / "under_ncu";
  std::ofstream(script) << fmt::format(
      "#!/bin/sh\nexec {} {} --log-file {} --export {} {} \"$1\" \"$2\" \"/proc/$$/fd/$3\"\n",
      quoted(o.ncu.program.string()), ncu_options(o, scopes), quoted(log.string()), quoted(report.string()),
      quoted(worker(DeviceKind::cuda).string()));
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

/// What a report holds, as comma-separated values in base units.
std::string raw_page(const Ncu& ncu, const fs::path& report) {
  const std::string command = fmt::format("{} --import {} --csv --page raw --print-units base",
                                          quoted(ncu.program.string()), quoted(report.string()));
  const std::string page = output_of(command + " --nvtx");
  return page.empty() ? output_of(command) : page;  // not every version takes --nvtx with a report
}

json profile_of(const Variant& v, const Workload& w, const std::string& scope, const ProfileOptions& o,
                const std::vector<Launch>& launches, const std::set<std::string>& columns, bool cut_short) {
  const json where = context({}, o.run.gpu);
  return {{"variant", v.id},
          {"base", v.base},
          {"module_hash", v.module_hash.at(DeviceKind::cuda)},
          {"source_hash", v.source_hash.at(DeviceKind::cuda)},
          {"workload", w.name},
          {"n", w.n},
          {"d", w.d},
          {"k", w.k},
          {"type", w.type},
          {"scope", scope},
          {"axes", axes_of(v, o.run.axes)},
          {"gpu", o.run.gpu},
          {"ncu", o.ncu.version},
          {"set", o.full ? "full" : "lesson"},
          {"time", where.at("time")},
          {"git_sha", where.at("git_sha")},
          {"git_dirty", where.at("git_dirty")},
          {"cut_short", cut_short},
          {"lacking", launches.empty() ? std::vector<std::string>() : lacking(columns)},
          {"kernels", kernels_of(launches, columns)}};
}

}  // namespace

std::optional<Ncu> find_ncu() {
  const fs::path program = ncu_program();
  if (program.empty()) return std::nullopt;
  // "Version 2025.3.1.0 (build 36398880) (public-release)"
  const std::string version = line_after(output_of(quoted(program.string()) + " --version"), "Version");
  return Ncu{program, version.empty() ? "unknown" : version.substr(0, version.find(' '))};
}

std::string how_to_get_ncu() {
  return "Nsight Compute (ncu) is not here: it comes with the CUDA toolkit (from NVIDIA's "
         "packages: apt-get install cuda-nsight-compute-13-0, for the toolkit's version); put its folder into the "
         "PATH, or name the program in LADDER_NCU";
}

std::string why_no_counters(const std::string& words) {
  if (words.find("ERR_NVGPUCTRPERM") != std::string::npos) {
    return "the driver lets only the administrator read the GPU's counters (ERR_NVGPUCTRPERM): run this as root, or "
           "have the option NVreg_RestrictProfilingToAdminUsers=0 set for the module nvidia in /etc/modprobe.d and the "
           "machine restarted; in a container, give it the capability SYS_ADMIN";
  }
  if (words.find("Failed to initialize the profiler") != std::string::npos ||
      words.find("LibraryNotLoaded") != std::string::npos) {
    return "ncu cannot reach the driver's profiler here (" + line_after(words, "==ERROR==") +
           "): in a sandbox it is kept away, so use a machine, or a container, that shows the driver itself";
  }
  if (words.find("driver resource was unavailable") != std::string::npos) {
    return "another tool holds the GPU's counters (DCGM, or another profiler): stop it for a while "
           "(dcgmi profiling --pause)";
  }
  return "";
}

std::vector<std::string> known_metrics(const Ncu& ncu, int ordinal) {
  std::istringstream lines(
      output_of(fmt::format("timeout 120 {} --query-metrics --devices {}", quoted(ncu.program.string()), ordinal)));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const std::string word = line.substr(0, line.find_first_of(" \t"));
    if (word.find("__") != std::string::npos) names.push_back(word);
  }
  return names;
}

std::vector<std::string> scopes_to_profile(const Variant& v, const RunOptions& o) {
  if (!o.scopes.empty()) return o.scopes;
  const auto phases = v.card.value("phases", std::vector<std::string>());
  const auto has = [&](const char* phase) { return std::find(phases.begin(), phases.end(), phase) != phases.end(); };
  const bool steps = has("assign") || has("iterate");
  std::vector<std::string> scopes;
  if (has("initialise")) scopes.emplace_back("initialise");
  if (has("assign")) scopes.emplace_back("assign");
  if (has("update")) scopes.emplace_back("update");
  if (has("iterate")) scopes.emplace_back("iteration");
  const std::string shows = v.card.value("shows", "");
  if ((has("solve") && !steps) || (shows == "solve" && !phases.empty())) scopes.emplace_back("solve");
  // A card that a former build wrote does not name phases.
  return scopes.empty() ? std::vector<std::string>{"assign", "update"} : scopes;
}

Profiled profile_session(const Variant& v, const Workload& w, const ProfileOptions& o, const fs::path& scratch,
                         Progress& progress) {
  const std::vector<std::string> scopes = scopes_to_profile(v, o.run);
  fs::create_directories(o.reports);
  const fs::path report =
      fs::absolute(o.reports) / fmt::format("{}-{}-{}.ncu-rep", v.id, w.name, fmt::join(scopes, "+"));
  const fs::path log = scratch / "ncu.log";
  fs::remove(report);
  fs::remove(log);

  Session session;
  session.variant = &v;
  session.setting = {.device = DeviceKind::cuda, .axes = axes_of(v, o.run.axes)};
  session.scopes = scopes;
  session.worker = under_ncu(o, scopes.size(), report, log, scratch);
  const std::vector<json> rows = rows_of_session(session, w, o.run, {}, scratch, "", progress);
  const std::string words = read_if_there(log) + read_if_there(scratch / "request.json.log");
  if (const std::string why = why_no_counters(words); !why.empty()) throw NoCounters(why);

  Profiled result{"refused", "", {}};
  std::vector<std::string> sampled;
  for (const json& row : rows) {
    const std::string status = row.at("status");
    if (status == "ok") {
      sampled.push_back(row.at("scope"));
    } else if (status != "refused") {
      return {status, row.at("reason"), {}};
    } else if (result.reason.empty()) {
      result.reason = row.at("reason");
    }
  }
  if (sampled.empty()) return result;
  RawPage page = fs::exists(report) ? read_raw_page(raw_page(o.ncu, report)) : RawPage();
  if (page.launches.empty()) {
    if (const std::string error = line_after(words, "==ERROR=="); !error.empty())
      return {"failed", "ncu: " + error, {}};
    // ncu says so where there was nothing to profile: a silent one was stopped.
    if (words.find("No kernels were profiled") == std::string::npos)
      return {"failed", "ncu left no report: it may need more time (--time-limit), or --set lesson", {}};
  }
  result = {"ok", "", {}};

  // One scope at a time where it is not said which launch belongs to which, and for what the limit kept away.
  const auto alone = [&](const std::string& scope) {
    ProfileOptions one = o;
    one.run.scopes = {scope};
    const Profiled more = profile_session(v, w, one, scratch, progress);
    if (more.status != "ok") result.status = more.status, result.reason = more.reason;
    result.profiles.insert(result.profiles.end(), more.profiles.begin(), more.profiles.end());
  };
  const bool at_limit = page.launches.size() > limit_of(o, scopes.size());
  if (at_limit) page.launches.pop_back();
  std::vector<std::vector<Launch>> by_scope(sampled.size());
  size_t last = 0;
  for (const Launch& launch : page.launches) {
    for (size_t s = 0; s < sampled.size(); ++s) {
      if (sampled.size() > 1 && !launched_in(launch, sampled[s])) continue;
      by_scope[s].push_back(launch);
      last = std::max(last, s);
    }
  }
  size_t placed = 0;
  for (const auto& launches : by_scope) placed += launches.size();
  for (size_t s = 0; s < sampled.size(); ++s) {
    const bool lost = placed != page.launches.size() || (at_limit && s >= last && sampled.size() > 1);
    if (lost)
      alone(sampled[s]);
    else
      result.profiles.push_back(profile_of(v, w, sampled[s], o, by_scope[s], page.columns, at_limit && s == last));
  }
  return result;
}

}  // namespace ladder
