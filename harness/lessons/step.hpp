// A step of the ladder: what a rung changes of its base, and the size of that in lines of code. Source text is compared
// file by file, by `diff`; nothing needs to be built. A step is the changed lines of the rung's own file plus all lines
// of the parts (variants/common/) that the rung is the first of its chain of bases to use.
#pragma once
#include <filesystem>
#include <string>

#include "base/source_text.hpp"
#include "runner/child.hpp"

namespace ladder {

std::filesystem::path variants_folder();
std::filesystem::path parts_folder();

/// A rung's code.
struct Source {
  std::string base, joins;  ///< from the card
  std::string lines;        ///< of code in its own file
  Parts parts;              ///< all that it uses
  bool gpu = false;         ///< a .cu file
};

/// Its files are read once per process. Throws Error where there is no such rung.
const Source& read_source(const std::string& id);

/// The parts that `variant` uses, and none of `base`, its base, and so on to the root; nor any of what these join.
Parts new_parts(const Source& variant, const std::string& base);

int count_lines(const std::string& text);
int count_lines(const Parts& parts);

/// Two texts that a step is the difference of, and the new parts that count beside it as they are.
struct ComparedTexts {
  std::string base, variant;
  Parts fresh;
};

/// Changes of one file, in lines. A rewritten line counts once in `changed`.
struct Change {
  int added = 0, removed = 0, changed = 0;
};

struct Step {
  ComparedTexts texts;
  Change change;
  int lines() const { return change.changed + count_lines(texts.fresh); }
};

class Comparer {
 public:
  /// What `variant` changes, as the smallest of the comparisons has it; white space does not count.
  Step step(const Source& base, const Source& variant, const Parts& fresh) const;
  /// Prints it as a unified diff.
  void show(const ComparedTexts& texts, const std::string& base_id, const std::string& id) const;
  /// The same as text, without colours.
  std::string text(const ComparedTexts& texts, const std::string& base_id, const std::string& id) const;

 private:
  Change change(const std::string& base, const std::string& variant) const;
  void write(const std::string& base, const std::string& variant) const;
  std::string command(const std::string& options, const std::string& base_label, const std::string& label) const;
  Scratch scratch_;
};

}  // namespace ladder
