// ladder check: one variant built with sanitizers and tried on small workloads: what a fast build lets pass (a read
// past an array's end, a barrier that is missing) is named here, with its line. Nothing is timed.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/foreign.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/session.hpp"
#include "workloads/source_notes.hpp"
#include "workloads/special_points.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct CheckWords {
  std::string id, workloads = "*_tiny,special_*", device = "cpu", folder = "variants";
  int ordinal = 0;
  double time_limit = 300;
};

/// A build that holds the variant and what runs it.
struct Built {
  DeviceKind device;
  fs::path worker;
  fs::path variants;  ///< folder of modules
};

Built build_sanitized(const CheckWords& w, const fs::path& source, const fs::path& scratch) {
  const fs::path build = source_folder() / "build-asan";
  const bool native = source.extension() == ".cpp";
  const std::string kind = native ? "cpu" : "simt";
  if (!fs::exists(build / "build.ninja"))
    run_tool(fmt::format("cd {} && cmake --preset asan", quoted(source_folder())),
             "configuring the sanitized build, once (seconds)", scratch / "configure.log");
  run_tool(fmt::format("cmake --build {} --target {}_{} ladder_worker_simt", quoted(build), kind, w.id),
           fmt::format("building {} with sanitizers ({})", w.id,
                       fs::exists(build / "ladder_worker_simt") ? "seconds" : "minutes, this first time"),
           scratch / "build.log");
  return {native ? DeviceKind::cpu : DeviceKind::simt, build / "ladder_worker_simt", build / w.folder};
}

Built build_for_gpu(const CheckWords& w, const fs::path& source, const fs::path& scratch) {
  if (source.extension() != ".cu")
    throw Error(fmt::format("{} is not CUDA: leave --device cuda out", source.filename().string()));
  if (!fs::exists(worker(DeviceKind::cuda)))
    throw Error(fmt::format("--device cuda: {}; without it, the CPU device checks the same text", why_no_gpu()));
  if (std::system("command -v compute-sanitizer >/dev/null 2>&1") != 0)
    throw Error("--device cuda needs compute-sanitizer in the PATH: it comes with the CUDA toolkit");
  run_tool(fmt::format("cmake --build {} --target cuda_{} ladder_worker_cuda", quoted(program_folder()), w.id),
           fmt::format("building {} for the GPU", w.id), scratch / "build.log");
  return {DeviceKind::cuda, worker(DeviceKind::cuda), program_folder() / w.folder};
}

Variant variant_of(const std::string& id, const Built& built) {
  for (Variant& v : find_variants({built.variants})) {
    if (v.id == id) return v;
  }
  throw Error(fmt::format("{} holds no variant '{}': was it added after the build was configured?",
                          built.variants.string(), id));
}

/// A program that runs the worker under a tool of compute-sanitizer.
fs::path under_sanitizer(const std::string& tool, const fs::path& worker, const fs::path& scratch) {
  const fs::path script = scratch / tool;
  // Kernels of many blocks with barriers in shared memory have more of them than synccheck watches by itself.
  const char* options = tool == "synccheck" ? " --num-cuda-barriers 16384" : "";
  std::ofstream(script) << fmt::format(
      "#!/bin/sh\nexec compute-sanitizer --tool {}{} --target-processes all {} \"$@\"\n", tool, options,
      quoted(worker));
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

/// What compute-sanitizer found first, of what it wrote: the finding, and the line of the source that it names.
std::string first_finding(const std::string& log) {
  const std::string mark = "========= ";
  std::string finding;
  for (size_t from = 0; from < log.size();) {
    const size_t to = std::min(log.find('\n', from), log.size());
    const std::string line = log.substr(from, to - from);
    from = to + 1;
    if (line.rfind(mark, 0) != 0 || line.rfind(mark + "COMPUTE-SANITIZER", 0) == 0) continue;
    if (line.find("SUMMARY: ") != std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" ", mark.size());
    if (begin == std::string::npos) break;  // an empty line ends the first finding
    const std::string words = line.substr(begin);
    if (finding.empty()) {
      finding = words;
    } else if (words.rfind("at ", 0) == 0) {
      return finding + ", " + words;
    }
  }
  return finding;
}

/// What the compiler warns of in the variant's file, which the sanitized build does not show: a variable without a
/// first value, for one. Empty where the build does not know the file.
std::set<std::string> warnings_of(const std::string& id, const fs::path& source, const fs::path& scratch) {
  const fs::path commands = source_folder() / "build-asan" / "compile_commands.json", log = scratch / "warnings.log";
  std::set<std::string> found;
  if (!fs::exists(commands)) return found;
  for (const json& entry : read_json(commands)) {
    const fs::path wrapper = entry.at("file").get<std::string>();
    if (wrapper.stem() != id) continue;
    const std::string command = std::regex_replace(entry.at("command").get<std::string>(), std::regex(" -o \\S+"),
                                                   " -S -o /dev/null -Wmaybe-uninitialized -fno-sanitize=all -O2");
    const std::string in = "cd " + quoted(entry.at("directory").get<std::string>()) + " && ";
    if (std::system((in + command + " >" + quoted(log) + " 2>&1").c_str()) != 0) continue;
    std::istringstream said(read_whole(log));
    for (std::string line; std::getline(said, line);) {
      if (line.find("warning: ") != std::string::npos && line.rfind(source.string(), 0) == 0) found.insert(line);
    }
  }
  return found;
}

/// The verdict on one workload in words; empty: right.
struct Finding {
  enum { right, refused, wrong } what;
  std::string words;
};

/// `waiting`: the worker that takes one workload after another; null: each has its own.
Finding try_on(const Workload& w, const RunOptions& o, const Session& session, const fs::path& scratch,
               Progress& progress, Waiting* waiting) {
  const std::vector<json> rows = rows_of_session(session, w, o, {}, scratch, "", progress, waiting);
  if (interrupted()) throw Error("interrupted (Ctrl-C)");
  // compute-sanitizer lets the worker end as if nothing were wrong, and says what is in the log.
  if (const std::string found = first_finding(read_whole(scratch / "request.json.log")); !found.empty())
    return {Finding::wrong, found};
  Finding all{Finding::refused, ""};
  for (const json& row : rows) {
    const std::string status = row.at("status"), reason = row.at("reason");
    if (status == "invalid" || status == "failed") return {Finding::wrong, reason};
    if (status == "refused" && all.what == Finding::refused) all.words = reason;
    if (status == "checked") all = {Finding::right, ""};
  }
  return all;
}

/// Those of datasets/workloads.json and the special points, whose files go to `scratch`.
std::vector<Workload> workloads_to_try(const std::string& globs, const fs::path& scratch) {
  std::vector<Workload> all = load_workloads();
  const fs::path folder = scratch / "special_points";
  fs::create_directories(folder);
  for (const SpecialPoints& special : all_special_points()) all.push_back(special_workload(special, folder));
  return choose_workloads(all, globs);
}

int check(const CheckWords& words) {
  const fs::path source = source_of(words.id, source_folder() / words.folder);
  if (source.empty())
    throw Error(fmt::format("there is no variant '{}' in {}: `ladder list` shows them all", words.id,
                            (source_folder() / words.folder).string()));
  if (source.extension() == ".py")
    throw Error(fmt::format("{} is Python: `ladder run` validates its results, and there is no code here to sanitize",
                            words.id));
  const Scratch scratch;
  std::vector<Workload> workloads = workloads_to_try(words.workloads, scratch.path);
  catch_interrupts();
  const bool gpu = words.device == "cuda";
  const Built built = gpu ? build_for_gpu(words, source, scratch.path) : build_sanitized(words, source, scratch.path);
  std::vector<std::pair<std::string, fs::path>> programs = {{"", built.worker}};
  if (gpu) {
    programs.clear();
    for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"})
      programs.emplace_back(std::string(tool) + ": ", under_sanitizer(tool, built.worker, scratch.path));
  }
  RunOptions o;
  o.scopes = {"initialise", "iteration", "solve"};
  o.time_limit = words.time_limit;
  o.ordinal = words.ordinal;
  o.check_only = true;
  const Variant variant = variant_of(words.id, built);
  if (const auto broken = variant.broken.find(built.device); broken != variant.broken.end())
    throw Error(fmt::format("{}: {}", words.id, broken->second));
  if (!variant.base.empty() && source_of(variant.base, source_folder() / "variants").empty() &&
      source_of(variant.base, source_folder() / words.folder).empty())
    throw Error(fmt::format("the card of {} names the base '{}', and there is no such variant: correct .base", words.id,
                            variant.base));
  size_t width = 0;
  for (const Workload& w : workloads) width = std::max(width, w.name.size());
  // Without compute-sanitizer one worker takes all workloads: a start costs more than most of them. One that dies is
  // followed by another.
  Waiting waiting;
  Progress progress(workloads.size() * programs.size());
  const double begin = now_seconds();
  int right = 0, wrong = 0;
  bool placed = false;  // has a finding a line of the file?
  for (Workload& w : workloads) {
    try {
      for (const std::string& done : make_ready(w, scratch.path)) fmt::print(stderr, "{}\n", done);
    } catch (const std::exception& error) {
      fmt::print("{:<{}} left out: {}\n", w.name, width, error.what());
      progress.skip(programs.size());
      continue;
    }
    for (const auto& [tool, program] : programs) {
      progress.doing(w.name);
      Session session;
      session.variant = &variant;
      session.setting.device = built.device;
      session.setting.axes = axes_of(variant, {});
      session.scopes = o.scopes;
      session.worker = program;
      const Finding finding = try_on(w, o, session, scratch.path, progress, gpu ? nullptr : &waiting);
      progress.clear();
      progress.count();
      right += finding.what == Finding::right;
      wrong += finding.what == Finding::wrong;
      placed = placed || finding.words.find(source.filename().string() + ":") != std::string::npos;
      const char* verdict = finding.what == Finding::right     ? "right"
                            : finding.what == Finding::refused ? "refused: "
                                                               : "WRONG: ";
      fmt::print("{:<{}} {}{}{}", w.name, width, tool, verdict, finding.words);
      const bool special = w.name.starts_with("special_") && finding.what == Finding::wrong;
      fmt::print("{}\n", special ? fmt::format(" (these points: {})", w.title) : "");
      std::fflush(stdout);
    }
  }
  if (wrong > 0 && !placed && !gpu) {
    for (const std::string& line : warnings_of(words.id, source, scratch.path)) fmt::print("the compiler: {}\n", line);
  }
  if (source.extension() == ".cu") {
    for (const std::string& note : source_notes(source)) fmt::print("note: {}\n", note);
  }
  fmt::print(stderr, "tried on {} workloads in {:.0f} s: {} right, {} wrong\n", workloads.size(), now_seconds() - begin,
             right, wrong);
  if (wrong == 0 && right == 0) {
    fmt::print(stderr, "ladder: {} ran on none of these workloads: name others with --workloads\n", words.id);
    return 1;
  }
  return wrong > 0 ? 1 : 0;
}

}  // namespace

Command check_command(CLI::App& app) {
  const auto words = std::make_shared<CheckWords>();
  auto* command = app.add_subcommand("check", "Build one variant with sanitizers and run it on small workloads");
  command->add_option("id", words->id, "The variant")->required();
  command->add_option("--workloads,--workload", words->workloads, "Globs over names and families")
      ->capture_default_str();
  command
      ->add_option("--device", words->device,
                   "cpu: AddressSanitizer, UBSan and the checks of the CPU device. cuda: the four tools of "
                   "compute-sanitizer on a GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--gpu", words->ordinal, "Which GPU")->check(not_negative())->capture_default_str();
  command->add_option("--folder", words->folder, "Folder of the variant's file, relative to the checkout")
      ->capture_default_str();
  command->add_option("--time-limit", words->time_limit, "Seconds per workload")
      ->check(above_zero())
      ->capture_default_str();
  command->footer(
      "Exit status: 0 right on every workload that it takes, 1 wrong on one, 2 bad usage, or it does not compile.");
  return {command, [words] { return check(*words); }};
}

}  // namespace ladder
