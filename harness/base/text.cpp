#include "base/text.hpp"

#include <cstdint>

namespace ladder {

namespace {

/// Bytes of the UTF-8 character at `text`'s begin; 0 where there is none (RFC 3629, table of section 4), or where it is
/// a control character that a terminal acts upon.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) && !(first == 0xC2 && second < 0xA0) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second > 0x9F;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90, beyond = first == 0xF4 && second > 0x8F;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string cleaned(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    size_t length = character(text);
    if (length > 0) {
      kept += text.substr(0, length);
    } else {
      length = 1;
      if (text[0] == '\n' || text[0] == '\t')
        kept += text[0];
      else if (text[0] == '\r')
        kept += text.substr(1, 1) == "\n" ? "" : "\n";
      else
        kept += "\uFFFD";
    }
    text.remove_prefix(length);
  }
  return kept;
}

}  // namespace ladder
