// ladder timeline: what ran when on a GPU in one sample of a scope, into results/DEVICE/timeline.json.
#include <algorithm>
#include <memory>

#include "base/files.hpp"
#include "commands/commands.hpp"
#include "formats/place.hpp"
#include "protocol/scopes.hpp"
#include "records/profile.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/run.hpp"
#include "runner/timeline.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct TimelineWords {
  RunOptions options;
  std::vector<std::string> variants, folders;
  std::string workload = "kmcuda", scope = "end_to_end";
  fs::path out;
  int samples = 3;
};

/// Throws Error, before any work, where `out` cannot be written, or is a file of something else.
void need_timelines_place(const fs::path& out) {
  need_folder(fs::absolute(target_of(out)).parent_path());
  read_timelines(out);
}

int timeline(TimelineWords words) {
  RunOptions& o = words.options;
  o.profile = true;
  o.scopes = {words.scope};
  scope_named(words.scope);
  std::string patterns;
  for (const std::string& word : words.variants) patterns += "," + word;
  std::vector<Variant> chosen = choose_variants(find_variants(module_folders(words.folders)), patterns);
  std::vector<Workload> workloads = choose_workloads(load_workloads(), words.workload);
  o.gpu = choose_gpu(find_devices(), o.ordinal);
  if (o.gpu.is_null()) throw Error("a timeline needs a GPU: " + why_no_gpu());
  if (timeline_library().empty())
    throw Error(
        "this build has no library for timelines: install CUPTI (it comes with the CUDA toolkit: cupti.h) and "
        "build again");
  const std::vector<Variant> variants = with_kernels(std::move(chosen));
  if (words.out.empty()) words.out = source_folder() / "results" / device_folder(o.gpu.at("name")) / "timeline.json";
  need_timelines_place(words.out);

  catch_interrupts();
  const Scratch scratch;
  Progress progress(variants.size() * workloads.size());
  bool bad = false;
  for (Workload& w : workloads) {
    for (const std::string& done : make_ready(w, scratch.path)) fmt::print(stderr, "{}\n", done);
    for (const Variant& v : variants) {
      if (interrupted()) return 130;
      progress.doing(fmt::format("{} {}", v.id, w.name));
      const Traced traced = trace_sessions(v, w, o, words.samples, scratch.path, progress);
      merge_into_timelines(words.out, traced.timelines);
      bad = bad || traced.status != "ok";
      progress.session_done(fmt::format("{:<20} {:<14}", v.id, w.name) +
                            (traced.status == "ok" ? "" : fmt::format("  {}: {}", traced.status, traced.reason)));
      for (const json& made : traced.timelines) fmt::print("{}", timeline_text(made));
    }
  }
  fmt::print("timelines: {}\npicture: python -m plots.timeline {} --out FOLDER\n", fs::proximate(words.out).string(),
             fs::proximate(words.out).string());
  return bad ? 1 : 0;
}

}  // namespace

Command timeline_command(CLI::App& app, const std::vector<std::string>& argv) {
  const auto words = std::make_shared<TimelineWords>();
  words->options.argv = argv;
  words->options.time_limit = 600;
  auto* command = app.add_subcommand("timeline", "Record what runs when on a GPU: kernels, copies, the host's waits");
  command->add_option("variants", words->variants, "Globs of variants")->required();
  command->add_option("--workload,--workloads", words->workload, "Globs of workloads")->capture_default_str();
  command->add_option("--scope,--scopes", words->scope, "The scope of which a sample is recorded")
      ->capture_default_str();
  command->add_option("--samples", words->samples, "Samples, in a process each; the one of median length is kept")
      ->check(above_zero())
      ->capture_default_str();
  command->add_option("--gpu", words->options.ordinal, "Which GPU")->check(not_negative())->capture_default_str();
  command->add_option("--modules", words->folders, "More folders with built variants");
  command->add_option("--out", words->out, "The file of timelines (default: results/DEVICE/timeline.json)");
  command->footer("Exit status: 0 all is recorded, 1 something is not, 2 bad usage, or no GPU.");
  return {command, [words] { return timeline(*words); }};
}

}  // namespace ladder
