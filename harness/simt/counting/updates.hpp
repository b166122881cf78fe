// Atomics that shared memory has no instruction for, and a GPU repeats until they succeed: additions of floating-point
// numbers, and of whole numbers of 64 bits. nvcc 13.0 makes a loop of them: `LDS`, the change, `ATOMS.CAST.SPIN`, which
// stores where the word is as it was loaded, and back to `LDS` in the lanes that did not succeed.
//
// In each half of a warp (8 bytes; 4 bytes: in the whole warp) one lane of those in the same bank succeeds in a turn,
// if no other lane has changed its word since it was loaded. Read off an H200's counters: 300,000 points with few
// conflicts between warps take 3.48 turns for an addition, 3.4 to 3.5 by this rule (docs/counting.md). How the warps of
// a block come between each other depends on their timing; here all of them load, and then one after another tries.
// That makes the counts an estimate.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "counting/counts.hpp"
#include "counting/event.hpp"

namespace simt::counting {

class Updates {
 public:
  /// The next one of a warp: lanes in `mask`, not 0.
  void add(size_t warp, Place place, uint32_t mask, const std::array<uint64_t, 32>& address);
  /// Those of all warps, which are forgotten then: their turns, the load of each, and the lanes that change a word.
  void count(KernelCounts& counts);

 private:
  struct Update {
    Place place;
    uint32_t mask = 0;  ///< lanes that have yet to succeed
    std::array<uint64_t, 32> address{};
    bool is_begun = false;
  };
  /// The lanes that succeed; their words are changed in this turn.
  uint32_t try_once(const Update& update);

  std::vector<std::vector<Update>> of_warp_;
  std::unordered_map<uint64_t, uint64_t> changed_;  ///< by address: the turn that changed it last
  uint64_t turn_ = 0;
};

}  // namespace simt::counting
