// The text that objdump prints of a module, as instructions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace simt::counting {

struct Instruction {
  uint64_t address = 0;
  std::string name;                   ///< "vfmadd213ss", without rep, lock and the like
  std::vector<std::string> operands;  ///< in AT&T order: the destination last
  uint64_t target = 0;                ///< of a jump
  std::string called;                 ///< of a call: the function's name, without @plt; empty where it has none
  uint64_t refers_to = 0;             ///< the address that an operand relative to %rip has; 0: none
  bool ends_block = false;            ///< a jump, a return or the like
};

/// Of each function of a module its instructions: lines such as "  1a2b:	jmp    1a40 <name+0x20>".
std::vector<std::vector<Instruction>> functions_in(std::string_view text);

bool is_move(std::string_view name);
/// Whether it adds or subtracts floating-point numbers.
bool is_sum(const Instruction& instruction);
/// Whether a call reports that a block of code begins.
bool reports_a_block(const Instruction& instruction);
/// Whether a call tells of the division behind it; it changes no register.
bool reports_a_division(const Instruction& instruction);
/// Whether a call only asks where the thread's own variables are, as which g++ keeps __shared__ ones.
bool finds_thread_variables(const Instruction& instruction);

/// An operand in memory: displacement(base,index,scale).
struct Memory {
  bool is_one = false, is_relative = false;  ///< relative: to %rip; Instruction::refers_to says where it is
  int64_t displacement = 0;
  std::string base, index;
  int scale = 1;
};
Memory memory_operand(std::string_view operand);

}  // namespace simt::counting
