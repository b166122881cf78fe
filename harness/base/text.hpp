// Lists in sentences, and words for a shell.
#pragma once
#include <string>

namespace ladder {

/// The items of a range of texts or numbers, with commas between them.
template <class Range>
std::string listed(const Range& items) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    if constexpr (requires { std::to_string(item); })
      text += std::to_string(item);
    else
      text += item;
  }
  return text;
}

/// The word as a shell takes it, whatever is in it.
inline std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace ladder
