// Which accesses of a thread nvcc makes one instruction of, read off g++'s machine code.
//
// nvcc 13.0 joins loads, or stores, of equal size within a block of code whose addresses differ by constants and are
// side by side: to 16 bytes where it can prove that the first address is a multiple of 16, else to 8. An access in
// between that may be to the same memory ends it, and so does a call. LLVM proves that, in the code for PTX, of an
// offset into memory whose alignment is declared, here dynamic_shared(), and of no parameter. ptxas joins once more
// where the place that it gives a static array allows it: taken to be a multiple of 16, as where all sizes are. What is
// loaded already is not loaded again: g++ copies a structure and reads its members, too.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "counting/machine_code.hpp"
#include "counting/values.hpp"

namespace simt::counting {

/// What an access is part of.
struct Joined {
  bool is_first = true;  ///< the one that counts; the others of the instruction do not
  int size_log2 = 0;     ///< bytes of the instruction
  int64_t shift = 0;     ///< from the address of the first access to the lowest
};

class Joins {
 public:
  /// Adds those of a function to `found`: by the address behind the call that reports the access. Call begin() at each
  /// block of code and visit() at each instruction of it.
  explicit Joins(std::unordered_map<uint64_t, Joined>& found) : found_(found) {}
  void begin();
  void visit(const Instruction& instruction, const Values& values);

 private:
  struct Access {
    uint64_t place = 0;  ///< behind the call
    Value address;
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
  std::unordered_map<uint64_t, Joined>& found_;
};

}  // namespace simt::counting
