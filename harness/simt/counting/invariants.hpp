// Floating-point operations that a loop repeats with the same operands, and loads that it repeats from the same
// address. nvcc 13.0 takes them out of the loop, operations also from behind a branch, as they cannot trap; g++ leaves
// those whose operand is one of several, or lies in the stack, and takes a loop of several ways back for several.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counting/machine_code.hpp"

namespace simt::counting {

class Invariants {
 public:
  /// `is_operation`: of an instruction's index, whether it is a floating-point operation.
  Invariants(const std::vector<Instruction>& code, const std::function<bool(size_t)>& is_operation);

  /// Of an operation in a loop whose operands are the same in all rounds: the last instruction before the outermost
  /// such loop, where nvcc does it.
  std::optional<size_t> moved_to(size_t index) const;
  /// A loop that lanes may leave in its first block, before they come to an operation that is moved out of it: nvcc
  /// asks first, and then does both the operation and the loop.
  struct Guarded {
    std::vector<size_t> header, inside;  ///< the calls that report blocks: those of the first, and all others
  };
  /// Of an operation that is moved; null where lanes come to it in each round that they begin.
  const Guarded* guarded_by(size_t index) const;
  /// Of a call that reports a load: whether nvcc loads once in front of a loop what the text loads in each round, from
  /// one address, while the loop stores nothing.
  bool is_loaded_before(size_t call) const { return loaded_before_.contains(call); }
  /// A loop that nvcc unrolls though it does not know how often it runs: by 4, by 2 a longer one, and not (1) where it
  /// is longer still, unless the text says by how much. It has no loop in it and one way out; it has no barriers,
  /// operations of the warp, or atomics; and it counts in constant steps. Of a branch that goes the same way in all
  /// rounds, of which nvcc makes two loops, the longer side counts.
  struct Unrolled {
    size_t by = 0;
    std::vector<size_t> reports;  ///< the calls in it that report blocks, first that of its first block
    struct Part {
      size_t begin = 0, end = 0;   // of its instructions
      bool in_each_round = false;  // or in some of them
    };
    size_t length = 0;         ///< of a round: g++'s instructions, as they count above
    size_t ends_by = 0;        ///< the comparison, or the step, that the branch at its end goes by
    Part before;               ///< the block from which lanes enter the loop; empty where there are several
    std::vector<Part> blocks;  ///< in the order of the program's flow
  };
  std::vector<Unrolled> unrolled() const;
  /// A product and the additions that use it, all in other blocks of code, where g++ fuses none: nvcc makes
  /// multiply-adds of all of them, and leaves the product out. It does not where anything else uses the product.
  /// `is_exact`: of a product's index, whether nothing is rounded in it. Then it may be in the same block: no text
  /// rounds it by itself, and g++ has joined two blocks after it fused what is in one.
  struct Fused {
    size_t product = 0;
    std::vector<size_t> additions;
  };
  std::vector<Fused> fused(const std::function<bool(size_t)>& is_exact) const;
  /// Products of the same operands, of which g++ does not see it, or that lie behind branches of several rounds of an
  /// unrolled loop: nvcc takes what does not change out of a loop before it unrolls it.
  struct Repeated {
    std::vector<size_t> products;  ///< in the order of the program's flow
    size_t before = 0;             ///< the last instruction of the nearest block that all of them lie in or behind
    bool first_is_before = false;  ///< the first one comes before each of the others
  };
  std::vector<Repeated> repeated() const;
  /// Of each loop with atomics for which ptxas fears that lanes wait for each other, as for a lock: the first call in
  /// it that reports a block. A branch in it or before it goes by what an atomic has returned, and between the two
  /// there is no barrier or operation of the warp.
  std::vector<size_t> yielding() const;

 private:
  struct Block {
    size_t begin = 0, end = 0;  // of its instructions
    std::vector<size_t> next, before;
  };
  struct Loop {
    size_t header = 0;
    std::vector<size_t> blocks;  // in the order of the program's flow, the header first
    bool has(size_t block) const { return std::find(blocks.begin(), blocks.end(), block) != blocks.end(); }
  };
  /// What a place holds: whether it is the same in all rounds, and which instruction wrote it (0: none in the loop).
  struct Held {
    size_t writer = 0;
    bool same = false;
  };
  using State = std::vector<Held>;

  void find_blocks();
  void find_order();
  void find_loops();
  size_t decided_by(size_t block) const;
  bool counts_in_constant_steps(const Loop& loop, size_t last) const;
  bool is_same_in_all_rounds(const Loop& loop, size_t block) const;
  bool dominates(size_t a, size_t b) const;
  size_t common_dominator(size_t a, size_t b) const;
  std::vector<size_t> entries_of(const Loop& loop) const;
  bool is_in_each_round(const Loop& loop, size_t block) const;
  void guard(const Loop& loop, size_t block, size_t operation);
  bool stores_nothing(const Loop& loop) const;
  void examine(const Loop& loop, const std::function<bool(size_t)>& is_operation);
  size_t block_before(const Loop& loop, size_t entry) const;
  bool reads_any(const Instruction& x, const std::vector<char>& places) const;
  State joined(size_t block, const std::vector<State>& after, const std::vector<char>& inside,
               const std::vector<char>& same_branch) const;
  bool execute(size_t index, State& state, bool loads_are_same) const;
  std::vector<size_t> places_of(const std::string& operand, int bytes) const;
  std::vector<size_t> written_by(size_t index) const;
  using Names = std::vector<size_t>;  // of what each place holds, one for each value
  Names names_before(size_t block, const std::vector<Names>& after) const;
  size_t name_of(const std::string& operand, int bytes, const Names& names) const;
  using Products = std::map<size_t, std::set<size_t>>;  // by place: what it may hold; `nowhere`: something else
  template <class Use>
  void carry_products(size_t index, bool is_followed, Products& held, Use use) const;

  const std::vector<Instruction>& code_;
  bool has_frame_ = false;  // %rbp points to the function's part of the stack
  size_t places_ = 33;      // that the function has
  std::vector<Block> blocks_;
  std::vector<size_t> order_, rank_, dominator_;  // of blocks that can be reached; rank_: in order_
  std::vector<Loop> loops_;
  std::vector<char> has_operation_;             // of each block of the loop that is examined
  std::vector<std::set<size_t>> inner_writes_;  // of each block that is a loop's header: places that the loop writes
  std::vector<std::optional<size_t>> moved_;    // of each instruction
  std::map<size_t, Guarded> guarded_;           // by the loop's header
  std::map<size_t, size_t> guarded_in_;         // by operation: that header
  std::set<size_t> loaded_before_;
};

}  // namespace simt::counting
