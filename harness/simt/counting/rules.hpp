// What one access of a warp costs, by the rules of the hardware: sectors, wavefronts, replays. The rules of atomics and
// of wide accesses to shared memory were read off an H200's counters.
#pragma once
#include <array>
#include <cstdint>

#include "counting/event.hpp"

namespace simt::counting {

struct Cost {
  /// Global memory: sectors of 32 bytes. Shared memory: wavefronts, passes over the 32 banks of 4 bytes. Constant
  /// memory: different words, as each is broadcast by itself. Atomics: steps one after another.
  unsigned units = 0;
  unsigned ideal = 0;  ///< the same for lanes side by side, without conflicts
};

/// Loads of a block from when it has come to a barrier of the grid until it knows that all blocks have: how many
/// depends on timing. Profiles of eleven kernels have 1.9 to 4.0 (docs/counting.md).
inline constexpr unsigned polls_at_grid_barrier = 3;

/// The address of a load that copies from global to shared memory asynchronously: it differs by the sector of shared
/// memory, too, as a sector counts once for each of these that it goes to.
uint64_t copied(uint64_t from, uint64_t to);

/// The access of the lanes in `mask` (not 0) to these addresses, 2^size_log2 bytes each.
Cost cost_of(Kind kind, int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask);

}  // namespace simt::counting
