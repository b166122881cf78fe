// ladder run: validates and times variants on workloads, and writes a record.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <regex>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/measure.hpp"
#include "formats/place.hpp"
#include "records/record.hpp"
#include "records/tuned.hpp"
#include "runner/choice.hpp"
#include "runner/devices.hpp"
#include "runner/interleave.hpp"
#include "runner/run.hpp"
#include "sandbox/sandbox.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct RunWords : MeasureWords {
  std::string variants = "*", scopes, cache = "warm", compare;
  std::vector<std::string> remaining;
  int sessions = fewest_sessions, tries = usual_tries;
  std::optional<uint32_t> order_seed;
  bool untuned = false, variants_given = false;
};

constexpr const char* over_base = "base";  // --compare: each over its own

/// The variants of --compare: by their ids, the base first.
std::vector<Variant> in_this_order(const std::vector<Variant>& all, const std::string& list) {
  std::vector<Variant> chosen;
  for (const std::string& id : split(list)) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Variant& v) { return v.id == id; });
    if (found == all.end())
      throw Error(fmt::format("--compare: there is no variant '{}': `ladder list` shows them", id));
    for (const Variant& other : chosen) {
      if (other.id == id) throw Error(fmt::format("--compare: '{}' is there twice: name different variants", id));
    }
    chosen.push_back(*found);
  }
  if (chosen.size() < 2) throw Error(fmt::format("--compare '{}': name a base and at least one other", list));
  return chosen;
}

std::vector<Variant> of_all(const std::vector<Compared>& comparisons) {
  std::vector<Variant> found;
  for (const Compared& c : comparisons) found.insert(found.end(), c.variants.begin(), c.variants.end());
  return found;
}

/// The comparisons of --compare: of the variants in its list, or of each of --variants with its base.
std::vector<Compared> compared(const RunWords& words, const std::vector<Variant>& all,
                               const std::vector<DeviceKind>& kinds) {
  const RunOptions& o = words.options;
  if (words.compare != over_base) {
    if (words.variants_given)
      throw Error(fmt::format("--compare {}: the list names all variants; leave --variants out, or --compare {}",
                              words.compare, over_base));
    return {{in_this_order(all, words.compare), o.scopes}};
  }
  std::vector<std::string> left_out;
  std::vector<Compared> found = over_their_bases(choose_variants(all, words.variants), all, kinds, o.scopes, left_out);
  for (const std::string& sentence : left_out) fmt::print(stderr, "{}\n", sentence);
  return found;
}

/// All that may be chosen on the first of these devices that is no simulation of another one.
std::vector<Variant> variants_to_choose_from(const std::vector<Variant>& all, const std::vector<DeviceKind>& kinds) {
  std::vector<Variant> found;
  for (const DeviceKind kind : kinds) {
    if (kind == DeviceKind::simt || !found.empty()) continue;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const Variant& v) { return may_be_chosen(v) && v.modules.count(kind); });
  }
  return found;
}

/// The table of choices. Throws Error where it has nothing for the device that these variants would run on.
std::vector<ShapeTimes> table_for(const std::vector<DeviceKind>& kinds) {
  const fs::path file = source_folder() / "results" / "choice.json";
  std::vector<ShapeTimes> table = read_choice(file);
  const DeviceKind kind = kinds.front() == DeviceKind::simt ? DeviceKind::cpu : kinds.front();
  if (std::none_of(table.begin(), table.end(), [&](const ShapeTimes& t) { return t.device == to_string(kind); }))
    throw Error(
        fmt::format("--variants auto: {} has no times for the device {}: name variants, or measure some and "
                    "`ladder choose --make`",
                    file.string(), to_string(kind)));
  return table;
}

/// Of Google Benchmark's flags those whose values it would take without a word, and time nothing.
void need_sound_flag(const std::string& word) {
  const auto value_of = [&](const std::string& flag) {
    return word.rfind(flag, 0) == 0 ? std::optional(word.substr(flag.size())) : std::nullopt;
  };
  if (const auto count = value_of("--benchmark_repetitions=")) {
    int value = 0;
    const char* const end = count->data() + count->size();
    const auto [read, error] = std::from_chars(count->data(), end, value);
    if (error != std::errc() || read != end || value < 1)
      throw Error(fmt::format("{}: a whole number of at least 1 is needed", word));
  }
  if (const auto filter = value_of("--benchmark_filter=")) {
    try {
      const std::regex compiled(*filter, std::regex::extended);
    } catch (const std::regex_error&) {
      throw Error(fmt::format("{}: that is no regular expression", word));
    }
  }
}

/// Throws Error where a dump would replace an input, or a file that no dump holds.
void need_dump(const RunOptions& o, const std::vector<Workload>& workloads, const std::vector<Variant>& variants,
               const std::vector<DeviceKind>& kinds, const std::vector<fs::path>& inputs) {
  const auto is_array = [](const fs::path& file) {
    char begin[6] = {};
    std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
    return std::string_view(begin, sizeof begin) == "\x93NUMPY";
  };
  const auto is_number = [](const fs::path& file) {
    std::ifstream in(file);
    double inertia = 0;
    std::string more;
    return in >> inertia && !(in >> more);
  };
  need_folder(o.dump);
  for (const Workload& w : workloads) {
    if (!fs::exists(fs::symlink_status(o.dump / w.name))) continue;
    need_folder(o.dump / w.name);
    for (const Variant& v : variants) {
      std::vector<std::string> folders = {v.id};
      for (const DeviceKind kind : kinds) folders.push_back(v.id + "@" + to_string(kind));
      for (const std::string& name : folders) {
        const fs::path folder = o.dump / w.name / name;
        if (!fs::exists(fs::symlink_status(folder))) continue;
        need_folder(folder);
        for (const char* array : {"labels.npy", "first_labels.npy", "centroids.npy", "initial_centroids.npy"})
          need_place("--dump:", folder / array, {"array", is_array}, inputs, o.force);
        need_place("--dump:", folder / "inertia.txt", {"number", is_number}, inputs, o.force);
      }
    }
  }
}

int run(RunWords words) {
  RunOptions& o = words.options;
  for (const std::string& word : words.remaining) {
    if (word.rfind("--benchmark_", 0) != 0)
      throw Error(fmt::format("'{}' is not an option: see ladder run --help", word));
    need_sound_flag(word);
    o.benchmark_flags.push_back(word);
  }
  if (!words.scopes.empty()) o.scopes = split(words.scopes);
  for (const std::string& scope : o.scopes) scope_named(scope);
  o.axes = axis_values(words.axes);
  if (o.sandbox) {
    if (o.ranks > 1) throw Error("--sandbox: sessions of several ranks are not run in one: leave --ranks out");
    if (!o.dump.empty()) throw Error("--sandbox: a session in it can leave no files: leave --dump out");
    for (const std::string& scope : o.scopes)
      if (scope_named(scope).fresh)
        throw Error(fmt::format("--sandbox: {} needs files that a session leaves: name other scopes", scope));
    sandbox_way();
  }
  if (!o.workers.empty() && !fs::exists(o.workers / worker(DeviceKind::simt).filename()))
    throw Error(fmt::format("--workers {}: there is no {} in it: build it there", o.workers.string(),
                            worker(DeviceKind::simt).filename().string()));
  const std::vector<DeviceKind> kinds = find_kinds(words);
  o.cold = words.cache == "cold";
  if (o.cold && std::find(kinds.begin(), kinds.end(), DeviceKind::cuda) == kinds.end())
    throw Error("--cache cold: caches are evicted on a GPU only, and this run uses none: leave it out");
  std::vector<Variant> variants = find_variants(module_folders(words.folders));
  need_bases(variants);
  std::vector<Compared> comparisons;
  if (!words.compare.empty()) comparisons = compared(words, variants, kinds);
  for (Compared& c : comparisons) hash_modules(c.variants);
  const bool automatic = words.compare.empty() && words.variants == "auto";
  std::vector<Variant> chosen = automatic               ? variants_to_choose_from(variants, kinds)
                                : words.compare.empty() ? choose_variants(variants, words.variants)
                                                        : of_all(comparisons);
  if (comparisons.empty()) hash_modules(chosen);
  require_axes(o.axes, chosen);
  std::vector<Workload> problems = find_problems(words);
  if (!words.tuned.empty() && !fs::exists(words.tuned))
    throw Error(fmt::format("--tuned {}: there is no such file; `ladder tune` writes one", words.tuned.string()));
  if (o.out.empty()) o.out = new_record("record");
  need_place(o.out, {words.own_data, words.init, words.tuned}, o.force);
  if (!o.dump.empty()) {
    need_dump(o, problems, chosen, kinds, {words.own_data, words.init, words.tuned});
    fs::create_directories(o.dump);
  }
  // Ideas are compared at equal values.
  if (!words.compare.empty())
    return run_interleaved(o, kinds, comparisons, std::move(problems), words.sessions,
                           words.order_seed.value_or(std::random_device()() >> 1), standard_margin);
  const json tuned = words.untuned ? json() : read_tuned(tuned_file(words));
  std::unique_ptr<Plan> plan = std::make_unique<RunOnce>(o, tuned);
  if (automatic) {
    std::set<std::string> ids;
    for (const Variant& v : chosen) ids.insert(v.id);
    plan = std::make_unique<RunChosen>(o, tuned, table_for(kinds), ids, words.tries);
  }
  const int status = run_ladder(o, kinds, chosen, problems, *plan);
  if (o.insist && status == 0) need_one_that_ran(problems[0], read_record(o.out).at("rows"));
  return status;
}

}  // namespace

Command run_command(CLI::App& app, const std::vector<std::string>& argv) {
  const auto words = std::make_shared<RunWords>();
  words->options.argv = argv;
  auto* run = app.add_subcommand("run", "Validate and time variants on workloads, and write a record");
  run->allow_extras();
  run->add_option(
         "--variants", words->variants,
         "Globs, with commas between them; auto: on each workload the one that `ladder choose` expects to be fastest")
      ->capture_default_str();
  run->add_option("--tries", words->tries,
                  "With --variants auto: how many that are expected to be fastest are run on each workload")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  auto* compare = run->add_option("--compare", words->compare,
                                  "Sessions in turns, and a verdict for each. BASE,VARIANT[,...] instead of "
                                  "--variants; base: each of --variants over its base, in the scope that its card "
                                  "names");
  run->add_option("--sessions", words->sessions, "Of each variant, with --compare")
      ->check(CLI::Range(fewest_sessions, 1000))
      ->needs(compare)
      ->capture_default_str();
  run->add_option("--order-seed", words->order_seed,
                  "Of the random order of the sessions in each round, with --compare (default: another one each time; "
                  "the record has it)")
      ->check(CLI::Range(0u, 2000000000u))
      ->needs(compare);
  auto* workloads_option = run->add_option("--workloads,--workload", words->workloads,
                                           "Globs over names and families, with commas between them")
                               ->capture_default_str();
  run->add_option("--scopes", words->scopes,
                  fmt::format("Of {} (default: all but initialise, which is for variants about it, and cold_start)",
                              listed(scope_names())));
  add_measure_options(*run, *words);
  run->add_flag("--check", words->options.check_only, "Validate only, without timing");
  run->add_flag("--sandbox", words->options.sandbox,
                "Run each session without a network, rights or files to write to, within limits: `ladder sandbox`");
  run->add_option("--hide", words->options.hidden, "With --sandbox, a folder that sessions see empty")
      ->take_all()
      ->allow_extra_args(false);
  run->add_option("--workers", words->options.workers,
                  "Folder of the programs that run sessions: build-asan, for modules that were built with sanitizers");
  run->add_flag("--share", words->options.share,
                "Timed sessions of a GPU take turns in one process: for many small problems, whose sessions last no "
                "longer than a start. They are less independent, so not for a comparison")
      ->excludes(compare);
  run->add_option("--cache", words->cache, "warm, or cold: L2 is evicted before every sample")
      ->check(CLI::IsMember({"warm", "cold"}))
      ->capture_default_str();
  run->add_option("--axis", words->axes, "NAME=VALUE for a tuning axis of the variants that have it");
  auto* tuned =
      run->add_option("--tuned", words->tuned,
                      "The file of values that `ladder tune` found (default: results/tuned.json of the checkout); a "
                      "variant with an axis set by --axis does not use it, nor does --compare")
          ->excludes(compare);
  run->add_flag("--untuned", words->untuned, "Use the standard values of all axes, not the tuned ones")
      ->excludes(tuned);
  auto* out =
      run->add_option("--out", words->options.out, "The record (default: results/local/record-TIME-PROCESS.json)");
  run->add_flag("--resume", words->options.resume, "Keep the rows in --out and measure the others")
      ->needs(out)
      ->excludes(compare);
  run->add_option(
         "--dump", words->options.dump,
         "Folder for labels.npy, centroids.npy, initial_centroids.npy and inertia.txt, by workload and variant")
      ->excludes(compare);
  add_data_options(*run, *words, workloads_option);
  run->footer(
      "Flags that begin with --benchmark_ go to Google Benchmark: --benchmark_filter=REGEX (over\n"
      "VARIANT/WORKLOAD/SCOPE/..., it appends its own words), --benchmark_repetitions=N (exactly N samples).\n"
      "Exit status: 0 all rows ok or refused, 1 some row invalid or failed, or a workload\n"
      "asked for by its name was not run, 2 bad usage, or points of --data that cannot be clustered\n"
      "or that every variant refused.");
  return {run, [words, command = run] {
            words->remaining = command->remaining();
            words->variants_given = command->count("--variants") > 0;
            return ladder::run(*words);
          }};
}

}  // namespace ladder
