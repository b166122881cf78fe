// A function of a module as a graph of the blocks of code that report themselves: which floating-point operations a
// block has, as nvcc makes them, and where the lanes of a warp meet again behind a branch.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "counting/joins.hpp"
#include "counting/machine_code.hpp"
#include "counting/operations.hpp"
#include "counting/values.hpp"

namespace simt::counting {

struct Block {
  /// Where all ways from here meet first: the place that the block there reports. 0: at the end of the function, or
  /// not known.
  uint64_t meets_at = 0;
  Operations operations{};  ///< once through the block
  /// Of the first block of a loop that nvcc unrolls: the places of its blocks (trace.hpp).
  std::vector<uint64_t> unrolled;
  size_t unrolled_by = 0;
  JoinedRounds joined;  ///< loads of this loop that several rounds have in common, by their places
  /// Of the first block of a loop that lanes may leave there: what nvcc does before the loop, where they do not, and
  /// the places of the loop's blocks, those of its first one apart.
  struct Guarded {
    Operations operations{};
    std::vector<uint64_t> header, inside;
  } guarded;
  bool is_beside_guarded = false;  ///< in the same function as such a loop
  bool yields = false;             ///< the first of a loop in which lanes do not keep others waiting (trace.hpp)
};

/// By the place that the call of a report returns to, as an address in the file of the module.
struct Program {
  std::unordered_map<uint64_t, Block> blocks;
  std::unordered_map<uint64_t, Parts> joins;
  std::unordered_set<uint64_t> loaded_before;  ///< loads that nvcc takes out of their loop (invariants.hpp)
};

/// Adds the blocks and accesses of a function. `file`: the module's, whose lines tell which operations unrolling has
/// copied from one place.
void add_function(std::vector<Instruction> code, const ReadConstant& read, const std::string& file, Program& program);

}  // namespace simt::counting
