// The machine code of a loaded module, read once with objdump: where the lanes of a warp meet again behind a branch,
// which floating-point operations a block of code has, and which accesses are joined. x86-64 only.
#pragma once
#include <cstdint>
#include <optional>

#include "counting/function.hpp"
#include "counting/joins.hpp"

namespace simt::counting {

/// The block of code that reports itself (by __sanitizer_cov_trace_pc) from a call that returns to `place`.
const Block& block_at(uint64_t place);
/// What nvcc makes of an access.
struct Access {
  std::optional<Parts> parts;  ///< nothing where that is not known
  bool loaded_before = false;  ///< in front of its loop, once
};
/// Of the one that reports itself from a call that returns to `place`.
Access access_at(uint64_t place);

}  // namespace simt::counting
