// ladder profile: what Nsight Compute counts of one sample of each scope, into results/DEVICE/profile.json.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "formats/place.hpp"
#include "records/metrics.hpp"
#include "records/profile.hpp"
#include "records/renamed.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/profile.hpp"
#include "runner/run.hpp"
#include "workloads/ready.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct ProfileWords {
  ProfileOptions options;
  std::vector<std::string> variants, folders;
  std::string workload, scopes, set = "full";
  fs::path out;
  double budget = 1e9;
  bool all = false, resume = false;
  CLI::Option* show = nullptr;
  std::string shown;
};

std::string patterns_of(const ProfileWords& words) {
  std::string patterns = words.all ? "*" : "";
  for (const std::string& word : words.variants) patterns += "," + word;
  return patterns;
}

/// The profiles that this checkout keeps.
std::vector<fs::path> committed_profiles() {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(source_folder() / "results", none)) {
    if (fs::exists(entry.path() / "profile.json")) files.push_back(entry.path() / "profile.json");
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Those in a file of the variants that the patterns name (none: of all), on the workload that is asked for.
std::vector<json> profiles_in(const fs::path& file, const std::string& patterns, const std::string& workload) {
  const std::vector<std::string> globs = split(patterns);
  std::vector<json> chosen;
  const json whole = read_profile(file);
  for (json p : whole.at("profiles")) {
    const auto& today = renamed_variants().renamed;
    for (const char* field : {"variant", "base"}) {
      if (const auto found = today.find(p.at(field).get<std::string>()); found != today.end()) p[field] = found->second;
    }
    const std::string variant = p.at("variant"), name = p.at("workload");
    const bool wanted = globs.empty() || std::any_of(globs.begin(), globs.end(),
                                                     [&](const std::string& glob) { return matches(glob, variant); });
    if (wanted && (workload.empty() || matches(workload, name))) chosen.push_back(p);
  }
  return chosen;
}

/// Prints what the files have of what is asked for; false where they have nothing.
bool show(const std::vector<fs::path>& files, const ProfileWords& words) {
  bool any = false;
  for (const fs::path& file : files) {
    const std::vector<json> profiles = profiles_in(file, patterns_of(words), words.workload);
    if (profiles.empty()) continue;
    fmt::print("{}{}:\n\n{}", any ? "\n" : "", fs::proximate(file).string(), profile_text(profiles));
    any = true;
  }
  return any;
}

/// One sentence, and what was counted elsewhere.
int cannot(const std::string& why, const ProfileWords& words) {
  fmt::print(stderr, "ladder: nothing can be profiled here: {}\n", why);
  if (show(committed_profiles(), words))
    fmt::print(stderr, "shown instead: what was counted before, and committed\n");
  else
    fmt::print(stderr, "and no committed profile (results/*/profile.json) has what is asked for\n");
  return 1;
}

/// The workloads on which a variant may be profiled without --workload: the lessons of workloads.json in their order.
std::vector<Workload> workloads_for_lessons() {
  std::vector<Workload> chosen, all = load_workloads();
  for (const std::string& name : lesson_workloads()) {
    for (const Workload& w : all) {
      if (w.name == name && w.missing.empty()) chosen.push_back(w);
    }
  }
  return chosen;
}

bool is_profiled(const fs::path& file, const Variant& v, const std::vector<std::string>& scopes,
                 const std::vector<Workload>& workloads) {
  for (const Workload& w : workloads) {
    const std::vector<json> known = profiles_in(file, v.id, w.name);
    const bool all = std::all_of(scopes.begin(), scopes.end(), [&](const std::string& scope) {
      return std::any_of(known.begin(), known.end(), [&](const json& p) {
        return p.at("scope") == scope && p.at("module_hash") == v.module_hash.at(DeviceKind::cuda);
      });
    });
    if (all) return true;
  }
  return false;
}

/// On the first workload that the variant takes.
Profiled profile_on_one_of(const Variant& v, const std::vector<Workload>& workloads, const ProfileOptions& options,
                           ReadyWorkloads& ready, const fs::path& scratch, Progress& progress, std::string& taken) {
  Profiled last{"refused", "no workload is here: `ladder list` says what is missing", {}};
  for (const Workload& w : workloads) {
    progress.doing(fmt::format("{} {}", v.id, w.name));
    taken = w.name;
    try {
      last = profile_session(v, ready(w), options, scratch, progress);
    } catch (const NoCounters&) {
      throw;
    } catch (const std::exception& error) {
      last = {"failed", error.what(), {}};
    }
    if (last.status != "refused" || interrupted()) break;
  }
  return last;
}

/// Throws Error, before hours of work, where `out` cannot be written, or is a file that is no profile.
void need_profile_place(const fs::path& out) {
  need_folder(fs::absolute(target_of(out)).parent_path());
  read_profile(out);
}

int profile(ProfileWords words) {
  if (words.show->count() > 0) {
    if (!words.shown.empty() && !fs::exists(words.shown) && !words.shown.ends_with(".json"))
      words.variants.push_back(std::exchange(words.shown, ""));  // a rung stands behind --show
    if (!words.shown.empty() && !fs::exists(words.shown)) throw Error(fmt::format("{} is not there", words.shown));
    const bool any = show(words.shown.empty() ? committed_profiles() : std::vector<fs::path>{words.shown}, words);
    if (!any) fmt::print(stderr, "ladder: there is no profile of what is asked for: `ladder profile` makes them\n");
    return any ? 0 : 1;
  }
  if (!words.all && words.variants.empty())
    throw Error("no variant is named: name some (globs), or --all; --show prints what was counted before");
  ProfileOptions& o = words.options;
  RunOptions& run = o.run;
  run.profile = true;
  if (!words.scopes.empty()) run.scopes = split(words.scopes);
  for (const std::string& scope : run.scopes) scope_named(scope);
  run.gpu = choose_gpu(find_devices(), run.ordinal);
  if (run.gpu.is_null()) return cannot(why_no_gpu(), words);
  const std::optional<Ncu> ncu = find_ncu();
  if (!ncu) return cannot(how_to_get_ncu(), words);
  o.ncu = *ncu;
  o.full = words.set == "full";
  o.reports = source_folder() / "results" / "local" / "profile";
  if (words.out.empty()) words.out = source_folder() / "results" / device_folder(run.gpu.at("name")) / "profile.json";
  need_profile_place(words.out);

  const std::vector<Variant> variants =
      with_kernels(choose_variants(find_variants(module_folders(words.folders)), patterns_of(words)));
  const std::vector<Workload> workloads =
      words.workload.empty() ? workloads_for_lessons() : choose_workloads(load_workloads(), words.workload);

  catch_interrupts();
  const std::vector<std::string> known = known_metrics(o.ncu, run.ordinal);
  if (known.empty())
    fmt::print(stderr, "ncu {} lists no metrics: only what its sections hold is counted\n", o.ncu.version);
  else if (const auto unknown = unknown_metrics(known); !unknown.empty())
    fmt::print(stderr, "ncu {} does not know: {}\n", o.ncu.version, listed(unknown));
  o.metrics = to_ask_for(known);

  const Scratch scratch;
  ReadyWorkloads ready(scratch.path);
  Progress progress(variants.size());
  const double begin = now_seconds();
  std::vector<json> made;
  bool bad = false;
  for (const Variant& v : variants) {
    if (interrupted()) break;
    if (words.resume && is_profiled(words.out, v, scopes_to_profile(v, run), workloads)) {
      progress.not_to_do(1, v.id + ": kept from before");
      continue;
    }
    if (now_seconds() - begin > words.budget) {
      progress.not_to_do(1, fmt::format("{}: not begun within {:.0f} s; --resume goes on", v.id, words.budget));
      bad = true;
      continue;
    }
    std::string taken;
    Profiled result;
    try {
      result = profile_on_one_of(v, workloads, o, ready, scratch.path, progress, taken);
    } catch (const NoCounters& why) {
      progress.clear();
      return cannot(why.what(), words);
    }
    merge_into_profile(words.out, result.profiles);
    made.insert(made.end(), result.profiles.begin(), result.profiles.end());
    bad = bad || result.status != "ok";
    std::string scopes;
    for (const json& p : result.profiles)
      scopes += fmt::format("  {}: {}", p.at("scope").get<std::string>(),
                            p.at("kernels").empty() ? "no kernel" : fmt::format("{} kernels", p.at("kernels").size()));
    progress.session_done(fmt::format("{:<20} {:<14}{}", v.id, taken, scopes) +
                          (result.status == "ok" ? "" : fmt::format("  {}: {}", result.status, result.reason)));
  }
  fmt::print("{}\n", profile_text(made));
  if (!made.empty())
    fmt::print("profile: {}\nreports: {}/*.ncu-rep (for Nsight Compute's own window: ncu-ui)\n",
               fs::proximate(words.out).string(), fs::proximate(o.reports).string());
  return interrupted() ? 130 : bad ? 1 : 0;
}

}  // namespace

Command profile_command(CLI::App& app, const std::vector<std::string>& argv) {
  const auto words = std::make_shared<ProfileWords>();
  words->options.run.argv = argv;
  words->options.run.time_limit = 600;
  auto* command = app.add_subcommand("profile", "Profile kernels with Nsight Compute (ncu) and show the counters");
  command->add_option("variants", words->variants, "Globs of variants");
  command->add_flag("--all", words->all, "Every variant with kernels of its own");
  command->add_option("--workload,--workloads", words->workload,
                      "Each variant is profiled on the first of these that it takes (default: `lessons` of "
                      "datasets/workloads.json)");
  command->add_option("--scopes", words->scopes,
                      "Scopes, with commas between them (default: one for each phase; the solve where it shows there)");
  command
      ->add_option("--set", words->set,
                   "full: all that ncu can count, with the source in the report. lesson: only what profile.json keeps, "
                   "in fewer passes")
      ->check(CLI::IsMember({"full", "lesson"}))
      ->capture_default_str();
  command->add_option("--launches", words->options.launches, "Kernel launches per scope, at most")
      ->check(above_zero())
      ->capture_default_str();
  command->add_option("--time-limit", words->options.run.time_limit, "Seconds per variant and workload")
      ->check(above_zero())
      ->capture_default_str();
  command->add_option("--budget", words->budget, "Seconds after which no further variant is started")
      ->check(above_zero());
  command->add_flag("--resume", words->resume, "Skip variants that the file has from this build");
  command->add_option("--gpu", words->options.run.ordinal, "Which GPU")->check(not_negative())->capture_default_str();
  command->add_option("--modules", words->folders, "More folders with built variants");
  command->add_option("--out", words->out, "The profile (default: results/DEVICE/profile.json)");
  words->show = command
                    ->add_option("--show", words->shown,
                                 "Print what this file has, without profiling (default: the committed profiles)")
                    ->expected(0, 1);
  command->footer(
      "Clocks are not locked (--clock-control none). Exit status: 0 all is profiled,\n"
      "1 something is not, or profiling is not possible here (committed counters are shown instead), 2 bad usage.");
  return {command, [words] { return profile(*words); }};
}

}  // namespace ladder
