#include "lessons/card_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <regex>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/source_text.hpp"
#include "workloads/variants.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// The value of `.name = value` among the items of a card; empty where it has no such field.
std::string field_of(const std::vector<std::string>& items, const std::string& name) {
  const std::string begin = "." + name;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals != std::string::npos && trimmed(item.substr(0, equals)) == begin)
      return trimmed(item.substr(equals + 1));
  }
  return "";
}

/// The lines of comment that a file begins with, in one line; of Python the docstring's.
std::string head_of(const std::string& text, bool python) {
  std::string head;
  if (python) {
    const std::string quotes = "\"\"\"";
    if (!text.starts_with(quotes)) return "";
    head = text.substr(quotes.size(), text.find(quotes, quotes.size()) - quotes.size());
  } else {
    for (size_t from = 0; text.compare(from, 2, "//") == 0;) {
      const size_t to = std::min(text.find('\n', from), text.size());
      const std::string line = trimmed(text.substr(from + 2, to - from - 2));
      if (!line.starts_with("link:") && !line.starts_with("link on cuda:") && !line.starts_with("for cuda:"))
        head += line + "\n";
      from = std::min(to + 1, text.size());
    }
  }
  return trimmed(std::regex_replace(head, std::regex("\\s+"), " "));
}

std::map<std::string, double> axes_of(const std::string& list, const fs::path& file) {
  std::map<std::string, double> axes;
  for (const std::string& axis : items_of(list)) {
    const std::vector<std::string> parts = items_of(axis);
    if (parts.size() < 3)
      throw Error(fmt::format("{}: an axis is {{name, values, standard}}, not {}", file.string(), axis));
    double standard = 0;
    const char* const end = parts[2].data() + parts[2].size();
    if (std::from_chars(parts[2].data(), end, standard).ptr == end) axes[text_of(parts[0])] = standard;
  }
  return axes;
}

std::vector<PredictionText> predictions_of(const std::string& list, const fs::path& file) {
  std::vector<PredictionText> predictions;
  for (const std::string& item : items_of(list)) {
    const std::vector<std::string> parts = items_of(item);
    if (parts.size() < 2 || parts.size() > 3)
      throw Error(fmt::format("{}: a prediction is {{name, formula}} or {{name, formula, workloads}}, not {}",
                              file.string(), item));
    predictions.push_back({text_of(parts[0]), text_of(parts[1]), parts.size() == 3 ? text_of(parts[2]) : ""});
  }
  return predictions;
}

/// A text of a card in Python: "name": "..." with further literals after it.
std::string python_field(const std::string& card, const std::string& name) {
  const std::regex stated("\"" + name + R"re("\s*:\s*\(?\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  std::smatch found;
  return std::regex_search(card, found, stated) ? text_of(found.str(1)) : "";
}

/// The rung's number, by which comments name it: v12 of v12_name.
std::string rung_number(const std::string& id) { return id.substr(0, id.find('_')); }

}  // namespace

std::string take_card(std::string& code) {
  take_statement(code, "LADDER_LESSON(");
  const std::string card = take_statement(code, "LADDER_VARIANT(");
  return card.empty() ? take_statement(code, "CARD = {") : card;
}

std::string named_in(const std::string& card, const std::string& field) {
  const std::regex stated(fmt::format(R"re((?:\.{0}|"{0}")\s*[=:]\s*"([A-Za-z0-9_]*)")re", field));
  std::smatch found;
  return std::regex_search(card, found, stated) ? found.str(1) : "";
}

std::vector<std::string> items_of(const std::string& list) {
  const size_t open = list.find_first_of("({[");
  std::vector<std::string> items;
  if (open == std::string::npos) return items;
  const size_t close = std::min(closing(list, open), list.size() - 1);
  std::string item;
  for (size_t i = open + 1; i < close;) {
    size_t to = i + 1;
    if (list[i] == '"') {
      while (to < close && list[to] != '"') to += list[to] == '\\' ? 2 : 1;
      to = std::min(to + 1, close);
    } else if (std::string("({[").find(list[i]) != std::string::npos) {
      to = std::min(closing(list, i), list.size() - 1) + 1;
    } else if (list[i] == ',') {
      items.push_back(trimmed(item));
      item.clear();
      ++i;
      continue;
    }
    item += list.substr(i, to - i);
    i = to;
  }
  if (!trimmed(item).empty()) items.push_back(trimmed(item));
  return items;
}

std::string text_of(const std::string& literals) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < literals.size(); ++i) {
    if (literals[i] == '"')
      quoted = !quoted;
    else if (quoted)
      text += literals[i] == '\\' && i + 1 < literals.size() ? literals[++i] : literals[i];
  }
  return text;
}

CardText card_of(const std::string& text, const fs::path& file) {
  const bool python = file.extension() == ".py";
  std::string code = python ? without_python_comments(text) : without_comments(text);
  const std::vector<std::string> lesson = items_of(take_statement(code, "LADDER_LESSON("));
  const std::string card = take_card(code);
  const std::vector<std::string> fields = python ? std::vector<std::string>{} : items_of(card);
  const auto stated = [&](const char* name) {
    return python ? python_field(card, name) : text_of(field_of(fields, name));
  };
  return {.id = stated("id"),
          .base = stated("base"),
          .joins = stated("joins"),
          .idea = stated("idea"),
          .expect = stated("expect"),
          .shows = stated("shows"),
          .counter = stated("counter"),
          .source = stated("source"),
          .operands = named_in(card, "operands"),
          .ask = text_of(field_of(lesson, "ask")),
          .answer = text_of(field_of(lesson, "answer")),
          .predict = predictions_of(field_of(lesson, "predict"), file),
          .axes = axes_of(field_of(fields, "axes"), file),
          .head = head_of(text, python),
          .file = file};
}

CardText read_card(const std::string& id) {
  const fs::path folder = source_folder() / "variants";
  const fs::path file = source_of(id, folder);
  if (file.empty())
    throw Error(fmt::format("there is no variant '{}' in {}: `ladder list` shows them all", id, folder.string()));
  return card_of(read_whole(file), file);
}

std::string flaw_of(const CardText& card, const std::vector<std::string>& chain) {
  static const std::regex own_number(R"re(^[a-z]+\d*[a-z]*: )re");
  static const std::regex sentence(R"re((?:[^.]|\.(?! |$))+\.?)re"), clause(R"re((?:[^;]|;(?! ))+)re");
  std::string any_of_chain;
  for (const std::string& id : chain) any_of_chain += (any_of_chain.empty() ? "" : "|") + rung_number(id);
  const std::regex names("\\b(" + any_of_chain + ")\\b|\\b(So far|[Tt]he base|[Ii]ts base)\\b(?!')");
  const std::string head = std::regex_replace(card.head, own_number, "");
  std::string flaw;
  for (std::sregex_iterator next(head.begin(), head.end(), sentence), none; next != none && !chain.empty(); ++next) {
    const std::string whole = next->str();
    std::string told;
    for (std::sregex_iterator part(whole.begin(), whole.end(), clause); part != none; ++part) {
      const std::string text = trimmed(part->str());
      // What follows a semicolon goes on about the base, unless it is about the rung.
      const bool goes_on = !told.empty() && !text.starts_with("here");
      if (goes_on || std::regex_search(text, names)) told += (told.empty() ? "" : "; ") + text;
    }
    if (told.empty()) continue;
    if (told.back() != '.') told += '.';
    if (!std::regex_search(told, std::regex("^[a-z]+[0-9]"))) told[0] = char(std::toupper(told[0]));
    flaw += (flaw.empty() ? "" : " ") + told;
  }
  return flaw;
}

}  // namespace ladder
