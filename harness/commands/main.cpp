// ladder: the command line. `ladder list` shows what there is, `ladder run` validates and times it, `ladder show`
// prints a record as a table.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>

#include "records/record.hpp"
#include "sessions/run.hpp"

namespace {
using namespace ladder;
using nlohmann::json;
namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (size_t from = 0; from <= list.size();) {
    const size_t to = std::min(list.find(',', from), list.size());
    if (to > from) words.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

/// Those of `all` whose name (or one of whose names) matches one of the patterns; every pattern must match something.
template <class Item, class Names>
std::vector<Item> choose(const std::vector<Item>& all, const std::string& patterns, const char* what, Names names) {
  std::vector<Item> chosen;
  std::vector<bool> in(all.size(), false);
  for (const std::string& pattern : split(patterns)) {
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const std::string& name : names(all[i])) {
        if (matches(pattern, name)) any = in[i] = true;
      }
    }
    if (!any) throw Error(fmt::format("no {} matches '{}': `ladder list` shows them all", what, pattern));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (in[i]) chosen.push_back(all[i]);
  }
  return chosen;
}

std::vector<fs::path> module_folders(const std::vector<std::string>& more) {
  std::vector<fs::path> folders = {program_folder() / "variants"};
  folders.insert(folders.end(), more.begin(), more.end());
  return folders;
}

json variants_as_json(const std::vector<Variant>& variants) {
  json list = json::array();
  for (const Variant& v : variants) {
    json entry = v.card.is_object() ? v.card : json{{"id", v.id}, {"base", ""}, {"idea", ""}};
    entry.erase("device");
    entry["devices"] = json::array();
    for (const auto& [kind, module] : v.modules) entry["devices"].push_back(to_string(kind));
    if (!v.broken.empty()) {
      entry["broken"] = json::object();
      for (const auto& [kind, why] : v.broken) entry["broken"][to_string(kind)] = why;
    }
    list.push_back(entry);
  }
  return list;
}

json workloads_as_json(const std::vector<Workload>& workloads) {
  json list = json::array();
  for (const Workload& w : workloads) {
    const bool made = w.generator.is_null() || fs::exists(w.points);
    json entry = {{"name", w.name},
                  {"family", w.family},
                  {"title", w.title},
                  {"n", w.n},
                  {"d", w.d},
                  {"k", w.k},
                  {"type", w.type},
                  {"stop", to_string(w.stop)},
                  {"source", w.source},
                  {"available", w.missing.empty()},
                  {"data", w.points.string()}};
    entry["reason"] = !w.missing.empty() ? w.missing : made ? "" : "generated when it is first run";
    if (w.image.is_object()) entry["image"] = w.image;
    list.push_back(entry);
  }
  return list;
}

void print_list(const json& all) {
  fmt::print("variants\n");
  for (const json& v : all["variants"]) {
    std::string devices;
    for (const json& device : v["devices"]) devices += (devices.empty() ? "" : ",") + device.get<std::string>();
    fmt::print("  {:<20} {:<20} {:<10} {}\n", v["id"].get<std::string>(),
               v["base"] == "" ? "(root)" : v["base"].get<std::string>(), devices, v["idea"].get<std::string>());
    if (!v.contains("broken")) continue;
    for (const auto& [kind, why] : v["broken"].items()) fmt::print("    {}: {}\n", kind, why.get<std::string>());
  }
  fmt::print("\nworkloads            N x D, K\n");
  for (const json& w : all["workloads"]) {
    const std::string size =
        fmt::format("{} x {}, {}", w["n"].get<int64_t>(), w["d"].get<int64_t>(), w["k"].get<int>());
    fmt::print("  {:<18} {:<24} {:<17} {}\n", w["name"].get<std::string>(), size, w["stop"].get<std::string>(),
               w["title"].get<std::string>());
    if (w["reason"] != "") {
      fmt::print("    {}{}\n", w["available"] ? "" : "not here: ", w["reason"].get<std::string>());
    }
  }
  fmt::print("\ndevices\n");
  for (const json& d : all["devices"]) {
    fmt::print("  {:<5} {} ({} multiprocessors or cores, {:.1f} GiB)\n", d["kind"].get<std::string>(),
               d["name"].get<std::string>(), d["multiprocessors"].get<int>(),
               d["memory_bytes"].get<double>() / (1 << 30));
  }
}

/// The GPU with this number among `devices`, as the record's context has it; null where there is no GPU at all.
json choose_gpu(const json& devices, int ordinal) {
  json chosen;
  int gpus = 0;
  for (json device : devices) {
    if (device["kind"] != "cuda") continue;
    ++gpus;
    if (device["ordinal"] != ordinal) continue;
    for (const char* key : {"kind", "ordinal"}) device.erase(key);
    chosen = device;
  }
  if (gpus > 0 && chosen.is_null())
    throw Error(fmt::format("--gpu {}: this machine's GPUs are numbered 0 to {}", ordinal, gpus - 1));
  return chosen;
}

std::vector<DeviceKind> device_kinds(const std::string& name, bool gpu) {
  if (name == "cuda" && !gpu)
    throw Error(fmt::format("no CUDA device: {}; --device simt runs the same on the CPU", why_no_gpu()));
  if (name == "auto") return {gpu ? DeviceKind::cuda : DeviceKind::simt, DeviceKind::cpu};
  if (name == "all") {
    if (gpu) return {DeviceKind::cuda, DeviceKind::simt, DeviceKind::cpu};
    return {DeviceKind::simt, DeviceKind::cpu};
  }
  if (name == "cpu") return {DeviceKind::cpu};
  return {device_kind(name), DeviceKind::cpu};  // CPU variants run beside either
}

fs::path default_record() {
  char name[64];
  const std::time_t now = std::time(nullptr);
  std::strftime(name, sizeof name, "record-%Y%m%d-%H%M%S.json", std::gmtime(&now));
  return fs::path("results") / "local" / name;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("K-means Ladder: every revision of GPU k-means, validated and timed");
  app.require_subcommand(1);
  std::vector<std::string> folders;

  auto* list = app.add_subcommand("list", "Show variants, workloads (and where their data is) and devices");
  bool as_json = false;
  list->add_flag("--json", as_json, "For programs");
  list->add_option("--modules", folders, "More folders with built variants");

  auto* run = app.add_subcommand("run", "Validate and time variants on workloads, and write a record");
  run->allow_extras();
  RunOptions o;
  std::string device = "auto", variants = "*", workloads = "*_tiny", scopes, stop_text, type, cache = "warm", own_data,
              init;
  std::vector<std::string> axes;
  int k = 0;
  uint64_t seed = 1;
  run->add_option("--device", device, "auto: a GPU where one works, else simt. CPU variants run beside either")
      ->check(CLI::IsMember({"auto", "cuda", "simt", "cpu", "all"}))
      ->capture_default_str();
  run->add_option("--variants", variants, "Globs, with commas between them")->capture_default_str();
  auto* workloads_option =
      run->add_option("--workloads", workloads, "Globs over names and families, with commas between them")
          ->capture_default_str();
  run->add_option("--scopes", scopes,
                  "Of upload,download,initialise and the default: assign,update,iteration,solve,end_to_end");
  run->add_option("--time-limit", o.time_limit, "Seconds per session (a variant on a workload); then it is stopped")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--min-time", o.min_seconds, "Seconds of samples per scope, at least")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  run->add_option("--max-time", o.max_seconds, "Seconds spent on a scope's samples, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--validation-budget", o.validation_budget,
                  "Multiply-adds per check of labels; what exceeds it is checked on a fixed sample of the points")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--cache", cache, "warm, or cold: L2 is evicted before every sample")
      ->check(CLI::IsMember({"warm", "cold"}))
      ->capture_default_str();
  run->add_option("--axis", axes, "NAME=VALUE for a tuning axis of the variants that have it");
  run->add_option("--gpu", o.ordinal, "Which GPU")->check(CLI::NonNegativeNumber)->capture_default_str();
  run->add_option("--out", o.out, "The record (default: results/local/record-TIME.json)");
  run->add_flag("--resume", o.resume, "Keep what is in --out, and do the rest");
  run->add_option(
      "--dump", o.dump,
      "Folder for labels.npy, centroids.npy, initial_centroids.npy and inertia.txt, by workload and variant");
  run->add_option("--modules", folders, "More folders with built variants");
  auto* data = run->add_option("--data", own_data, "A .npy file of one's own, N x D, instead of the catalogue");
  run->add_option("--k", k, "Clusters, for --data")->needs(data);
  run->add_option("--init", init, "Initial centroids for --data, K x D (.npy); default: random distinct points")
      ->needs(data);
  run->add_option("--type", type, "Element type for --data (default: the file's)")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->needs(data);
  run->add_option("--stop", stop_text, "For --data: exact (default), reassigned:FRACTION or fixed:ITERATIONS")
      ->needs(data);
  run->add_option("--seed", seed, "Of the random initial centroids, for --data")->needs(data)->capture_default_str();
  data->excludes(workloads_option);
  run->footer(
      "Flags that begin with --benchmark_ go to Google Benchmark: --benchmark_filter=REGEX (over\n"
      "VARIANT/WORKLOAD/SCOPE/..., it appends its own words), --benchmark_repetitions=N (exactly N samples).\n"
      "Exit status: 0 all rows ok or refused, 1 some row invalid or failed, 2 bad usage.");

  auto* show = app.add_subcommand("show", "Print a record as a table");
  std::string shown;
  show->add_option("record", shown, "The record")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  try {
    if (*show) {
      fmt::print("{}", table(read_record(shown)));
      return 0;
    }
    std::vector<fs::path> searched = module_folders(folders);
    if (*list) {
      const json all = {{"variants", variants_as_json(find_variants(searched))},
                        {"workloads", workloads_as_json(load_catalogue())},
                        {"devices", find_devices()}};
      if (as_json)
        std::cout << all.dump(1) << "\n";
      else
        print_list(all);
      return 0;
    }

    for (const std::string& word : run->remaining()) {
      if (word.rfind("--benchmark_", 0) != 0)
        throw Error(fmt::format("'{}' is not an option: see ladder run --help", word));
      o.benchmark_flags.push_back(word);
    }
    if (!scopes.empty()) o.scopes = split(scopes);
    for (const std::string& scope : o.scopes) scope_named(scope);
    for (const std::string& axis : axes) {
      const size_t sign = axis.find('=');
      try {
        if (sign == std::string::npos) throw std::invalid_argument("");
        o.axes[axis.substr(0, sign)] = std::stoi(axis.substr(sign + 1));
      } catch (const std::exception&) {
        throw Error(fmt::format("--axis '{}' is not NAME=VALUE with a whole number", axis));
      }
    }
    // Asked only where it matters: to find a GPU takes the driver a while.
    if (device != "simt" && device != "cpu") o.gpu = choose_gpu(find_devices(), o.ordinal);
    const std::vector<DeviceKind> kinds = device_kinds(device, !o.gpu.is_null());
    const auto chosen = choose(find_variants(searched), variants, "variant",
                               [](const Variant& v) { return std::vector<std::string>{v.id}; });
    std::vector<Workload> problems;
    if (!own_data.empty()) {
      problems.push_back(
          own_workload(own_data, k, init, type, stop_text.empty() ? Stop() : stop_rule(stop_text), seed));
      if (k > problems[0].n) {
        throw Error(
            fmt::format("K = {} is more than N = {} points: choose K of at most {}", k, problems[0].n, problems[0].n));
      }
    } else {
      problems = choose(load_catalogue(), workloads, "workload", [](const Workload& w) {
        return std::vector<std::string>{w.name, w.family};
      });
    }
    o.argv.assign(argv, argv + argc);
    o.cold = cache == "cold";
    o.insist = !own_data.empty();
    if (o.out.empty()) o.out = default_record();
    if (!o.dump.empty()) fs::create_directories(o.dump);
    const int status = run_ladder(o, kinds, chosen, std::move(problems));
    return status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ladder: {}\n", error.what());
    return 2;
  }
}
