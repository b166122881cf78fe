// The machine code of a loaded module, read once with objdump: where the lanes of a warp meet again behind a branch,
// which floating-point operations a block of code has, and which accesses are joined. x86-64 only.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "counting/joins.hpp"
#include "counting/operations.hpp"

namespace simt::counting {

struct Block {
  /// Where all ways from here meet first: the place that the block there reports. 0: at the end of the function, or
  /// not known.
  uint64_t meets_at = 0;
  Operations operations{};  ///< once through the block
  /// Of the first block of a loop that nvcc unrolls: the places of its blocks (trace.hpp).
  std::vector<uint64_t> unrolled;
  size_t unrolled_by = 0;
  /// Loads of this loop that several rounds have in common, by their places: the binary logarithm of the bytes.
  std::unordered_map<uint64_t, int> joined;
  bool yields = false;  ///< the first of a loop in which lanes do not keep others waiting (trace.hpp)
};

/// The block of code that reports itself (by __sanitizer_cov_trace_pc) from a call that returns to `place`.
const Block& block_at(uint64_t place);
/// What nvcc makes of the access that reports itself from a call that returns to `place`; nothing where that is not
/// known.
std::optional<Parts> parts_at(uint64_t place);

}  // namespace simt::counting
