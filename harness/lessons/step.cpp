#include "lessons/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "lessons/card_text.hpp"
#include "runner/devices.hpp"
#include "workloads/variants.hpp"

namespace ladder {
namespace fs = std::filesystem;

fs::path variants_folder() { return source_folder() / "variants"; }
fs::path parts_folder() { return variants_folder() / "common"; }

namespace {
Source read_files(const std::string& id) {
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
}  // namespace

const Source& read_source(const std::string& id) {
  static std::map<std::string, Source> read;  // each rung is in the chains of many
  const auto known = read.find(id);
  return known != read.end() ? known->second : read.emplace(id, read_files(id)).first->second;
}

Parts new_parts(const Source& variant, const std::string& base) {
  Parts fresh = variant.parts;
  std::set<std::string> seen;
  std::vector<std::string> pending = {base, variant.joins};
  while (!pending.empty()) {
    const std::string id = pending.back();
    pending.pop_back();
    if (id.empty() || !seen.insert(id).second) continue;
    const Source& used = read_source(id);
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

namespace {

/// The comparisons among which the smallest step counts: the two files; the base's file behind those of its parts that
/// the variant does not use, for code that moved from a part into the variant's file; and the variant's file behind its
/// new parts, for code that moved from the base's file into a part.
std::vector<ComparedTexts> comparisons(const Source& base, const Source& variant, const Parts& fresh) {
  std::string dropped, moved;
  for (const auto& [part, text] : base.parts) {
    if (!variant.parts.count(part)) dropped += text;
  }
  for (const auto& [part, text] : fresh) moved += text;
  return {{base.lines, variant.lines, fresh},
          {dropped + base.lines, variant.lines, fresh},
          {base.lines, moved + variant.lines, {}}};
}

}  // namespace

Step Comparer::step(const Source& base, const Source& variant, const Parts& fresh) const {
  std::vector<Step> steps;
  for (const ComparedTexts& texts : comparisons(base, variant, fresh))
    steps.push_back({texts, change(texts.base, texts.variant)});
  const Step& apart = steps[1].lines() < steps[0].lines() ? steps[1] : steps[0];
  // Lines of a new part beside removed ones that are others count once, too: that alone is no move.
  return 2 * steps[2].lines() <= apart.lines() ? steps[2] : apart;
}

void Comparer::show(const ComparedTexts& texts, const std::string& base_id, const std::string& id) const {
  write(texts.base, texts.variant);
  std::fflush(stdout);
  const int status = std::system(command("-u --color=auto", base_id, id).c_str());
  if (status != 0 && WEXITSTATUS(status) != 1) throw Error("`diff` does not run: is diffutils installed?");
}

std::string Comparer::text(const ComparedTexts& texts, const std::string& base_id, const std::string& id) const {
  write(texts.base, texts.variant);
  return output_of(command("-u", base_id, id) + "; test $? -le 1");
}

Change Comparer::change(const std::string& base, const std::string& variant) const {
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

void Comparer::write(const std::string& base, const std::string& variant) const {
  std::ofstream(scratch_.path / "base") << base;
  std::ofstream(scratch_.path / "variant") << variant;
}

std::string Comparer::command(const std::string& options, const std::string& base_label,
                              const std::string& label) const {
  return fmt::format("diff -w --minimal {} --label {} --label {} '{}' '{}'", options, base_label, label,
                     (scratch_.path / "base").string(), (scratch_.path / "variant").string());
}

}  // namespace ladder
