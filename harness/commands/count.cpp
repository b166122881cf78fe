// ladder count: what the warps of a rung's kernels do in one sample of each scope, counted on the CPU device, by kernel
// and by line of the source. The counters are those of `ladder profile`, and have its names.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>

#include "base/files.hpp"
#include "base/source_text.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/measure.hpp"
#include "formats/place.hpp"
#include "lessons/counting_build.hpp"
#include "records/profile.hpp"
#include "records/record.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/profile.hpp"
#include "runner/session.hpp"
#include "workloads/ready.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct CountWords {
  std::vector<std::string> variants, axes;
  std::string workloads = "kmcuda_tiny,angular_tiny,kernel_tiny", scopes;
  fs::path out;
  bool lines = false, as_json = false, build_only = false;
  int multiprocessors = 0;
  double time_limit = 300;
};

/// Warp instructions of one kind, over some places.
struct Sum {
  uint64_t requests = 0, lanes = 0, units = 0, ideal = 0, parted = 0;
  Sum& operator+=(const Sum& other) {
    requests += other.requests, lanes += other.lanes, units += other.units, ideal += other.ideal;
    parted += other.parted;
    return *this;
  }
};

struct Place {
  fs::path module;
  uint64_t address = 0;
  std::string kind;
  int bytes = 0;
  Sum sum;
};

/// A kernel with one grid and block, over all its launches.
struct Kernel {
  std::string name;
  std::vector<int64_t> grid, block;
  uint64_t launches = 0, blocks = 0, warps = 0;
  std::map<std::string, uint64_t> operations;
  std::vector<Place> places;
  Sum of(const std::string& kind) const {
    Sum sum;
    for (const Place& place : places) {
      if (place.kind == kind) sum += place.sum;
    }
    return sum;
  }
};

/// What simt_stop_counting wrote: lines of words with tabs between them (harness/simt/README.md).
std::vector<Kernel> read_counts(const fs::path& file) {
  std::vector<Kernel> kernels;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> words;
    std::istringstream split_line(line);
    for (std::string word; std::getline(split_line, word, '\t');) words.push_back(word);
    const auto number = [&](size_t i) { return std::stoull(words.at(i)); };
    if (words.at(0) == "kernel") {
      Kernel kernel;
      kernel.name = words.at(1);
      for (size_t i = 2; i < 5; ++i) kernel.grid.push_back(int64_t(number(i)));
      for (size_t i = 5; i < 8; ++i) kernel.block.push_back(int64_t(number(i)));
      kernel.launches = number(8), kernel.blocks = number(9), kernel.warps = number(10);
      kernels.push_back(std::move(kernel));
    } else if (words.at(0) == "operations") {
      kernels.at(kernels.size() - 1).operations[words.at(1)] = number(2);
    } else if (words.at(0) == "place") {
      kernels.at(kernels.size() - 1)
          .places.push_back({words.at(1),
                             std::stoull(words.at(2), nullptr, 16),
                             words.at(3),
                             int(number(4)),
                             {number(5), number(6), number(7), number(8), number(9)}});
    }
  }
  return kernels;
}

/// The counters of a kernel, means over its launches, by their names in `ladder profile` and some of its own.
json metrics_of(const Kernel& kernel) {
  const double launches = double(std::max<uint64_t>(1, kernel.launches));
  const auto mean = [&](uint64_t count) { return double(count) / launches; };
  const auto per = [](uint64_t units, uint64_t requests) {
    return requests ? json(double(units) / double(requests)) : json();
  };
  Sum load = kernel.of("global_load");
  load += kernel.of("grid_poll");
  const Sum store = kernel.of("global_store"), atomic = kernel.of("global_atomic"),
            shared_load = kernel.of("shared_load"), shared_store = kernel.of("shared_store"),
            one_turn = kernel.of("shared_atomic"), addition = kernel.of("shared_addition"),
            constant = kernel.of("constant_load"), code = kernel.of("code");
  Sum several_turns = addition, shared_atomic = one_turn;
  several_turns += kernel.of("shared_update");
  shared_atomic += several_turns;
  Sum barriers, operations;
  for (const Place& place : kernel.places) {
    if (place.kind == "together") (place.bytes == 1 ? barriers : operations) += place.sum;
  }
  json metrics = {{"sectors_per_load", per(load.units, load.requests)},
                  {"sectors_per_store", per(store.units, store.requests)},
                  {"load_requests", mean(load.requests)},
                  {"store_requests", mean(store.requests)},
                  {"constant_requests", mean(constant.units)},
                  {"shared_load_requests", mean(shared_load.requests)},
                  {"shared_store_requests", mean(shared_store.requests)},
                  {"wavefronts_load", mean(shared_load.units)},
                  {"wavefronts_store", mean(shared_store.units)},
                  {"bank_conflicts_load", mean(shared_load.units - shared_load.ideal)},
                  {"bank_conflicts_store", mean(shared_store.units - shared_store.ideal)},
                  {"global_atomics", mean(atomic.requests)},
                  {"steps_per_global_atomic", per(atomic.units, atomic.requests)},
                  {"shared_atomics", mean(shared_atomic.requests)},
                  {"steps_per_shared_atomic", per(shared_atomic.units, shared_atomic.requests)},
                  {"turns_per_shared_update", per(several_turns.requests, several_turns.ideal)},
                  {"barriers", mean(barriers.requests)},
                  {"warp_operations", mean(operations.requests)},
                  {"branches_parted", mean(code.parted)},
                  {"lanes_per_step", per(code.lanes, code.requests)}};
  for (const auto& [name, count] : kernel.operations) metrics[name] = mean(count);
  return metrics;
}

/// Of its counters those that depend on timing: on how the warps of a block come between each other
/// (simt/counting/updates.hpp), and on how long blocks wait for each other at a barrier of the grid.
std::vector<std::string> estimates_of(const Kernel& kernel) {
  std::vector<std::string> found;
  const auto has = [&](const std::string& kind, int bytes) {
    return std::any_of(kernel.places.begin(), kernel.places.end(),
                       [&](const Place& place) { return place.kind == kind && (bytes == 0 || place.bytes == bytes); });
  };
  if (has("grid_poll", 0)) found = {"load_requests", "sectors_per_load"};
  if (!has("shared_addition", 0) && !has("shared_update", 0)) return found;
  for (const char* name : {"bank_conflicts_load", "shared_atomics", "shared_load_requests", "steps_per_shared_atomic",
                           "turns_per_shared_update", "wavefronts_load"})
    found.push_back(name);
  if (has("shared_addition", 8)) found.push_back("dadd");
  if (has("shared_addition", 4)) found.push_back("fadd");
  return found;
}

struct CountedLine {
  SourceLine at;
  std::string what;
  friend auto operator<=>(const CountedLine&, const CountedLine&) = default;
};

/// The lines of a kernel that access memory, wait, or part its lanes, in the order of the source.
json lines_in(const Kernel& kernel, const fs::path& scratch) {
  std::map<fs::path, std::vector<uint64_t>> addresses;
  for (const Place& place : kernel.places) addresses[place.module].push_back(place.address);
  std::map<fs::path, std::map<uint64_t, SourceLine>> known;
  for (const auto& [module, all] : addresses) known[module] = lines_of(module, all, scratch);
  std::map<CountedLine, Sum> sums;
  for (const Place& place : kernel.places) {
    if (place.kind == "code" && place.sum.parted == 0) continue;
    std::string what = place.kind;
    if (what == "code")
      what = "branch";
    else if (what == "together")
      what = place.bytes == 1 ? "barrier" : "warp_operation";
    else
      what += fmt::format("_{}", place.bytes);
    sums[{known[place.module][place.address], what}] += place.sum;
  }
  json lines = json::array();
  for (const auto& [line, sum] : sums)
    lines.push_back({{"file", line.at.file},
                     {"line", line.at.line},
                     {"what", line.what},
                     {"requests", sum.requests},
                     {"lanes", sum.lanes},
                     {"units", sum.units},
                     {"ideal", sum.ideal},
                     {"parted", sum.parted}});
  return lines;
}

/// As nvcc's tools write it: enumerators and truth values of template arguments as numbers.
std::string kernel_name(const std::string& name) {
  const std::string plain = std::regex_replace(short_kernel_name(name), std::regex(R"(\([\w:]+\)(?=-?\d))"), "");
  return std::regex_replace(std::regex_replace(plain, std::regex(R"(\btrue\b)"), "1"), std::regex(R"(\bfalse\b)"), "0");
}

json kernels_of(const fs::path& file, bool lines, const fs::path& scratch) {
  json kernels = json::array();
  for (const Kernel& kernel : read_counts(file)) {
    kernels.push_back({{"name", kernel_name(kernel.name)},
                       {"grid", kernel.grid},
                       {"block", kernel.block},
                       {"launches", kernel.launches},
                       {"metrics", metrics_of(kernel)}});
    if (const auto estimates = estimates_of(kernel); !estimates.empty()) kernels.back()["estimates"] = estimates;
    if (lines) kernels.back()["lines"] = lines_in(kernel, scratch);
  }
  return kernels;
}

// ------------------------------------------------------------------------------------------------------------- people

/// "12,345".
std::string with_commas(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string number_text(const json& value) {
  if (!value.is_number()) return "-";
  const double v = value;
  return v == std::floor(v) && std::abs(v) < 1e15 ? with_commas(uint64_t(v)) : fmt::format("{:.3f}", v);
}

void print_kernel(const std::string& scope, const json& kernel, bool lines) {
  const json& m = kernel.at("metrics");
  const int launches = kernel.at("launches");
  fmt::print("  {}: {}   grid {}, block {}{}\n", scope, kernel.at("name").get<std::string>(),
             size_text(kernel.at("grid")), size_text(kernel.at("block")),
             launches > 1 ? fmt::format("   {} launches, means", launches) : "");
  const json estimates = kernel.value("estimates", json::array());
  const auto row = [&](const char* group, std::initializer_list<std::pair<const char*, const char*>> words) {
    std::string text;
    bool any = false;
    for (const auto& [label, name] : words) {
      const json value = m.value(name, json());
      if (value.is_null()) continue;
      any = any || value != 0;
      if (value != 0 || text.empty())
        text += fmt::format("{}{} {}{}", text.empty() ? "" : "   ", label,
                            std::count(estimates.begin(), estimates.end(), name) ? "~" : "", number_text(value));
    }
    if (any) fmt::print("    {:<11} {}\n", group, text);
  };
  row("global", {{"loads", "load_requests"},
                 {"sectors/load", "sectors_per_load"},
                 {"stores", "store_requests"},
                 {"sectors/store", "sectors_per_store"}});
  row("shared", {{"loads", "shared_load_requests"},
                 {"wavefronts", "wavefronts_load"},
                 {"stores", "shared_store_requests"},
                 {"wavefronts", "wavefronts_store"},
                 {"bank conflicts, loads", "bank_conflicts_load"},
                 {"stores", "bank_conflicts_store"}});
  row("constant", {{"words", "constant_requests"}});
  row("atomics", {{"global", "global_atomics"},
                  {"steps each", "steps_per_global_atomic"},
                  {"shared", "shared_atomics"},
                  {"steps each", "steps_per_shared_atomic"},
                  {"turns for an addition", "turns_per_shared_update"}});
  row("warps", {{"lanes/step", "lanes_per_step"},
                {"branches that part lanes", "branches_parted"},
                {"barriers", "barriers"},
                {"warp operations", "warp_operations"}});
  row("arithmetic",
      {{"FADD", "fadd"}, {"FMUL", "fmul"}, {"FFMA", "ffma"}, {"DADD", "dadd"}, {"DMUL", "dmul"}, {"DFMA", "dfma"}});
  const auto is_estimate = [&](const char* name) { return std::count(estimates.begin(), estimates.end(), name) != 0; };
  if (is_estimate("shared_atomics"))
    fmt::print(
        "    ~ an estimate: shared memory has no instruction for such an atomic, so that a warp repeats it until no "
        "other\n      warp came between. How often that is depends on timing, which no count knows "
        "(docs/counting.md).\n");
  if (is_estimate("load_requests"))
    fmt::print(
        "    ~ an estimate: a block that waits at a barrier of the grid loads a word until all blocks have come. How "
        "often\n      that is depends on timing, which no count knows (docs/counting.md).\n");
  if (!lines) return;
  std::map<std::string, std::vector<std::string>> texts;
  const auto text_of = [&](const std::string& file, int line) -> std::string {
    auto& all = texts[file];
    if (all.empty() && fs::is_regular_file(source_folder() / file)) {
      std::istringstream in(read_whole(source_folder() / file));
      for (std::string one; std::getline(in, one);) all.push_back(one);
    }
    if (line < 1 || size_t(line) > all.size()) return "";
    const std::string& one = all[size_t(line) - 1];
    return one.substr(std::min(one.size(), one.find_first_not_of(" \t")));
  };
  fmt::print("    {:<34} {:<18} {:>13} {:>7} {:>9} {:>7}  {}\n", "line", "what", "instructions", "lanes", "cost each",
             "ideal", "text");
  for (const json& line : kernel.at("lines")) {
    const uint64_t requests = line.at("requests");
    const auto each = [&](const char* key, const char* format) {
      const double sum = line.at(key);
      return sum == 0 ? std::string("-") : fmt::format(fmt::runtime(format), sum / double(requests));
    };
    const std::string file = line.at("file");
    const int at = line.at("line");
    fmt::print("    {:<34} {:<18} {:>13} {:>7} {:>9} {:>7}  {}\n",
               at > 0 ? fmt::format("{}:{}", fs::path(file).filename().string(), at) : "(not known)",
               line.at("what").get<std::string>(), with_commas(requests), each("lanes", "{:.2f}"),
               each("units", "{:.3f}"), each("ideal", "{:.3f}"), text_of(file, at));
  }
}

void print_counts(const json& counts, bool lines) {
  const auto word = [&](const char* key) { return counts.at(key).get<std::string>(); };
  fmt::print("{} on {} ({} x {}, K = {}, {}), counted on the CPU device\n", word("variant"), word("workload"),
             counts.at("n").dump(), counts.at("d").dump(), counts.at("k").dump(), word("type"));
  for (const json& scope : counts.at("scopes")) {
    if (scope.at("kernels").empty())
      fmt::print("  {}: no kernel: the host does it\n", scope.at("scope").get<std::string>());
    for (const json& kernel : scope.at("kernels")) print_kernel(scope.at("scope"), kernel, lines);
  }
}

// -------------------------------------------------------------------------------------------------------------- count

/// The variant does not take the workload.
struct Refused : Error {
  using Error::Error;
};

/// The file whose kernels are counted.
fs::path cuda_file_of(const Variant& variant) {
  const fs::path source = source_of(variant.id, source_folder() / "variants");
  if (source.empty() || source.extension() != ".cu")
    throw Error(fmt::format("{} has no CUDA text to count: rungs in .cu files have", variant.id));
  return source;
}

json count_one(const Variant& variant, const Workload& workload, const RunOptions& options, int multiprocessors,
               bool lines, const fs::path& scratch, Progress& progress) {
  const fs::path source = cuda_file_of(variant);
  Variant counted = variant;
  counted.modules[DeviceKind::simt] = build_counted(variant.id, workload.type, source, scratch);
  const fs::path folder = scratch / "counts";
  fs::remove_all(folder);
  fs::create_directories(folder);
  setenv("LADDER_COUNTS", folder.c_str(), 1);
  if (multiprocessors > 0) setenv("SIMT_MULTIPROCESSORS", std::to_string(multiprocessors).c_str(), 1);
  Session session;
  session.variant = &counted;
  session.setting = {.device = DeviceKind::simt, .axes = axes_of(variant, options.axes)};
  session.scopes = scopes_to_profile(variant, options);
  const std::vector<json> rows = rows_of_session(session, workload, options, {}, scratch, "", progress);
  progress.clear();
  if (interrupted()) throw Error("interrupted (Ctrl-C)");
  json scopes = json::array();
  std::string refused;
  for (const json& row : rows) {
    const std::string status = row.at("status"), scope = row.at("scope");
    if (status == "ok")
      scopes.push_back({{"scope", scope}, {"kernels", kernels_of(folder / scope, lines, scratch)}});
    else if (status == "refused")
      refused = row.at("reason");
    else
      throw Error(
          fmt::format("{} on {}: {}: {}", variant.id, workload.name, status, row.at("reason").get<std::string>()));
  }
  if (scopes.empty()) throw Refused(fmt::format("{} refuses {}: {}", variant.id, workload.name, refused));
  json counts = {
      {"variant", variant.id},     {"base", variant.base},  {"source_hash", source_hash(source, source_folder())},
      {"workload", workload.name}, {"n", workload.n},       {"d", workload.d},
      {"k", workload.k},           {"type", workload.type}, {"axes", session.setting.axes},
      {"scopes", scopes}};
  if (multiprocessors > 0) counts["multiprocessors"] = multiprocessors;
  return counts;
}

/// By its line `// link: ...`, as cmake/variants.cmake reads it.
bool calls_libraries_of_a_gpu(const fs::path& source) {
  std::ifstream file(source);
  static const std::regex linked("^// link: *(cublas|cusparse|nccl).*");
  for (std::string line; std::getline(file, line);)
    if (std::regex_match(line, linked)) return true;
  return false;
}

int count(CountWords& words, const std::vector<std::string>& argv) {
  std::string patterns;
  for (const std::string& word : words.variants) patterns += (patterns.empty() ? "" : ",") + word;
  for (const std::string& word : words.variants) {
    if (calls_libraries_of_a_gpu(source_of(word, source_folder() / "variants")))
      throw Error(
          fmt::format("{} has no form for the CPU device, which counts: it calls libraries of the GPU; there `ladder "
                      "profile {}` counts it",
                      word, word));
  }
  const std::vector<Variant> variants = choose_variants(find_variants(module_folders({})), patterns);
  std::vector<Workload> workloads;  // in the order in which they are named
  for (const std::string& glob : split(words.workloads)) {
    for (const Workload& workload : choose_workloads(load_workloads(), glob)) workloads.push_back(workload);
  }
  RunOptions options;
  options.argv = argv;
  options.profile = true;
  options.time_limit = words.time_limit;
  options.axes = axis_values(words.axes);
  if (!words.scopes.empty()) options.scopes = split(words.scopes);
  for (const std::string& scope : options.scopes) scope_named(scope);
  if (!words.out.empty()) need_folder(fs::absolute(target_of(words.out)).parent_path());
  const Scratch scratch;
  catch_interrupts();
  ReadyWorkloads ready(scratch.path);
  if (words.build_only) {
    const std::string type = ready(workloads.at(0)).type;
    for (const Variant& variant : variants) build_counted(variant.id, type, cuda_file_of(variant), scratch.path);
    return 0;
  }
  const auto count_on_one_of = [&](const Variant& variant, Progress& progress) {
    std::exception_ptr first;  // the reason that tells most: workloads are in the order in which they are meant
    for (const Workload& workload : workloads) {
      try {
        return count_one(variant, ready(workload), options, words.multiprocessors, words.lines, scratch.path, progress);
      } catch (const Refused&) {
        if (!first) first = std::current_exception();
      }
    }
    std::rethrow_exception(first);
  };
  Progress progress(variants.size());
  json all = json::array();
  bool bad = false;
  for (const Variant& variant : variants) {
    try {
      all.push_back(count_on_one_of(variant, progress));
      if (!words.as_json) print_counts(all.back(), words.lines);
    } catch (const std::exception& error) {
      if (variants.size() == 1 || interrupted()) throw;
      fmt::print(stderr, "{}\n", error.what());
      bad = true;
    }
    progress.count();
  }
  const json document = {{"counts_version", 1}, {"counts", all}};
  if (words.as_json) fmt::print("{}\n", document.dump(1));
  if (!words.out.empty()) {
    write_record(document, words.out);
    fmt::print(stderr, "counts: {}\n", fs::proximate(words.out).string());
  }
  return bad ? 1 : 0;
}

}  // namespace

Command count_command(CLI::App& app, const std::vector<std::string>& argv) {
  const auto words = std::make_shared<CountWords>();
  auto* command =
      app.add_subcommand("count", "Count loads, sectors, bank conflicts and more of kernels, without a GPU");
  command->add_option("variants", words->variants, "Globs of variants")->required();
  command
      ->add_option("--workload,--workloads", words->workloads,
                   "The first of these that a variant takes. Small ones: a count runs some hundred times slower than a "
                   "kernel")
      ->capture_default_str();
  command->add_option("--scopes", words->scopes,
                      "Scopes, with commas between them (default: one for each phase; the solve where it shows there)");
  command->add_option("--axis", words->axes, "NAME=VALUE for a tuning axis of the variants that have it");
  command
      ->add_option("--multiprocessors", words->multiprocessors,
                   "How many the counted device has: a grid that fills a GPU has as many blocks as on one with so many "
                   "(default: one for each core)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--lines", words->lines, "Also by line of the source; in the file of --out, too");
  command->add_flag("--build-only", words->build_only, "Compile what counts them, and count nothing");
  command->add_flag("--json", words->as_json, "For programs");
  command->add_option("--out", words->out, "A file for the counts, as JSON");
  command->add_option("--time-limit", words->time_limit, "Seconds per variant")
      ->check(above_zero())
      ->capture_default_str();
  command->footer(
      "One instruction of a warp is counted once, with the lanes that take part. Cost: of global memory sectors of 32\n"
      "bytes; of shared memory wavefronts, 1 where no two lanes want different words of one bank; of atomics steps "
      "one\n"
      "after another. Not counted: caches, registers, occupancy, products on tensor cores (docs/counting.md).\n"
      "Exit status: 0, 1 where one of several variants cannot be counted, 2 bad usage, or the only one cannot.");
  return {command, [words, argv] { return count(*words, argv); }};
}

}  // namespace ladder
