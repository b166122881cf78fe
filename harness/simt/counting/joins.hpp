// Which accesses of a thread nvcc makes one instruction of, read off g++'s machine code.
//
// nvcc 13.0 joins loads, or stores, of equal size within a block of code whose addresses differ by constants and are
// side by side: to 16 bytes where it can prove that the first address is a multiple of 16, else to 8. An access in
// between that may be to the same memory ends it, and so does a call. LLVM proves that, in the code for PTX, of an
// offset into memory whose alignment is declared, here dynamic_shared(), and of a structure whose type is aligned, but
// of no other parameter. ptxas joins once more where the place that it gives a static array allows it: taken to be a
// multiple of 16, as where all sizes are. Of 16 aligned bytes it loads all where more than half are needed. What is
// loaded already is not loaded again: g++ copies a structure and reads its members, too. What is wider than its type is
// aligned, as a copy of two floats, it takes apart.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "counting/invariants.hpp"
#include "counting/machine_code.hpp"
#include "counting/values.hpp"

namespace simt::counting {

/// An instruction that nvcc makes of an access, or of several.
struct Part {
  int size_log2 = 0;  ///< bytes
  int64_t shift = 0;  ///< from the address of the access to the instruction's
};
/// Of an access: those of which it is the first. None where another access' instructions have all its bytes.
using Parts = std::vector<Part>;

/// Loads of a loop that nvcc unrolls, one after another in memory round by round: those of several rounds are one where
/// the first round's is aligned. No store is in the loop.
struct JoinedRounds {
  std::unordered_map<uint64_t, int> loads;  ///< by the address behind the call that reports it: log2 of the bytes
  /// nvcc knows the number of rounds, and unrolls all of a short loop. Then two are also joined from the second round
  /// on, where that one's load is aligned.
  bool of_all = false;
};
JoinedRounds joined_rounds(const std::vector<Instruction>& code, Values& values, const Invariants::Unrolled& loop);

class Joins {
 public:
  /// Adds those of a function to `found`: by the address behind the call that reports the access. Call begin() at each
  /// block of code and visit() at each instruction of it.
  explicit Joins(std::unordered_map<uint64_t, Parts>& found) : found_(found) {}
  void begin();
  void visit(const std::vector<Instruction>& code, size_t index, const Values& values);

 private:
  /// An access, or one of the pieces that nvcc takes it apart into.
  struct Access {
    uint64_t place = 0;    ///< behind the call
    int64_t before = 0;    ///< bytes of the access that come before the piece
    Value address;         ///< of the piece
    int aligned_log2 = 0;  ///< it is a multiple of this by its type
  };
  /// Accesses whose addresses differ by constants, in the order of the program.
  struct Chain {
    bool is_store = false;
    int size_log2 = 0;
    std::vector<Access> accesses;
  };
  /// Whether a load before it, still in a register, has these bytes.
  bool is_loaded(const Value& address, int size_log2) const;
  template <class Which>
  void close(Which which);
  void join(Chain& chain);

  std::vector<Chain> open_;
  std::unordered_map<uint64_t, Parts>& found_;
};

}  // namespace simt::counting
