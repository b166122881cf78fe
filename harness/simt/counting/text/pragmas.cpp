#include "counting/text/pragmas.hpp"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace simt::counting {

std::string output_of(const std::string& command) {
  std::string all;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return all;
  char part[1 << 16];
  while (const size_t count = std::fread(part, 1, sizeof part, pipe)) all.append(part, count);
  pclose(pipe);
  return all;
}

namespace {

/// Per address: a line with 0x and the address, then FILE:LINE of each inlined function, from the inside out.
std::string addresses_as_lines(const std::string& module, const std::vector<uint64_t>& places) {
  std::ostringstream command;
  command << "addr2line -a -i -e '" << module << "'" << std::hex;
  for (const uint64_t place : places) command << " " << place;
  return output_of(command.str() + " 2>/dev/null");
}

}  // namespace

std::unordered_map<uint64_t, std::string> lines_of(const std::string& module, const std::vector<uint64_t>& places) {
  std::unordered_map<uint64_t, std::string> found;
  if (places.empty()) return found;
  std::istringstream lines(addresses_as_lines(module, places));
  std::string* of = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(':') == std::string::npos)
      of = &found[std::stoull(line, nullptr, 16)];
    else if (of)
      *of += line.substr(0, line.find(" (")) + "\n";  // without a discriminator
  }
  return found;
}

size_t told_in(const std::vector<std::string>& text, size_t line, bool& is_loop) {
  constexpr size_t lines_before = 2;
  is_loop = false;
  for (size_t at = line; at > 0 && at + lines_before >= line && at <= text.size(); --at) {
    if (text[at - 1].find("for (") == std::string::npos) continue;
    is_loop = true;
    constexpr std::string_view pragma = "#pragma unroll ";
    const std::string before = at > 1 ? text[at - 2] : "";
    const size_t found = before.find(pragma);
    if (found == std::string::npos) return 0;
    size_t by = 0;
    std::from_chars(before.data() + found + pragma.size(), before.data() + before.size(), by);
    return by;
  }
  return 0;
}

std::unordered_map<uint64_t, size_t> told_to_unroll(const std::string& module, const std::vector<uint64_t>& places) {
  std::unordered_map<uint64_t, size_t> told;
  if (places.empty()) return told;
  std::map<std::string, std::vector<std::string>> texts;
  const auto text_of = [&](const std::string& file) -> const std::vector<std::string>& {
    const auto [found, is_new] = texts.try_emplace(file);
    std::ifstream in(file);
    for (std::string line; is_new && std::getline(in, line);) found->second.push_back(line);
    return found->second;
  };
  std::istringstream lines(addresses_as_lines(module, places));
  uint64_t place = 0;
  bool is_found = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      place = std::stoull(line, nullptr, 16);
      is_found = false;
    } else if (!is_found) {
      size_t number = 0;
      std::from_chars(line.data() + colon + 1, line.data() + line.size(), number);
      if (const size_t by = told_in(text_of(line.substr(0, colon)), number, is_found)) told[place] = by;
    }
  }
  return told;
}

}  // namespace simt::counting
