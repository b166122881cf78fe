// ladder tune: sweeps the axes of variants on workloads, and notes with which values they are fastest.
#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/measure.hpp"
#include "records/record.hpp"
#include "records/tuned.hpp"
#include "runner/run.hpp"
#include "runner/tune.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct TuneWords : MeasureWords {
  std::vector<std::string> variants;
  std::string scope;
  TuneOptions tune;
};

bool has_axes(const Variant& v) { return v.card.is_object() && !v.card.value("axes", json::array()).empty(); }

/// Those of the chosen variants that have axes. One that was named outright and has none is an Error.
std::vector<Variant> with_axes(const std::vector<Variant>& all, const std::vector<std::string>& patterns) {
  std::string list;
  for (const std::string& pattern : patterns) list += pattern + ",";
  std::vector<Variant> chosen = choose_variants(all, list);
  const std::vector<std::string> words = split(list);
  std::vector<std::string> without;
  for (const Variant& v : chosen) {
    if (!has_axes(v) && std::find(words.begin(), words.end(), v.id) != words.end()) without.push_back(v.id);
  }
  std::erase_if(chosen, [](const Variant& v) { return !has_axes(v); });
  if (without.empty() && !chosen.empty()) return chosen;
  std::vector<std::string> others;
  for (const Variant& v : all) {
    if (has_axes(v)) others.push_back(v.id);
  }
  const std::string those =
      others.empty() ? "no variant here has one" : fmt::format("variants that have: {}", listed(others));
  if (without.empty()) throw Error(fmt::format("no chosen variant has an axis to tune; {}", those));
  throw Error(fmt::format("{} {} no axis to tune; {}", listed(without), without.size() > 1 ? "have" : "has", those));
}

int tune(TuneWords words) {
  RunOptions& o = words.options;
  if (!words.scope.empty()) o.scopes = {std::string(scope_named(words.scope).name)};
  o.axes = axis_values(words.axes);
  std::vector<Variant> variants = find_variants(module_folders(words.folders));
  need_bases(variants);
  std::vector<Variant> chosen = with_axes(variants, words.variants);
  require_axes(o.axes, chosen);
  std::vector<Workload> problems = find_problems(words);
  const std::vector<DeviceKind> kinds = find_kinds(words);
  hash_modules(chosen);
  if (o.out.empty()) o.out = new_record("tune");
  need_place(o.out, {words.own_data, words.init, words.tuned}, o.force);
  words.tune.tuned = tuned_file(words);
  read_tuned(words.tune.tuned);  // better now than after an hour that it cannot be read
  if (!o.axes.empty()) words.tune.tuned.clear();
  for (const Variant& v : chosen) {
    size_t points = 1;
    for (const SweptAxis& axis : swept_axes(v, o.axes)) points *= axis.values.size();
    if (points > words.tune.grid) {
      fmt::print(stderr,
                 "{}: {} points are more than --grid {}: one axis after the other, each at the best of the others so "
                 "far, until none gains any more\n",
                 v.id, points, words.tune.grid);
    } else {
      fmt::print(stderr, "{}: all {} points\n", v.id, points);
    }
  }
  const Tune plan(o, words.tune);
  const int status = run_ladder(o, kinds, chosen, problems, plan);
  const bool times = std::any_of(chosen.begin(), chosen.end(), [&](const Variant& v) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](DeviceKind k) { return v.modules.count(k) > 0; });
    return kind != kinds.end() && *kind != DeviceKind::simt;
  });
  if (!times)
    fmt::print("{}: left as it is, since the CPU device's times say nothing of a GPU\n", tuned_file(words).string());
  else if (words.tune.tuned.empty())
    fmt::print("{}: left as it is, since --axis leaves points out\n", tuned_file(words).string());
  else
    fmt::print("tuned values: {}\n", words.tune.tuned.string());
  if (o.insist && status == 0) need_one_that_ran(problems[0], read_record(o.out).at("rows"));
  return status;
}

}  // namespace

Command tune_command(CLI::App& app, const std::vector<std::string>& argv) {
  const auto words = std::make_shared<TuneWords>();
  words->options.argv = argv;
  words->workloads.clear();
  auto* tune = app.add_subcommand(
      "tune", "Sweep the tuning axes of variants on workloads and store the best values for `ladder run`");
  tune->add_option("variants", words->variants, "Ids or globs")->required();
  auto* workload = tune->add_option("--workload,--workloads", words->workloads,
                                    "Globs over names and families, with commas between them");
  tune->add_option("--scope,--scopes", words->scope,
                   fmt::format("The scope to optimise, of {} (default: the one in which the variant's change shows)",
                               listed(scope_names())));
  tune->add_option("--axis", words->axes,
                   "NAME=VALUE fixes an axis; then the curve is recorded, but no best value is stored");
  tune->add_option(
          "--grid", words->tune.grid,
          "Measure all points of a variant's axes if there are at most this many; otherwise one axis at a time")
      ->check(above_zero())
      ->capture_default_str();
  tune->add_option("--sessions", words->tune.sessions,
                   "Sessions of the fastest and the standard values, in turns, if their rows do not decide")
      ->check(CLI::Range(fewest_sessions, 1000))
      ->capture_default_str();
  tune->add_option("--tuned", words->tuned,
                   "The file for the best values (default: results/tuned.json of the checkout)");
  auto* out =
      tune->add_option("--out", words->options.out, "The record (default: results/local/tune-TIME-PROCESS.json)");
  tune->add_flag("--resume", words->options.resume, "Keep the rows in --out and measure the others")->needs(out);
  add_measure_options(*tune, *words);
  add_data_options(*tune, *words, workload);
  tune->footer(
      "Every point is validated as in `ladder run`; a refused point is a gap with its reason. Exit status: 0 all rows\n"
      "ok or refused, 1 some row invalid or failed, or a named workload was not run, 2 bad usage.");
  return {tune, [words] {
            if (words->workloads.empty() && words->own_data.empty())
              throw Error("on what? name a workload by --workload, or points of your own by --data");
            return ladder::tune(*words);
          }};
}

}  // namespace ladder
