// Lists in sentences, words for a shell, and text that comes from elsewhere.
#pragma once
#include <string>
#include <string_view>

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

/// What another program wrote, safe to print and to keep in JSON: valid UTF-8 without control characters but tab and
/// newline, so that it can neither move a terminal's cursor nor end a document. What is none becomes U+FFFD; a carriage
/// return becomes a newline.
std::string cleaned(std::string_view text);

}  // namespace ladder
