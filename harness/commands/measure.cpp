#include "commands/measure.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "runner/devices.hpp"
#include "runner/launcher.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Marks the workloads that a word without wildcards asks for.
void mark_named(std::vector<Workload>& workloads, const std::string& patterns) {
  for (const std::string& pattern : split(patterns)) {
    if (pattern.find_first_of("*?[") != std::string::npos) continue;
    for (Workload& w : workloads) w.named = w.named || w.name == pattern || w.family == pattern;
  }
}

}  // namespace

void add_measure_options(CLI::App& command, MeasureWords& words) {
  RunOptions& o = words.options;
  command
      .add_option("--device", words.device,
                  "auto: a GPU if one works, else simt, and CPU-only variants on the CPU. all: each variant on every "
                  "device that it supports")
      ->check(CLI::IsMember({"auto", "cuda", "simt", "cpu", "all"}))
      ->capture_default_str();
  command
      .add_option("--time-limit", o.time_limit,
                  "Seconds per session (a variant on a workload). Default: from the problem's size")
      ->check(above_zero());
  command.add_option("--warm-up", o.warm_up_seconds, "Seconds of a scope's own work before its first sample, on a GPU")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option("--sustained", o.sustained_seconds,
                  "Seconds of load right before the samples: for kernels that the power limit slows down")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option("--min-time", o.min_seconds,
                  "Seconds of sampling per scope (wall time), a fifth on simt; 1,000 samples end it sooner")
      ->check(not_negative())
      ->capture_default_str();
  command.add_option("--max-time", o.max_seconds, "Seconds of sampling per scope, at most")
      ->check(above_zero())
      ->capture_default_str();
  command
      .add_option("--validation-budget", o.validation_budget,
                  "Multiply-adds per check of labels; larger problems are checked on a sample of the points")
      ->check(above_zero())
      ->capture_default_str();
  command.add_flag("--all-labels", o.all_labels,
                   "Compare every label that a solve hands out with fp64: N x K x D multiply-adds more, on the CPU");
  command.add_option("--gpu", o.ordinal, "Which GPU")->check(not_negative())->capture_default_str();
  command
      .add_option("--gpus", o.gpus,
                  "Number of GPUs for variants that can use several, of each rank; --gpu is the first. On simt: of CPU "
                  "devices")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--ranks", o.ranks, "Processes that such a variant runs in, each with GPUs of its own")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      .add_option("--launcher", o.launcher,
                  "What starts them: mpi (mpirun or mpiexec), own, or auto: "
                  "mpi where it is here")
      ->check(CLI::IsMember({"auto", "mpi", "own"}))
      ->capture_default_str();
  command
      .add_option("--judge", o.judge,
                  "Where results are judged and timed: inside the process that runs the variant, apart from it, or "
                  "auto: apart, but with several GPUs and for a profile")
      ->check(CLI::IsMember({"auto", "inside", "apart"}))
      ->capture_default_str();
  command.add_flag("--show-output", o.show_output, "Show the whole output of sessions, not only its end");
  command.add_flag("!--no-keep", o.keep_generated, "Delete generated points from the cache after use");
  command.add_flag("--measure-ceilings", o.renew_ceilings, "Measure the peak rates of the devices again");
  command.add_flag("--force", o.force,
                   "--out may replace a file that is no record, and --dump other files than arrays");
  command.add_option("--modules", words.folders, "More folders with built variants");
}

void add_data_options(CLI::App& command, MeasureWords& words, CLI::Option* workloads) {
  auto* data = command.add_option("--data", words.own_data, "Your own .npy file, N x D, instead of a named workload");
  command.add_option("--k", words.k, "Clusters, for --data")->needs(data);
  command
      .add_option("--init", words.init, "Initial centroids for --data, K x D (.npy); default: random distinct points")
      ->needs(data);
  command.add_option("--type", words.type, "Element type for --data (default: the file's)")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->needs(data);
  command.add_option("--stop", words.stop_text, "For --data: exact (default), reassigned:FRACTION or fixed:ITERATIONS")
      ->needs(data);
  command.add_option("--metric", words.metric, "For --data: euclidean or cosine")->needs(data)->capture_default_str();
  command
      .add_option("--kernel", words.kernel,
                  "For --data, kernel k-means: linear, polynomial:GAMMA,OFFSET,DEGREE or gaussian:GAMMA")
      ->needs(data)
      ->capture_default_str();
  command.add_option("--seed", words.seed, "Of the random initial centroids, for --data")
      ->needs(data)
      ->capture_default_str();
  data->excludes(workloads);
}

std::vector<DeviceKind> find_kinds(MeasureWords& words) {
  RunOptions& o = words.options;
  // Asked only where it matters: to find a GPU takes the driver a while.
  if (words.device != "simt" && words.device != "cpu") {
    const json devices = find_devices();
    o.gpu = choose_gpu(devices, o.ordinal);
    try {
      for (int gpu = 1; gpu < o.gpus * o.ranks; ++gpu) choose_gpu(devices, o.ordinal + gpu);
    } catch (const Error& error) {
      throw Error(fmt::format("--gpus {} for each of {} rank{}, from GPU {} on, takes {} GPUs; {}", o.gpus, o.ranks,
                              o.ranks == 1 ? "" : "s", o.ordinal, o.gpus * o.ranks, error.what()));
    }
  }
  o.every_device = words.device == "all";
  if (o.ranks > 1) mpi_launcher(o.launcher);  // what cannot be found is said before anything runs
  return device_kinds(words.device, !o.gpu.is_null());
}

std::vector<Workload> find_problems(MeasureWords& words) {
  words.options.insist = !words.own_data.empty();
  std::vector<Workload> problems;
  if (words.own_data.empty()) {
    problems = choose_workloads(load_workloads(), words.workloads);
    mark_named(problems, words.workloads);
    return problems;
  }
  problems.push_back(own_workload(words.own_data, words.k, words.init, words.type,
                                  words.stop_text.empty() ? Stop() : stop_rule(words.stop_text), words.seed));
  Workload& workload = problems.front();
  workload.metric = metric_named(words.metric);
  workload.kernel = kernel_named(words.kernel);
  if (workload.kernel && workload.metric == Metric::cosine)
    throw Error("--metric cosine: kernel k-means has a distance of its own, leave it out beside --kernel");
  if (words.k > workload.n)
    throw Error(
        fmt::format("K = {} is more than N = {} points: choose K of at most {}", words.k, workload.n, workload.n));
  return problems;
}

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

fs::path new_record(const std::string& kind) {
  char when[64];
  const std::time_t now = std::time(nullptr);
  std::strftime(when, sizeof when, "%Y%m%d-%H%M%S", std::gmtime(&now));
  // With its process, as another run may begin in the same second.
  return fs::path("results") / "local" / fmt::format("{}-{}-{}.json", kind, when, getpid());
}

fs::path tuned_file(const MeasureWords& words) {
  return words.tuned.empty() ? source_folder() / "results" / "tuned.json" : words.tuned;
}

void need_one_that_ran(const Workload& w, const json& rows) {
  // A row can be refused of a variant that was validated: where it has no such scope.
  const auto refused = [](const json& row) { return row.at("status") == "refused" && row.at("validation").is_null(); };
  if (rows.empty() || !std::all_of(rows.begin(), rows.end(), refused)) return;
  throw Error(fmt::format("none of the chosen variants takes {} ({} x {}, K = {}): {} {}", w.name, w.n, w.d, w.k,
                          rows[0].at("variant").get<std::string>(), rows[0].at("reason").get<std::string>()));
}

}  // namespace ladder
