// The machine code of a loaded module, read once with objdump: where the lanes of a warp meet again behind a branch,
// and which floating-point operations a block of code has. x86-64 only.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace simt::counting {

/// Floating-point operations, in the order of the counters that they become.
enum class Operation { fadd, fmul, ffma, dadd, dmul, dfma };
inline constexpr std::array<std::string_view, 6> operation_names = {"fadd", "fmul", "ffma", "dadd", "dmul", "dfma"};

struct Block {
  /// Where all ways from here meet first: the place that the block there reports. 0: at the end of the function, or
  /// not known.
  uint64_t meets_at = 0;
  std::array<uint32_t, operation_names.size()> operations{};  ///< once through the block
};

/// The block of code that reports itself (by __sanitizer_cov_trace_pc) from a call that returns to `place`.
const Block& block_at(uint64_t place);

}  // namespace simt::counting
