#include "lessons/access_alignments.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <climits>

namespace ladder {
namespace {

/// But for "#APP" and its like, which are the assembler's.
bool is_comment(std::string_view line) { return line[0] == '#' && line.substr(1, 1).find_first_of("( ") == 0; }

/// "	call	__tsan_unaligned_write8@PLT" reports an access of 8 bytes, "__tsan_read_range" one of any number; 0 of
/// any other line.
unsigned most_reported_bytes(std::string_view line) {
  for (const std::string_view call : {"\tcall\t__tsan_read", "\tcall\t__tsan_write", "\tcall\t__tsan_unaligned_"}) {
    if (line.substr(0, call.size()) != call) continue;
    const size_t number = std::min(line.find_first_of("0123456789@"), line.size());
    unsigned bytes = UINT_MAX;
    std::from_chars(line.data() + number, line.data() + line.size(), bytes);
    return bytes;
  }
  return 0;
}

/// The bits that an operand in memory is known to be aligned to, if it is of `most` bytes at most; 0: there is none.
/// Not those that the function has for itself, which cannot trap ("mem/c"), or constants ("mem/u").
unsigned alignment_of(std::string_view comment, unsigned most) {
  for (size_t mem = comment.find("(mem"); mem != std::string_view::npos; mem = comment.find("(mem", mem + 1)) {
    const size_t mode = comment.find(':', mem), size = comment.find(" S", mem), next = comment.find("(mem", mem + 1);
    if (mode == std::string_view::npos || comment.substr(mem, mode - mem).find_first_of("cu", 4) < mode - mem) continue;
    for (size_t at = size; at < next && at != std::string_view::npos; at = comment.find(" S", at + 1)) {
      unsigned bytes = 0, bits = 0;
      const auto [end, error] = std::from_chars(comment.data() + at + 2, comment.data() + comment.size(), bytes);
      if (error != std::errc() || comment.substr(size_t(end - comment.data()), 2) != " A") continue;
      std::from_chars(end + 2, comment.data() + comment.size(), bits);
      if (bytes <= most) return bits;
      break;
    }
  }
  return 0;
}

}  // namespace

std::string with_alignments(std::string_view assembly) {
  std::string out;
  out.reserve(assembly.size() / 4);
  size_t behind_call = 0;    // in `out`
  unsigned bytes = 0;        // of the access that was reported there and has not come yet
  size_t comment_begin = 0;  // of the next instruction
  for (size_t begin = 0; begin < assembly.size();) {
    const size_t end = std::min(assembly.find('\n', begin), assembly.size() - 1) + 1;
    const std::string_view line = assembly.substr(begin, end - begin);
    const std::string_view comment = assembly.substr(comment_begin, begin - comment_begin);
    begin = end;
    if (is_comment(line)) continue;
    comment_begin = end;
    const bool calls = line.substr(0, 6) == "\tcall\t";
    if (const unsigned bits = bytes && !calls ? alignment_of(comment, bytes) : 0) {
      out.insert(behind_call, "\tnopl\t" + std::to_string(std::countr_zero(bits / 8) + 1) + "(%rax)\n");
      bytes = 0;
    }
    out += line;
    if (!calls) continue;
    bytes = most_reported_bytes(line);
    behind_call = out.size();
  }
  return out;
}

}  // namespace ladder
