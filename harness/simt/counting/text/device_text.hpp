// Text that only the CPU device compiles.
#pragma once
#include <string_view>

namespace simt::counting {

/// Whether line `line` (from 1) of `text` stands between "#ifdef __CUDACC__ ... #else" and "#endif", or in the
/// first part of "#ifndef __CUDACC__".
bool is_for_cpu_alone(std::string_view text, unsigned line);

/// The same of a file; false where it cannot be read. What was asked once is remembered.
bool is_for_cpu_alone(const char* file, unsigned line);

}  // namespace simt::counting
