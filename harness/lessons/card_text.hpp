// A rung's card, its lesson and the comment at the head of its file, read from the source text: nothing needs to be
// built, and a rung that this build leaves out has its card all the same.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ladder {

/// A figure that a rung's lesson derives from the problem's sizes (harness/contract/lesson.hpp).
struct PredictionText {
  std::string name;     ///< a counter of `ladder profile`, with a scope before it (update.global_atomics) or without
  std::string formula;  ///< lessons/formula.hpp
  std::string where;    ///< globs of the workloads that it is for, with commas between them; empty: all
};

struct CardText {
  std::string id, base, joins, idea, expect, shows, counter, source;
  std::string operands;  ///< of its matrix products: fp16, tf32; empty where the card says nothing
  std::string ask, answer;
  std::vector<PredictionText> predict;
  std::map<std::string, double> axes;  ///< standard values, those that are written as numbers
  std::string head;                    ///< the file's first comment, in one line
  std::filesystem::path file;
  /// The folder that the file lies in.
  std::string chapter() const { return file.parent_path().filename().string(); }
};

/// Removes card and lesson from code without comments. Returns the card; empty where there is none.
std::string take_card(std::string& code);

/// The variant that a field of a card names (base, joins); empty where the card has no such field.
std::string named_in(const std::string& card, const std::string& field);

/// The items of a list in brackets, "{a, {b, c}}" or "NAME(a, b)", without blanks around them.
std::vector<std::string> items_of(const std::string& list);

/// Neighbouring literals "..." as the one text that a compiler makes of them; other characters are left out.
std::string text_of(const std::string& literals);

/// The card of a file's text. Throws Error where a list of it has another form than contract.hpp and lesson.hpp state.
CardText card_of(const std::string& text, const std::filesystem::path& file);

/// That of a rung of the checkout. Throws Error where there is none.
CardText read_card(const std::string& id);

/// What was slow or wrong in the base: the sentences of the head of `card`'s file that name a rung of `chain` (the
/// bases down to the root), from the clause on that does. Empty where none does.
std::string flaw_of(const CardText& card, const std::vector<std::string>& chain);

}  // namespace ladder
