// ladder diff: what a rung changes of its base, and the size of that step in lines of code.
#include <algorithm>
#include <memory>

#include "base/statistics.hpp"
#include "commands/commands.hpp"
#include "lessons/step.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

int show_one(const std::string& id, const std::string& over) {
  const Source& variant = read_source(id);
  const std::string base_id = over.empty() ? variant.base : over;
  if (base_id.empty())
    throw Error(fmt::format("{} is a root, it has no base: name a variant to compare it with, --over ID", id));
  const Source& base = read_source(base_id);
  const Comparer comparer;
  const Step step = comparer.step(base, variant, new_parts(variant, base_id));
  fmt::print("Code alone, with the parts that moved: no comments, includes or card; lines are counted in that text.\n");
  comparer.show(step.texts, base_id, id);
  const Change& change = step.change;
  const Parts& fresh = step.texts.fresh;
  std::string list;
  for (const auto& [part, text] : fresh) {
    const fs::path name = part.lexically_relative(fs::weakly_canonical(parts_folder()));
    list += fmt::format("{}{} {} lines", list.empty() ? "" : ", ", name.string(), count_lines(text));
  }
  if (!list.empty()) fmt::print("new parts: {}\n", list);
  fmt::print("{} over {}: {} lines changed ({} added, {} removed), {} lines of new parts: a step of {} lines\n", id,
             base_id, change.changed, change.added, change.removed, count_lines(fresh), step.lines());
  return 0;
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const fs::path& folder : with_chapters(variants_folder())) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string ending = entry.path().extension().string();
      if (ending == ".cu" || ending == ".cpp" || ending == ".py") ids.push_back(entry.path().stem().string());
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

int show_table(const std::string& patterns) {
  constexpr int limit = 400;
  const std::vector<std::string> chosen =
      choose(all_ids(), patterns, "variant", [](const std::string& id) { return std::vector<std::string>{id}; });
  const Comparer comparer;
  struct Measured {
    std::string id;
    double in_file, lines;
    bool gpu;
  };
  std::vector<Measured> steps;
  fmt::print("{:<28} {:<28} {:>5} {:>9} {:>5}\n", "variant", "base", "own", "new parts", "step");
  for (const std::string& id : chosen) {
    const Source& variant = read_source(id);
    if (variant.base.empty()) continue;
    const Step step = comparer.step(read_source(variant.base), variant, new_parts(variant, variant.base));
    fmt::print("{:<28} {:<28} {:>5} {:>9} {:>5}{}\n", id, variant.base, step.change.changed,
               count_lines(step.texts.fresh), step.lines(),
               step.lines() > limit ? fmt::format("  above {}", limit) : "");
    steps.push_back({id, double(step.change.changed), double(step.lines()), variant.gpu});
  }
  if (steps.empty()) throw Error(fmt::format("none of '{}' has a base: there is no step to measure", patterns));
  const bool any_gpu = std::any_of(steps.begin(), steps.end(), [](const Measured& step) { return step.gpu; });
  std::erase_if(steps, [&](const Measured& step) { return any_gpu && !step.gpu; });
  std::vector<double> in_file, lines;
  for (const Measured& step : steps) in_file.push_back(step.in_file), lines.push_back(step.lines);
  const Measured& largest = *std::max_element(steps.begin(), steps.end(),
                                              [](const Measured& a, const Measured& b) { return a.lines < b.lines; });
  fmt::print("median of {}{} steps: {:g} lines, {:g} of own changes; largest: {}, {:g} lines\n", steps.size(),
             any_gpu ? " GPU" : "", summarise(lines).median, summarise(in_file).median, largest.id, largest.lines);
  return 0;
}

}  // namespace

Command diff_command(CLI::App& app) {
  struct Options {
    std::string id, over;
    bool as_table = false;
  };
  const auto o = std::make_shared<Options>();
  auto* diff = app.add_subcommand("diff", "Show what a variant changes of its base, and the size of that step");
  auto* id = diff->add_option("id", o->id, "The variant; with --stat globs (default: all)");
  auto* over = diff->add_option("--over", o->over, "Compare with this variant instead of the base");
  diff->add_flag("--stat", o->as_table, "A table of all steps, with the median of the GPU steps")->excludes(over);
  diff->footer(
      "step = own + new parts, in lines of code: comments, blank lines, white space, includes, namespaces and the "
      "card\n"
      "do not count.\n"
      "own: changed lines of the variant's own file over the base's; a rewritten line counts once.\n"
      "new parts: all lines of the files in variants/common/ that the variant uses, directly or through another part,\n"
      "  and that no variant on its chain of bases, or that these join, uses; X.cu belongs to X.cuh, X.cpp to X.hpp.\n"
      "  A part that the base uses too counts nothing, wherever it is included.\n"
      "Code that moved from a part of the base into the file, or from the base's file into a new part, is compared\n"
      "  with where it was, if that makes the step smaller, in the second case by half.\n"
      "--stat marks steps above 400 lines; its median is over all steps of .cu files, each against its base.");
  return {diff, [o, id] {
            if (o->as_table) return show_table(o->id.empty() ? "*" : o->id);
            if (id->count() == 0) throw Error("which variant? `ladder diff ID`, or --stat for all of them");
            return show_one(o->id, o->over);
          }};
}

}  // namespace ladder
