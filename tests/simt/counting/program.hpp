// Machine code that tests of the counter make up.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "simt/counting/machine_code.hpp"

namespace simt::counting {

/// An instruction every 5 bytes, from 0x1000 on; jumps name lines: "jne @3".
inline std::vector<Instruction> program(const std::vector<std::string>& lines) {
  std::string text = "0000000000001000 <kernel>:\n";
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    char number[32];
    if (const size_t at = line.find(" @"); at != std::string::npos) {
      std::snprintf(number, sizeof number, "%lx", 0x1000 + 5 * std::stoul(line.substr(at + 2)));
      line = line.substr(0, at + 1) + number;
    }
    std::snprintf(number, sizeof number, "    %lx:\t", 0x1000 + 5 * i);
    text += number + line + "\n";
  }
  return functions_in(text + "\n").at(0);
}

inline const std::string report = "call   50 <__sanitizer_cov_trace_pc@plt>";

}  // namespace simt::counting
