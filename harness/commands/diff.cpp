// ladder diff: what a rung changes of its base, and the size of that step in lines of code. Source text is compared
// file by file, by `diff`; nothing needs to be built. A step is the changed lines of the rung's own file plus all lines
// of the parts (variants/common/) that the rung is the first of its chain of bases to use.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>

#include "base/files.hpp"
#include "base/source_text.hpp"
#include "base/statistics.hpp"
#include "commands/commands.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

fs::path variants_folder() { return source_folder() / "variants"; }
fs::path parts_folder() { return variants_folder() / "common"; }

/// The index after the bracket that closes the one at `open`; text in quotes is skipped.
size_t end_of_brackets(const std::string& code, size_t open) {
  int depth = 0;
  char quote = 0;
  for (size_t i = open; i < code.size(); ++i) {
    const char c = code[i];
    if (quote) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"') {
      quote = c;
    } else if (std::string("([{").find(c) != std::string::npos) {
      ++depth;
    } else if (std::string(")]}").find(c) != std::string::npos && --depth == 0) {
      return i + 1;
    }
  }
  return code.size();
}

/// Removes the card from `code` and returns it; empty if there is none.
std::string take_card(std::string& code) {
  static const std::regex begin(R"re((^|\n)(LADDER_VARIANT\(|CARD = \{))re");
  std::smatch found;
  if (!std::regex_search(code, found, begin)) return "";
  const size_t from = size_t(found.position(2)), open = from + size_t(found.length(2)) - 1;
  const size_t to = end_of_brackets(code, open);
  const std::string card = code.substr(from, to - from);
  code.erase(from, to - from);
  return card;
}

/// The variant that a field of a card names (base, joins); empty where the card has no such field.
std::string named_in(const std::string& card, const std::string& field) {
  const std::regex stated(fmt::format(R"re((?:\.{0}|"{0}")\s*[=:]\s*"([A-Za-z0-9_]*)")re", field));
  std::smatch found;
  return std::regex_search(card, found, stated) ? found.str(1) : "";
}

struct Source {
  std::string base, joins;  ///< from the card
  std::string lines;        ///< of code in its own file
  Parts parts;              ///< all that it uses
  bool gpu = false;         ///< a .cu file
};

Source read_source(const std::string& id) {
  const fs::path file = source_of(id, variants_folder());
  if (file.empty())
    throw Error(
        fmt::format("there is no variant '{}' in {}: `ladder list` shows them all", id, variants_folder().string()));
  const bool python = file.extension() == ".py";
  std::string code = python ? without_python_comments(read_whole(file)) : without_comments(read_whole(file));
  const std::string card = take_card(code);
  Source source{.base = named_in(card, "base"),
                .joins = named_in(card, "joins"),
                .lines = "",
                .parts = {},
                .gpu = file.extension() == ".cu"};
  std::vector<fs::path> parts;
  source.lines = code_lines(file, code, parts_folder(), parts);
  for (const fs::path& part : parts) add_part(part, parts_folder(), source.parts);
  return source;
}

/// The parts that `variant` uses, and none of `base`, its base, and so on to the root; nor any of what these join.
Parts new_parts(const Source& variant, const std::string& base) {
  Parts fresh = variant.parts;
  std::set<std::string> seen;
  std::vector<std::string> pending = {base, variant.joins};
  while (!pending.empty()) {
    const std::string id = pending.back();
    pending.pop_back();
    if (id.empty() || !seen.insert(id).second) continue;
    const Source used = read_source(id);
    for (const auto& [part, lines] : used.parts) fresh.erase(part);
    pending.insert(pending.end(), {used.base, used.joins});
  }
  return fresh;
}

int count_lines(const std::string& text) { return int(std::count(text.begin(), text.end(), '\n')); }

int count_lines(const Parts& parts) {
  int lines = 0;
  for (const auto& [part, text] : parts) lines += count_lines(text);
  return lines;
}

/// Two texts that a step is the difference of, and the new parts that count beside it as they are.
struct Comparison {
  std::string base, variant;
  Parts fresh;
};

/// The comparisons among which the smallest step counts: the two files; the base's file behind those of its parts that
/// the variant does not use, for code that moved from a part into the variant's file; and the variant's file behind its
/// new parts, for code that moved from the base's file into a part.
std::vector<Comparison> comparisons(const Source& base, const Source& variant, const Parts& fresh) {
  std::string dropped, moved;
  for (const auto& [part, text] : base.parts) {
    if (!variant.parts.count(part)) dropped += text;
  }
  for (const auto& [part, text] : fresh) moved += text;
  return {{base.lines, variant.lines, fresh},
          {dropped + base.lines, variant.lines, fresh},
          {base.lines, moved + variant.lines, {}}};
}

/// Changes of one file, in lines. A rewritten line counts once in `changed`.
struct Change {
  int added = 0, removed = 0, changed = 0;
};

struct Step {
  Comparison comparison;
  Change change;
  int lines() const { return change.changed + count_lines(comparison.fresh); }
};

class Comparer {
 public:
  /// What `variant` changes, as the smallest of the comparisons has it; white space does not count.
  Step step(const Source& base, const Source& variant, const Parts& fresh) const {
    std::vector<Step> steps;
    for (const Comparison& comparison : comparisons(base, variant, fresh))
      steps.push_back({comparison, change(comparison.base, comparison.variant)});
    const Step& apart = steps[1].lines() < steps[0].lines() ? steps[1] : steps[0];
    // Lines of a new part beside removed ones that are others count once, too: that alone is no move.
    return 2 * steps[2].lines() <= apart.lines() ? steps[2] : apart;
  }
  void show(const Comparison& comparison, const std::string& base_id, const std::string& id) const {
    write(comparison.base, comparison.variant);
    std::fflush(stdout);
    const int status = std::system(command("-u --color=auto", base_id, id).c_str());
    if (status != 0 && WEXITSTATUS(status) != 1) throw Error("`diff` does not run: is diffutils installed?");
  }

 private:
  Change change(const std::string& base, const std::string& variant) const {
    write(base, variant);
    const std::string changes = output_of(command("-U0", "base", "variant") + "; test $? -le 1");
    static const std::regex hunk(R"re(@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@)re");
    Change change;
    for (std::sregex_iterator next(changes.begin(), changes.end(), hunk), end; next != end; ++next) {
      const auto count = [&](int group) { return (*next)[group].matched ? std::stoi(next->str(group)) : 1; };
      change.removed += count(1);
      change.added += count(2);
      change.changed += std::max(count(1), count(2));
    }
    return change;
  }
  void write(const std::string& base, const std::string& variant) const {
    std::ofstream(scratch_.path / "base") << base;
    std::ofstream(scratch_.path / "variant") << variant;
  }
  std::string command(const std::string& options, const std::string& base_label, const std::string& label) const {
    return fmt::format("diff -w --minimal {} --label {} --label {} '{}' '{}'", options, base_label, label,
                       (scratch_.path / "base").string(), (scratch_.path / "variant").string());
  }
  Scratch scratch_;
};

int show_one(const std::string& id, const std::string& over) {
  const Source variant = read_source(id);
  const std::string base_id = over.empty() ? variant.base : over;
  if (base_id.empty())
    throw Error(fmt::format("{} is a root, it has no base: name a variant to compare it with, --over ID", id));
  const Source base = read_source(base_id);
  const Comparer comparer;
  const Step step = comparer.step(base, variant, new_parts(variant, base_id));
  comparer.show(step.comparison, base_id, id);
  const Change& change = step.change;
  const Parts& fresh = step.comparison.fresh;
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
    const Source variant = read_source(id);
    if (variant.base.empty()) continue;
    const Step step = comparer.step(read_source(variant.base), variant, new_parts(variant, variant.base));
    fmt::print("{:<28} {:<28} {:>5} {:>9} {:>5}{}\n", id, variant.base, step.change.changed,
               count_lines(step.comparison.fresh), step.lines(),
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
