// What is known of the registers and stack slots of a function before each of its instructions: the low bits of their
// values, and which of them differ by a constant. Found by going through its blocks until nothing changes any more.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "counting/machine_code.hpp"

namespace simt::counting {

/// Of general registers (0 to 15) and vector ones (16 to 31); of any other operand 32.
size_t register_number(const std::string& operand);

struct Value {
  /// Two values with the same base, in the same block, differ by the difference of their offsets.
  uint32_t base = 0;
  int64_t offset = 0;
  int known = 0;      ///< as many low bits of the value are known, 0 to 64
  uint64_t bits = 0;  ///< these
  bool is_constant(uint64_t value, int width) const {
    return known >= width && bits << (64 - width) == value << (64 - width);
  }
  /// Whether it is a multiple of 2^log2, as far as a compiler can tell.
  bool is_multiple(int log2) const { return known >= log2 && (bits & ((1ull << log2) - 1)) == 0; }
};

/// Reads 8 bytes at an address in the file (zeros where it has none): constants of floating-point type.
using ReadConstant = std::function<uint64_t(uint64_t address)>;

class Values {
 public:
  Values(const std::vector<Instruction>& code, const ReadConstant& read);

  /// Goes through the code in its order. Calls visit(index) at each instruction that can be reached, when what stands
  /// before it is known; `begin(index)` first where a block of code begins. Sides of a branch that only copy, from one
  /// place to another, are no blocks of their own, as nvcc makes a choice of such a branch: what lies before and behind
  /// them is one block.
  void for_each(const std::function<void(size_t)>& visit, const std::function<void(size_t)>& begin);
  /// What an operand holds before instruction `at`, each time that it is reached where these blocks, from their first
  /// instructions to behind their last, run one after another. Of the first what is known on any way to it.
  std::vector<Value> along(const std::vector<std::pair<size_t, size_t>>& blocks, size_t at, const std::string& operand);
  /// Of a register ("%rdi") or of what an operand in memory holds; where visit() is being called.
  Value of(const std::string& operand) const;

 private:
  struct State {
    std::vector<Value> at;
    bool is_reached = false;
  };
  struct Slot {
    size_t place = 0;  // in State::at
    int bytes = 0;     // of the widest write so far
  };
  using Slots = std::map<std::pair<uint32_t, int64_t>, Slot>;  // stack, offset

  bool only_copies(size_t block) const;
  /// The block behind the sides of the branch at the end of this one; 0 where these do more than to copy.
  size_t behind_choice(size_t block) const;
  void execute(size_t index);
  void enter(size_t block);
  bool join(State& into, bool begins_a_loop) const;
  std::vector<char> loop_headers() const;
  Value read(const std::string& operand, int width = 64) const;
  void write(const std::string& operand, Value value, int width);
  void write_register(size_t number, Value value, int width);
  void forget_slots(uint32_t stack, int64_t offset, int bytes);
  Value address_of(const Memory& memory) const;
  Value sum(const Value& a, const Value& b, int64_t more) const;
  Value product(const Value& a, const Value& b) const;
  Value fresh(int known = 0, uint64_t bits = 0) const;
  uint32_t base_of(uint32_t a, uint32_t b, int64_t c) const;
  void forget_registers_of_callee();

  const std::vector<Instruction>& code_;
  const ReadConstant& read_constant_;
  std::vector<size_t> first_;                          // of each block: its first instruction; at the end the end
  std::vector<std::vector<size_t>> next_, before_it_;  // blocks behind each block, and before it
  std::vector<State> before_;                          // of each block
  Slots slots_;
  std::vector<Value> now_;
  uint64_t last_relative_ = 0;  // the address that was put in a register last: of thread variables, an argument
  mutable uint32_t last_base_ = 0;
  mutable std::map<std::tuple<uint32_t, uint32_t, int64_t>, uint32_t> bases_;  // of sums, within a block
  mutable std::map<uint32_t, std::pair<Value, Value>> summands_;               // by the base of their sum
};

}  // namespace simt::counting
