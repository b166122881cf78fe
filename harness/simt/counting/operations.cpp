#include "counting/operations.hpp"

#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace simt::counting {
namespace {

/// Adds, multiplications and multiply-adds of one type, as nvcc 13.0 has them in the routines for operands in the
/// middle of the range; at its ends the routines call others.
struct Steps {
  uint32_t add = 0, multiply = 0, multiply_add = 0;
};
constexpr Steps float_division{.multiply_add = 5}, float_reciprocal{.add = 1, .multiply_add = 2};
constexpr Steps float_root{.multiply = 2, .multiply_add = 2};
constexpr Steps double_division{.multiply = 1, .multiply_add = 7}, double_reciprocal{.multiply_add = 5};
constexpr Steps double_root{.multiply = 3, .multiply_add = 5};
constexpr Steps power_of_two{.multiply = 4};  // scaling by one: four factors, so that no step leaves the range
constexpr Steps exponent{.add = 1};           // ilogb: the absolute value of what is finite and not zero
constexpr uint32_t float_steps_of_double_division =
    1;  // a multiply-add of the high words tells whether it was in range

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

struct Reader {
  const Instruction& x;
  const Values& values;
  const ReadConstant& read;
  bool is_double;

  bool is_constant(size_t operand, double value) const {
    const std::string& name = x.operands[operand];
    Value known = values.of(name);
    if (memory_operand(name).is_relative) known = {.known = 64, .bits = read(x.refers_to)};
    const float narrow = float(value);
    return is_double ? known.is_constant(std::bit_cast<uint64_t>(value), 64)
                     : known.is_constant(std::bit_cast<uint32_t>(narrow), 32);
  }
};

/// a - 2 b: LLVM makes a - (b + b) of it, and then there is no multiplication to join with the subtraction. Of
/// a + 2 b it makes a multiply-add.
bool subtracts_the_double(std::string_view name, const Reader& reader) {
  const bool negated = begins(name, "fnmadd");
  if (!negated && !begins(name, "fmadd")) return false;
  const std::string_view order = name.substr(negated ? 6 : 5);
  const double factor = negated ? 2 : -2;
  // AT&T order: third, second, first operand of Intel's names.
  const size_t one = order == "213" ? 1 : 0, other = order == "231" ? 1 : 2;
  return reader.is_constant(one, factor) || reader.is_constant(other, factor);
}

/// An addition that turns whole numbers without a sign of 64 bits into floating-point numbers or back, where half of
/// them is beyond x86's conversions. A GPU has an instruction for each.
bool converts_without_sign(const std::vector<Instruction>& code, size_t index, std::string_view name,
                           const Reader& reader) {
  const Instruction& x = code[index];
  const bool is_next = index + 1 < code.size() && begins(code[index + 1].name, "vcvtts");
  if (name == "sub") return is_next && reader.is_constant(0, 0x1p63);
  if (name != "add" || index < 2 || x.operands.size() != 3) return false;
  const Instruction& converted = code[index - 1];
  size_t halved = index - 2;  // g++ may clear the register in between
  if (halved > 0 && begins(code[halved].name, "vxorp")) --halved;
  return begins(code[halved].name, "or") && begins(converted.name, "vcvtsi2s") &&
         x.operands[0] == converted.operands.back() && x.operands[0] == x.operands[1];
}

void add_steps(Operations& to, const Steps& steps, bool is_double) {
  const size_t first = size_t(is_double ? Operation::dadd : Operation::fadd);
  to[first] += steps.add;
  to[first + 1] += steps.multiply;
  to[first + 2] += steps.multiply_add;
}

/// Functions of C's library, "scalbn" and "scalbnf", that nvcc has the steps of in line, and those of ours that stand
/// for one instruction of a GPU.
Operations operations_of_call(std::string_view called) {
  if (called == "simt_add_upwards") return {0, 0, 0, 1};
  const bool is_float = !called.empty() && called.back() == 'f';
  if (is_float) called.remove_suffix(1);
  Steps steps;
  if (called == "scalbn" || called == "scalbln" || called == "ldexp") steps = power_of_two;
  if (called == "ilogb") steps = exponent;
  Operations found{};
  add_steps(found, steps, !is_float);
  return found;
}

}  // namespace

void add(Operations& to, const Operations& its) {
  for (size_t o = 0; o < its.size(); ++o) to[o] += its[o];
}

Operations operations_of(const std::vector<Instruction>& code, size_t index, const Values& values,
                         const ReadConstant& read) {
  const Instruction& x = code[index];
  if (!x.called.empty()) return operations_of_call(x.called);
  std::string_view name = x.name;
  if (name.size() > 1 && name[0] == 'v') name.remove_prefix(1);
  if (name.size() < 5 || x.operands.size() < 2) return {};
  const std::string_view type = name.substr(name.size() - 2);
  const bool is_negation = x.name == "vxorpd";
  if (type != "ss" && type != "sd" && !is_negation) return {};
  name.remove_suffix(2);
  const bool is_double = type == "sd" || is_negation;
  const Reader reader{x, values, read, is_double};
  Operations found{};
  if (is_negation && reader.is_constant(0, -0.0)) found[size_t(Operation::dadd)] = 1;  // 0 - a
  const auto add = [&](const Steps& steps) { add_steps(found, steps, is_double); };
  if (name == "add" || name == "sub") {
    if (!converts_without_sign(code, index, name, reader)) add({.add = 1});
  } else if (name == "mul") {
    add({.multiply = 1});
  } else if (begins(name, "fmadd") || begins(name, "fmsub") || begins(name, "fnmadd") || begins(name, "fnmsub")) {
    add(subtracts_the_double(name, reader) ? Steps{.add = 2} : Steps{.multiply_add = 1});
  } else if (name == "div") {
    const bool is_reciprocal = reader.is_constant(1, 1);
    if (is_reciprocal) {
      add(is_double ? double_reciprocal : float_reciprocal);
    } else {
      add(is_double ? double_division : float_division);
      if (is_double) found[size_t(Operation::ffma)] += float_steps_of_double_division;
    }
  } else if (name == "sqrt") {
    add(is_double ? double_root : float_root);
  }
  return found;
}

Operations multiply_add_for(Operations addition) {
  for (const size_t add : {size_t(Operation::fadd), size_t(Operation::dadd)})
    addition[add + 2] += std::exchange(addition[add], 0);
  return addition;
}

bool is_times_power_of_two(const Instruction& x, const ReadConstant& read) {
  const bool is_double = x.name == "vmulsd";
  if ((!is_double && x.name != "vmulss") || !memory_operand(x.operands[0]).is_relative) return false;
  const uint64_t bits = read(x.refers_to);
  if (is_double) return bits << 12 == 0 && std::isnormal(std::bit_cast<double>(bits));
  return uint32_t(bits) << 9 == 0 && std::isnormal(std::bit_cast<float>(uint32_t(bits)));
}

std::optional<size_t> branch_before(const std::vector<Instruction>& code, size_t index) {
  if (code[index].name != "vxorpd") return {};
  const auto jumps_to = [&](size_t i) {
    std::vector<size_t> found;
    for (size_t from = 0; from < code.size(); ++from) {
      if (code[from].target && code[from].target == code[i].address) found.push_back(from);
    }
    return found;
  };
  const auto before_moves = [&](size_t i) {
    while (i > 0 && is_move(code[i - 1].name) && jumps_to(i).empty()) --i;
    return i;
  };
  const size_t block = before_moves(index);
  if (block == 0 || !reports_a_block(code[block - 1]) || !jumps_to(block).empty()) return {};
  // One branch leads to the block, and nothing else: from right before it, or by a jump that only this branch leads to.
  size_t first = before_moves(block - 1);
  for (int hops = 0; hops < 3; ++hops) {
    size_t behind = first;
    while (behind > 0 && (begins(code[behind - 1].name, "nop") || begins(code[behind - 1].name, "xchg"))) --behind;
    const Instruction* const last = behind > 0 ? &code[behind - 1] : nullptr;
    const bool falls = last && last->name != "jmp" && (last->name[0] == 'j' || !last->ends_block);
    const std::vector<size_t> jumps = jumps_to(first);
    if (size_t(falls) + jumps.size() != 1) return {};
    const size_t from = falls ? behind - 1 : jumps.front();
    if (code[from].name != "jmp") return code[from].target ? std::optional(from) : std::nullopt;
    first = from;
  }
  return {};
}

}  // namespace simt::counting
