// What the text of a kernel says of its loops: `#pragma unroll N`, which g++ does not read.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace simt::counting {

/// What a command prints; empty where it cannot be run.
std::string output_of(const std::string& command);

/// N of those loops, of all that begin at `places`, addresses in the file of a module: 1 where nvcc is told to leave
/// the loop as it is.
std::unordered_map<uint64_t, size_t> told_to_unroll(const std::string& module, const std::vector<uint64_t>& places);

/// Of each place, an address in the file of a module: the lines of its text, from the function that it is in to those
/// that this one is a part of.
std::unordered_map<uint64_t, std::string> lines_of(const std::string& module, const std::vector<uint64_t>& places);

/// N of the loop that line `line` (from 1 on) of a text is in, where `for` is in this line or one of the two before; 0
/// where nothing is said of it. `is_loop` is set to whether there is one.
size_t told_in(const std::vector<std::string>& text, size_t line, bool& is_loop);

}  // namespace simt::counting
