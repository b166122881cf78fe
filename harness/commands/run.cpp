// ladder run: validates and times variants on workloads, and writes a record.
#include <algorithm>
#include <charconv>
#include <ctime>
#include <memory>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "records/record.hpp"
#include "sessions/devices.hpp"
#include "sessions/interleave.hpp"
#include "sessions/run.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The options as they are written, before any of them is looked at.
struct RunWords {
  RunOptions options;
  std::string device = "auto", variants = "*", workloads = "*_tiny", scopes, stop_text, type, cache = "warm", own_data,
              init, metric = "euclidean", kernel = "none";
  std::vector<std::string> axes, folders, remaining;
  std::string compare;
  int sessions = fewest_sessions;
  int k = 0;
  uint64_t seed = 1;
};

fs::path default_record() {
  char name[64];
  const std::time_t now = std::time(nullptr);
  std::strftime(name, sizeof name, "record-%Y%m%d-%H%M%S.json", std::gmtime(&now));
  return fs::path("results") / "local" / name;
}

std::map<std::string, int> axis_values(const std::vector<std::string>& wishes) {
  std::map<std::string, int> values;
  for (const std::string& axis : wishes) {
    const size_t sign = axis.find('=');
    const size_t begin = sign == std::string::npos ? axis.size() : sign + 1;
    int value = 0;
    const char* const end = axis.data() + axis.size();
    const auto [read, error] = std::from_chars(axis.data() + begin, end, value);
    if (sign == 0 || error != std::errc() || read != end)
      throw Error(fmt::format("--axis '{}' is not NAME=VALUE with a whole number: as in --axis block=128", axis));
    values[axis.substr(0, sign)] = value;
  }
  return values;
}

/// Throws Error where no chosen variant has an axis, or none takes the value.
void require_axes(const std::map<std::string, int>& wishes, const std::vector<Variant>& variants) {
  for (const auto& [name, value] : wishes) {
    std::map<std::string, std::set<int>> known;  // of all chosen variants
    for (const Variant& v : variants) {
      for (const json& axis : v.card.is_object() ? v.card.value("axes", json::array()) : json::array()) {
        for (const int possible : axis.at("values")) known[axis.at("name")].insert(possible);
      }
    }
    if (!known.count(name)) {
      std::string names;
      for (const auto& [axis, values] : known) names += (names.empty() ? "" : ", ") + axis;
      throw Error(fmt::format("--axis {}: no chosen variant has such an axis; {}", name,
                              names.empty() ? "they have none" : "they have " + names));
    }
    if (!known[name].count(value))
      throw Error(fmt::format("--axis {}={}: no chosen variant takes that; {} can be {}", name, value, name,
                              listed(known[name])));
  }
}

/// Marks the workloads that a word without wildcards asks for.
void mark_named(std::vector<Workload>& workloads, const std::string& patterns) {
  for (const std::string& pattern : split(patterns)) {
    if (pattern.find_first_of("*?[") != std::string::npos) continue;
    for (Workload& w : workloads) w.named = w.named || w.name == pattern || w.family == pattern;
  }
}

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

/// Points of one's own that every variant refused have no result. One reason stands for all; the record has them.
void need_one_that_ran(const Workload& w, const json& rows) {
  // A row can be refused of a variant that was validated: where it has no such scope.
  const auto refused = [](const json& row) { return row.at("status") == "refused" && row.at("validation").is_null(); };
  if (rows.empty() || !std::all_of(rows.begin(), rows.end(), refused)) return;
  throw Error(fmt::format("none of the chosen variants takes {} ({} x {}, K = {}): {} {}", w.name, w.n, w.d, w.k,
                          rows[0].at("variant").get<std::string>(), rows[0].at("reason").get<std::string>()));
}

int run(RunWords words) {
  RunOptions& o = words.options;
  for (const std::string& word : words.remaining) {
    if (word.rfind("--benchmark_", 0) != 0)
      throw Error(fmt::format("'{}' is not an option: see ladder run --help", word));
    o.benchmark_flags.push_back(word);
  }
  if (!words.scopes.empty()) o.scopes = split(words.scopes);
  for (const std::string& scope : o.scopes) scope_named(scope);
  o.axes = axis_values(words.axes);
  // Asked only where it matters: to find a GPU takes the driver a while.
  if (words.device != "simt" && words.device != "cpu") {
    const json devices = find_devices();
    for (int gpu = 0; gpu < o.gpus; ++gpu) {
      const json chosen = choose_gpu(devices, o.ordinal + gpu);
      if (gpu == 0) o.gpu = chosen;
    }
  }
  o.every_device = words.device == "all";
  const std::vector<DeviceKind> kinds = device_kinds(words.device, !o.gpu.is_null());
  o.cold = words.cache == "cold";
  if (o.cold && std::find(kinds.begin(), kinds.end(), DeviceKind::cuda) == kinds.end())
    throw Error("--cache cold: caches are evicted on a GPU only, and this run uses none: leave it out");
  std::vector<Variant> variants = find_variants(module_folders(words.folders));
  need_bases(variants);
  std::vector<Variant> chosen =
      words.compare.empty() ? choose_variants(variants, words.variants) : in_this_order(variants, words.compare);
  hash_modules(chosen);
  require_axes(o.axes, chosen);
  std::vector<Workload> problems;
  if (!words.own_data.empty()) {
    problems.push_back(own_workload(words.own_data, words.k, words.init, words.type,
                                    words.stop_text.empty() ? Stop() : stop_rule(words.stop_text), words.seed));
    problems[0].metric = metric_named(words.metric);
    problems[0].kernel = kernel_named(words.kernel);
    if (problems[0].kernel && problems[0].metric == Metric::cosine)
      throw Error("--metric cosine: kernel k-means has a distance of its own, leave it out beside --kernel");
    if (words.k > problems[0].n) {
      throw Error(fmt::format("K = {} is more than N = {} points: choose K of at most {}", words.k, problems[0].n,
                              problems[0].n));
    }
  } else {
    problems = choose_workloads(load_catalogue(), words.workloads);
    mark_named(problems, words.workloads);
  }
  o.insist = !words.own_data.empty();
  if (o.out.empty()) o.out = default_record();
  if (!o.dump.empty()) fs::create_directories(o.dump);
  if (!words.compare.empty())
    return run_interleaved(o, kinds, chosen, std::move(problems), words.sessions, standard_margin);
  const int status = run_ladder(o, kinds, chosen, problems);
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
         "--device", words->device,
         "auto: a GPU where one works, else simt; what is only for the CPU runs beside either. all: each variant "
         "on every device that it is for")
      ->check(CLI::IsMember({"auto", "cuda", "simt", "cpu", "all"}))
      ->capture_default_str();
  run->add_option("--variants", words->variants, "Globs, with commas between them")->capture_default_str();
  auto* compare = run->add_option("--compare", words->compare,
                                  "BASE,VARIANT[,...] instead of --variants: sessions in turns, and a verdict for each")
                      ->excludes("--variants");
  run->add_option("--sessions", words->sessions, "Of each variant, with --compare")
      ->check(CLI::Range(fewest_sessions, 1000))
      ->needs(compare)
      ->capture_default_str();
  auto* workloads_option =
      run->add_option("--workloads", words->workloads, "Globs over names and families, with commas between them")
          ->capture_default_str();
  run->add_option(
      "--scopes", words->scopes,
      fmt::format("Of {} (default: all but initialise, which is for variants about it)", listed(scope_names())));
  run->add_option("--time-limit", words->options.time_limit,
                  "Seconds per session (a variant on a workload); then it is stopped. Default: from the problem's size")
      ->check(CLI::PositiveNumber);
  run->add_option("--warm-up", words->options.warm_up_seconds,
                  "Seconds of a scope's own work before its first sample, on a GPU")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  run->add_option("--sustained", words->options.sustained_seconds,
                  "Seconds of work right before each batch of samples: for kernels that a power limit slows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  run->add_flag("--check", words->options.check_only, "Validate, and time nothing");
  run->add_option("--min-time", words->options.min_seconds, "Seconds of samples per scope, at least")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  run->add_option("--max-time", words->options.max_seconds, "Seconds spent on a scope's samples, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--validation-budget", words->options.validation_budget,
                  "Multiply-adds per check of labels; what exceeds it is checked on a fixed sample of the points")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--cache", words->cache, "warm, or cold: L2 is evicted before every sample")
      ->check(CLI::IsMember({"warm", "cold"}))
      ->capture_default_str();
  run->add_option("--axis", words->axes, "NAME=VALUE for a tuning axis of the variants that have it");
  run->add_option("--gpu", words->options.ordinal, "Which GPU")->check(CLI::NonNegativeNumber)->capture_default_str();
  run->add_option("--gpus", words->options.gpus, "How many GPUs a variant gets that can use so many, --gpu the first")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  auto* out = run->add_option("--out", words->options.out, "The record (default: results/local/record-TIME.json)");
  run->add_flag("--resume", words->options.resume, "Keep what is in --out, and do the rest")
      ->needs(out)
      ->excludes(compare);
  run->add_option(
         "--dump", words->options.dump,
         "Folder for labels.npy, centroids.npy, initial_centroids.npy and inertia.txt, by workload and variant")
      ->excludes(compare);
  run->add_flag("--show-output", words->options.show_output, "Show all that sessions write, not only its end");
  run->add_flag("!--no-keep", words->options.keep_generated, "Delete generated points from the cache after their use");
  run->add_flag("--measure-ceilings", words->options.renew_ceilings, "Measure anew what the devices can do at most");
  run->add_option("--modules", words->folders, "More folders with built variants");
  auto* data = run->add_option("--data", words->own_data, "A .npy file of one's own, N x D, instead of the catalogue");
  run->add_option("--k", words->k, "Clusters, for --data")->needs(data);
  run->add_option("--init", words->init, "Initial centroids for --data, K x D (.npy); default: random distinct points")
      ->needs(data);
  run->add_option("--type", words->type, "Element type for --data (default: the file's)")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->needs(data);
  run->add_option("--stop", words->stop_text, "For --data: exact (default), reassigned:FRACTION or fixed:ITERATIONS")
      ->needs(data);
  run->add_option("--metric", words->metric, "For --data: euclidean or cosine")->needs(data)->capture_default_str();
  run->add_option("--kernel", words->kernel,
                  "For --data, kernel k-means: linear, polynomial:GAMMA,OFFSET,DEGREE or gaussian:GAMMA")
      ->needs(data)
      ->capture_default_str();
  run->add_option("--seed", words->seed, "Of the random initial centroids, for --data")
      ->needs(data)
      ->capture_default_str();
  data->excludes(workloads_option);
  run->footer(
      "Flags that begin with --benchmark_ go to Google Benchmark: --benchmark_filter=REGEX (over\n"
      "VARIANT/WORKLOAD/SCOPE/..., it appends its own words), --benchmark_repetitions=N (exactly N samples).\n"
      "Exit status: 0 all rows ok or refused, 1 some row invalid or failed, or a workload\n"
      "asked for by its name was not run, 2 bad usage, or points of --data that cannot be clustered\n"
      "or that every variant refused.");
  return {run, [words, command = run] {
            words->remaining = command->remaining();
            return ladder::run(*words);
          }};
}

}  // namespace ladder
