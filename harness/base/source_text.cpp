#include "base/source_text.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "base/files.hpp"
#include "base/npy.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

/// Does the ' at `i` group digits, as in 10'000?
bool digits_before(const std::string& code, size_t i) {
  return i > 0 && std::isxdigit(static_cast<unsigned char>(code[i - 1]));
}

/// The lines that are comments to the compiler, and that the build reads.
std::string lines_for_the_build(const std::string& text) {
  static const std::regex line(R"re((^|\n)(// (link|for cuda)[^\n]*))re");
  std::string lines;
  for (std::sregex_iterator next(text.begin(), text.end(), line), end; next != end; ++next)
    lines += next->str(2) + "\n";
  return lines;
}

/// Where the quoted text that begins at `i` ends; `i` itself where none begins there.
size_t end_of_quotes(const std::string& code, size_t i) {
  const char quote = code[i];
  if (quote != '"' && (quote != '\'' || digits_before(code, i))) return i;
  size_t end = i + 1;
  while (end < code.size() && code[end] != quote && code[end] != '\n') end += code[end] == '\\' ? 2 : 1;
  return std::min(end + 1, code.size());
}

/// Where the comment that begins at `i` ends, before its line's end; `i` itself where none begins there.
size_t end_of_comment(const std::string& code, size_t i) {
  if (code.compare(i, 2, "//") == 0) return std::min(code.find('\n', i), code.size());
  if (code.compare(i, 2, "/*") != 0) return i;
  const size_t end = code.find("*/", i + 2);
  return end == std::string::npos ? code.size() : end + 2;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The word that ends before `end`, white space aside.
std::string word_before(const std::string& code, size_t end) {
  while (end > 0 && std::isspace(static_cast<unsigned char>(code[end - 1]))) --end;
  size_t begin = end;
  while (begin > 0 && is_word(code[begin - 1])) --begin;
  return code.substr(begin, end - begin);
}

}  // namespace

size_t closing(const std::string& code, size_t open) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = open; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      i += c == '\\';
    } else {
      depth += std::string_view("([{").find(c) != std::string_view::npos;
      depth -= std::string_view(")]}").find(c) != std::string_view::npos;
      if (depth == 0) return i;
    }
  }
  return std::string::npos;
}

std::string take_statement(std::string& code, const std::string& begin) {
  size_t from = code.starts_with(begin) ? 0 : code.find("\n" + begin);
  if (from == std::string::npos) return "";
  if (code[from] == '\n') ++from;
  const size_t to = std::min(closing(code, from + begin.size() - 1), code.size() - 1) + 1;
  const std::string statement = code.substr(from, to - from);
  code.erase(from, to - from);
  return statement;
}

std::string without_comments(const std::string& text) {
  static const std::regex brackets(
      R"re((^|\n)(namespace[^\n;{]*\{|using namespace [^\n;]*;|\}  // namespace.*)(?=\n))re");
  const std::string code = std::regex_replace(text, brackets, "$1");
  std::string kept;
  for (size_t i = 0; i < code.size();) {
    if (const size_t comment = end_of_comment(code, i); comment > i) {
      i = comment;
    } else if (const size_t quotes = end_of_quotes(code, i); quotes > i) {
      kept += code.substr(i, quotes - i);
      i = quotes;
    } else {
      kept += code[i++];
    }
  }
  return kept;
}

std::string code_lines(const fs::path& file, const std::string& code, const fs::path& folder,
                       std::vector<fs::path>& parts) {
  static const std::regex include(R"re(\s*#include\s*["<]([^">]+)[">]\s*)re"), once(R"re(\s*#pragma once\s*)re");
  std::string lines;
  for (size_t from = 0; from < code.size();) {
    const size_t to = std::min(code.find('\n', from), code.size());
    std::string line = code.substr(from, to - from);
    from = to + 1;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    const bool directive = line[begin] == '#';
    if (directive && std::regex_match(line, once)) continue;
    std::smatch found;
    if (!directive || !std::regex_match(line, found, include)) {
      lines += line + "\n";
      continue;
    }
    const fs::path part = fs::weakly_canonical(file.parent_path() / found.str(1));
    const fs::path within = part.lexically_relative(fs::weakly_canonical(folder));
    const bool below = !within.empty() && *within.begin() != ".." && *within.begin() != "harness";
    if (below && fs::exists(part)) parts.push_back(part);
  }
  return lines;
}

std::string code_alone(const std::string& text) {
  std::string code = text;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::max(end_of_comment(text, i), end_of_quotes(text, i));
    std::replace_if(
        code.begin() + std::ptrdiff_t(i), code.begin() + std::ptrdiff_t(end), [](char c) { return c != '\n'; }, ' ');
    i = std::max(end, i + 1);
  }
  return code;
}

std::vector<std::string> list_between(const std::string& code, size_t open, size_t close) {
  std::vector<std::string> found;
  int depth = 0;
  for (size_t i = open + 1, from = i; i <= close; ++i) {
    if (depth == 0 && (code[i] == ',' || i == close)) {
      const size_t first = code.find_first_not_of(" \n", from), last = code.find_last_not_of(" \n", i - 1);
      if (first < i) found.push_back(code.substr(first, last + 1 - first));
      from = i + 1;
    }
    depth += std::string_view("(<[{").find(code[i]) != std::string_view::npos;
    depth -= std::string_view(")>]}").find(code[i]) != std::string_view::npos;
  }
  return found;
}

std::vector<KernelText> kernels_of(const std::string& text) {
  const std::string code = code_alone(text);
  std::vector<KernelText> kernels;
  const std::string mark = "__global__";
  for (size_t at = code.find(mark); at != std::string::npos; at = code.find(mark, at + 1)) {
    size_t open = code.find('(', at);
    while (open != std::string::npos && word_before(code, open) == "__launch_bounds__") {
      const size_t close = closing(code, open);
      open = close == std::string::npos ? close : code.find('(', close);
    }
    const size_t close = open == std::string::npos ? open : closing(code, open);
    if (close == std::string::npos) continue;
    const size_t brace = code.find_first_not_of(" \n", close + 1);
    if (brace == std::string::npos || code[brace] != '{') continue;  // declared, not defined
    const size_t end = closing(code, brace);
    if (end == std::string::npos) continue;
    KernelText kernel{word_before(code, open), {}, list_between(code, open, close), brace + 1, end};
    for (const std::string& parameter : kernel.declared)
      kernel.parameters.push_back(word_before(parameter, parameter.size()));
    kernels.push_back(kernel);
  }
  return kernels;
}

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

void add_part(const fs::path& part, const fs::path& folder, Parts& parts) {
  if (parts.count(part)) return;
  std::vector<fs::path> more;
  parts[part] = "";
  parts[part] = code_lines(part, without_comments(read_whole(part)), folder, more);
  for (const auto& [header, implementation] : {std::pair(".cuh", ".cu"), std::pair(".hpp", ".cpp")}) {
    const fs::path beside = fs::path(part).replace_extension(implementation);
    if (part.extension() == header && fs::exists(beside)) more.push_back(beside);
  }
  for (const fs::path& next : more) add_part(next, folder, parts);
}

std::string source_hash(const fs::path& file, const fs::path& root) {
  const std::string text = read_whole(file);
  std::string code = file.extension() == ".py" ? without_python_comments(text) : without_comments(text);
  take_statement(code, "LADDER_LESSON(");
  std::vector<fs::path> included;
  std::string whole = lines_for_the_build(text) + code_lines(file, code, root, included);
  Parts parts;
  for (const fs::path& part : included) add_part(part, root, parts);
  std::multiset<std::string> texts;  // in an order that names and folders have no part in
  for (const auto& [part, lines] : parts) texts.insert(lines_for_the_build(read_whole(part)) + lines);
  for (const std::string& lines : texts) whole += lines;
  return hash64(whole.data(), whole.size());
}

}  // namespace ladder
