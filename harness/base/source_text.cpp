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

}  // namespace

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
  const std::string code = file.extension() == ".py" ? without_python_comments(text) : without_comments(text);
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
