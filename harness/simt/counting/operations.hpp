// The floating-point operations of a GPU that nvcc makes of what an instruction of g++ does.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "counting/machine_code.hpp"
#include "counting/values.hpp"

namespace simt::counting {

/// In the order of the counters that they become.
enum class Operation { fadd, fmul, ffma, dadd, dmul, dfma };
inline constexpr std::array<std::string_view, 6> operation_names = {"fadd", "fmul", "ffma", "dadd", "dmul", "dfma"};
using Operations = std::array<uint32_t, operation_names.size()>;
void add(Operations& to, const Operations& its);

/// What the routine for a division of doubles takes in addition where the numerator is 0.
inline constexpr Operations more_for_zero_dividend = {0, 0, 0, 0, 1, 8};

/// Those of one instruction of a function, whose operands have the values that are known before it.
Operations operations_of(const std::vector<Instruction>& code, size_t index, const Values& values,
                         const ReadConstant& read);

/// The same where an addition has become a multiply-add.
Operations multiply_add_for(Operations addition);

/// Whether it is a product with a constant that is a power of two: unless it underflows, nothing is rounded in it.
bool is_times_power_of_two(const Instruction& x, const ReadConstant& read);

/// Of a negation that one side of a branch begins with, the branch: nvcc negates first and then chooses.
std::optional<size_t> branch_before(const std::vector<Instruction>& code, size_t index);

}  // namespace simt::counting
