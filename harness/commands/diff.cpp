// ladder diff: what a revision changes of its base, and how large a step that is. Both files are compared as a reader
// sees them: parts in their place, without comments, blank lines, the brackets of namespaces and the card. What is
// compared is text: nothing needs to be built. `diff` does the comparing.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <set>

#include "base/files.hpp"
#include "base/statistics.hpp"
#include "commands/commands.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

fs::path variants_folder() { return source_folder() / "variants"; }

/// Is the ' at `i` one that groups digits, as in 10'000?
bool digits_before(const std::string& code, size_t i) {
  return i > 0 && std::isxdigit(static_cast<unsigned char>(code[i - 1]));
}

/// C++ without its comments, and without the lines that open and close namespaces: each part has its own, and they
/// would come and go with it. What stands in quotes stays as it is.
std::string without_comments(const std::string& text) {
  static const std::regex brackets(
      R"re((^|\n)(namespace[^\n;{]*\{|using namespace [^\n;]*;|\}  // namespace.*)(?=\n))re");
  const std::string code = std::regex_replace(text, brackets, "$1");
  std::string kept;
  for (size_t i = 0; i < code.size();) {
    if (code.compare(i, 2, "//") == 0) {
      i = std::min(code.find('\n', i), code.size());
    } else if (code.compare(i, 2, "/*") == 0) {
      const size_t end = code.find("*/", i + 2);
      i = end == std::string::npos ? code.size() : end + 2;
    } else if (const char quote = code[i]; quote == '"' || (quote == '\'' && !digits_before(code, i))) {
      size_t end = i + 1;
      while (end < code.size() && code[end] != quote && code[end] != '\n') end += code[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, code.size());
      kept += code.substr(i, end - i);
      i = end;
    } else {
      kept += code[i++];
    }
  }
  return kept;
}

/// From `open` to the bracket that closes it; what stands in quotes does not count.
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

/// Splits the card off; empty where there is none.
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

std::string base_in(const std::string& card) {
  static const std::regex stated(R"re((?:\.base|"base")\s*[=:]\s*"([A-Za-z0-9_]*)")re");
  std::smatch found;
  return std::regex_search(card, found, stated) ? found.str(1) : "";
}

/// The lines of a file that do something, each part in the place of its first #include.
void add_lines(const fs::path& file, std::string code, std::set<fs::path>& seen, std::string& lines) {
  static const std::regex include(R"re(\s*#include "([^"]+)"\s*)re"), blank(R"re(\s*(#pragma once\s*)?)re");
  for (size_t from = 0; from < code.size();) {
    const size_t to = std::min(code.find('\n', from), code.size());
    std::string line = code.substr(from, to - from);
    from = to + 1;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (std::regex_match(line, blank)) continue;
    std::smatch found;
    if (std::regex_match(line, found, include)) {
      const fs::path part = fs::weakly_canonical(file.parent_path() / found.str(1));
      if (part.parent_path() == fs::weakly_canonical(variants_folder() / "parts")) {
        if (seen.insert(part).second) add_lines(part, without_comments(read_whole(part)), seen, lines);
        continue;
      }
    }
    lines += line + "\n";
  }
}

/// Python without its comments and what a file or a function says of itself, where they have lines of their own.
std::string without_python_comments(const std::string& code) {
  const std::string quotes = "\"\"\"";
  std::string kept;
  bool documentation = false;
  for (size_t from = 0; from < code.size();) {
    const size_t to = std::min(code.find('\n', from), code.size());
    const std::string line = code.substr(from, to - from);
    from = to + 1;
    const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    if (documentation) {
      documentation = line.find(quotes) == std::string::npos;
    } else if (line.compare(begin, quotes.size(), quotes) == 0) {
      documentation = line.find(quotes, begin + quotes.size()) == std::string::npos;
    } else if (line.compare(begin, 1, "#") != 0) {
      kept += line + "\n";
    }
  }
  return kept;
}

struct Source {
  std::string base;            ///< as its card has it
  std::string lines;           ///< that do something
  bool new_algorithm = false;  ///< its card says "A new algorithm": it is no step from its base
};

Source read_source(const std::string& id) {
  const fs::path file = source_of(id, variants_folder());
  if (file.empty())
    throw Error(
        fmt::format("there is no variant '{}' in {}: `ladder list` shows them all", id, variants_folder().string()));
  const bool python = file.extension() == ".py";
  std::string code = python ? without_python_comments(read_whole(file)) : without_comments(read_whole(file));
  const std::string card = take_card(code);
  Source source{.base = base_in(card), .lines = ""};
  source.new_algorithm =
      std::regex_replace(card, std::regex("\"\\s*\""), "").find("A new algorithm") != std::string::npos;
  std::set<fs::path> seen;
  add_lines(file, code, seen, source.lines);
  return source;
}

/// A step from one variant to another, in lines. One that was rewritten counts once in `changed`.
struct Step {
  int added = 0, removed = 0, changed = 0;
};

class Comparer {
 public:
  /// Changes of white space alone are none.
  Step step(const Source& base, const Source& variant) const {
    write(base, variant);
    const std::string changes = output_of(command("-U0", "base", "variant") + "; test $? -le 1");
    static const std::regex hunk(R"re(@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@)re");
    Step step;
    for (std::sregex_iterator at(changes.begin(), changes.end(), hunk), end; at != end; ++at) {
      const auto count = [&](int group) { return (*at)[group].matched ? std::stoi((*at).str(group)) : 1; };
      step.removed += count(1);
      step.added += count(2);
      step.changed += std::max(count(1), count(2));
    }
    return step;
  }
  void show(const Source& base, const std::string& base_id, const Source& variant, const std::string& id) const {
    write(base, variant);
    std::fflush(stdout);
    const int status = std::system(command("-u --color=auto", base_id, id).c_str());
    if (status != 0 && WEXITSTATUS(status) != 1) throw Error("`diff` does not run: is diffutils installed?");
  }

 private:
  void write(const Source& base, const Source& variant) const {
    std::ofstream(scratch_.path / "base") << base.lines;
    std::ofstream(scratch_.path / "variant") << variant.lines;
  }
  std::string command(const std::string& options, const std::string& base_label, const std::string& label) const {
    return fmt::format("diff -w --minimal {} --label {} --label {} '{}' '{}'", options, base_label, label,
                       (scratch_.path / "base").string(), (scratch_.path / "variant").string());
  }
  Scratch scratch_;
};

std::string words_for(const std::string& id, const std::string& base, const Step& step) {
  return fmt::format("{} over {}: {} lines changed ({} added, {} removed)", id, base, step.changed, step.added,
                     step.removed);
}

int show_one(const std::string& id, const std::string& over) {
  const Source variant = read_source(id);
  const std::string base_id = over.empty() ? variant.base : over;
  if (base_id.empty())
    throw Error(fmt::format("{} is a root, it has no base: name what to hold it against, --over ID", id));
  const Source base = read_source(base_id);
  const Comparer comparer;
  comparer.show(base, base_id, variant, id);
  fmt::print("{}\n", words_for(id, base_id, comparer.step(base, variant)));
  return 0;
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const fs::directory_entry& entry : fs::directory_iterator(variants_folder())) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".cu" || ending == ".cpp" || ending == ".py") ids.push_back(entry.path().stem().string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

int show_table(const std::string& patterns) {
  const std::vector<std::string> chosen =
      choose(all_ids(), patterns, "variant", [](const std::string& id) { return std::vector<std::string>{id}; });
  const Comparer comparer;
  std::vector<double> sizes;
  int algorithms = 0;
  fmt::print("{:<28} {:<28} {:>8} {:>6} {:>8}\n", "variant", "base", "changed", "added", "removed");
  for (const std::string& id : chosen) {
    const Source variant = read_source(id);
    if (variant.base.empty()) continue;
    const Step step = comparer.step(read_source(variant.base), variant);
    if (variant.new_algorithm)
      ++algorithms;
    else
      sizes.push_back(step.changed);
    fmt::print("{:<28} {:<28} {:>8} {:>6} {:>8}{}\n", id, variant.base, step.changed, step.added, step.removed,
               variant.new_algorithm ? "  a new algorithm" : "");
  }
  if (sizes.empty() && algorithms == 0)
    throw Error(fmt::format("none of '{}' has a base: there is no step to measure", patterns));
  if (!sizes.empty()) fmt::print("median of {}: {:g} lines changed\n", sizes.size(), summarise(sizes).median);
  return 0;
}

}  // namespace

Command diff_command(CLI::App& app) {
  struct Options {
    std::string id, over;
    bool as_table = false;
  };
  const auto o = std::make_shared<Options>();
  auto* diff = app.add_subcommand("diff", "Show what a revision changes of its base, and in how many lines");
  auto* id = diff->add_option("id", o->id, "The variant; with --stat globs, and all where none is given");
  auto* over = diff->add_option("--over", o->over, "Against this variant, instead of the base");
  diff->add_flag("--stat", o->as_table,
                 "A table of the steps, and their median: new algorithms, as their cards say, are none")
      ->excludes(over);
  diff->footer(
      "Comments, blank lines, white space, namespaces and cards are no change; parts count as if they stood in the\n"
      "file. A line that was rewritten counts once.");
  return {diff, [o, id] {
            if (o->as_table) return show_table(o->id.empty() ? "*" : o->id);
            if (id->count() == 0) throw Error("which variant? `ladder diff ID`, or --stat for all");
            return show_one(o->id, o->over);
          }};
}

}  // namespace ladder
