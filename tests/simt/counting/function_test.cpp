// The blocks of code of a function that count, and what counts with each.
#include "simt/counting/function.hpp"

#include <gtest/gtest.h>

#include <string>

#include "program.hpp"

namespace simt::counting {
namespace {

/// What the blocks of a function count, in their order.
std::vector<Operations> counted(const std::vector<std::string>& lines) {
  const std::vector<Instruction> code = program(lines);
  Program program;
  add_function(
      code, [](uint64_t) { return 0; }, "", program);
  std::vector<Operations> found;
  for (const Instruction& x : code) {
    if (const auto block = program.blocks.find(x.address); block != program.blocks.end())
      found.push_back(block->second.operations);
  }
  return found;
}

using Counts = std::vector<Operations>;
const Operations none{}, addition{0, 0, 0, 1}, multiply_add{0, 0, 0, 0, 0, 1};

TEST(Function, ABlockCountsWhatLiesBetweenItsReportAndTheNext) {
  EXPECT_EQ(counted({report, "vaddsd %xmm0,%xmm1,%xmm1", report, "vmulsd %xmm1,%xmm2,%xmm2", "ret"}),
            (Counts{addition, {0, 0, 0, 0, 1}}));
}

TEST(Function, WhatSeveralBlocksLeadToCountsWithTheFirstOfThem) {
  const std::vector<std::string> lines = {report,                                 // 0
                                          "test   %eax,%eax",                     // 1
                                          "js     @6",                            // 2
                                          report,                                 // 3
                                          "mov    %rax,%rdi",                     // 4
                                          "nop",                                  // 5
                                          "vfnmadd132sd 0x10(%rsp),%xmm6,%xmm7",  // 6: reports nothing
                                          report,                                 // 7
                                          "ret"};
  EXPECT_EQ(counted(lines), (Counts{multiply_add, none, none}));
  std::vector<std::string> sides = lines;  // none of the two comes before the other
  sides[0] = "js     @3", sides[1] = report, sides[2] = "jmp    @6";
  EXPECT_EQ(counted(sides), (Counts{multiply_add, multiply_add, none}));
  for (const std::string around : {"je     @0", "je     @8"}) {
    std::vector<std::string> other = lines;
    other[5] = around;
    EXPECT_EQ(counted(other), (Counts{multiply_add, multiply_add, none})) << "a way does not lead there: " << around;
  }
  std::vector<std::string> loop = lines;
  loop[7] = "jne    @3";
  loop.insert(loop.begin() + 8, report);
  EXPECT_EQ(counted(loop), (Counts{multiply_add, multiply_add, none})) << "once in each round";
}

TEST(Function, WhatIsTakenOutOfALoopCountsWithItsFirstRoundWhereItMayHaveNone) {
  Program found;
  add_function(
      program({report, "mov    $0x10,%ebx",               // 0, 1
               report, "sub    $0x1,%ebx", "js     @11",  // 2 to 4
               report, "mov    %r13,%rdi",                // 5, 6
               "call   60 <__tsan_read8@plt>", "vmovsd 0x8(%rsp),%xmm7", "vmulsd 0x0(%r13),%xmm7,%xmm1",
               "jmp    @2",  // 9, 10
               report, "ret"}),
      [](uint64_t) { return 0; }, "", found);
  const auto at = [](uint64_t line) { return 0x1000 + 5 * (line + 1); };
  const Block& first = found.blocks.at(at(2));
  EXPECT_EQ(first.guarded.operations, (Operations{0, 0, 0, 0, 1}));
  EXPECT_EQ(first.guarded.header, std::vector{at(2)});
  EXPECT_EQ(first.guarded.inside, std::vector{at(5)});
  for (const auto& [place, block] : found.blocks) {
    EXPECT_EQ(block.operations, none) << place;
    EXPECT_TRUE(block.is_beside_guarded) << place;
  }
  EXPECT_EQ(found.loaded_before, std::unordered_set{at(7)});
}

TEST(Function, OneAdditionBehindABranchCountsBeforeIt) {
  const std::vector<std::string> lines = {report,                           // 0
                                          "test   $0x2,%bl",                // 1
                                          "je     @7",                      // 2
                                          report,                           // 3
                                          "vmovsd 0x8(%rsp),%xmm7",         // 4
                                          "vaddsd 0x68(%rsp),%xmm7,%xmm1",  // 5
                                          "vmovsd %xmm1,0x8(%rsp)",         // 6
                                          report,                           // 7
                                          "ret"};
  EXPECT_EQ(counted(lines), (Counts{addition, none, none}));
  std::vector<std::string> more = lines;
  more[6] = "vaddsd %xmm1,%xmm2,%xmm2";
  EXPECT_EQ(counted(more), (Counts{none, {0, 0, 0, 2}, none})) << "two of them stay";
  more[6] = "imul   %rax,%rbx";
  EXPECT_EQ(counted(more), (Counts{none, addition, none})) << "so does one with other work";
  more[6] = "call   60 <__tsan_write8@plt>";
  EXPECT_EQ(counted(more), (Counts{none, addition, none})) << "or with an access";
  std::vector<std::string> product = lines;
  product[5] = "vmulsd 0x68(%rsp),%xmm7,%xmm1";
  EXPECT_EQ(counted(product), (Counts{none, {0, 0, 0, 0, 1}, none}));
  std::vector<std::string> other = lines;
  other[6] = "ret";
  EXPECT_EQ(counted(other), (Counts{none, addition, none})) << "the ways do not meet behind it";
}

}  // namespace
}  // namespace simt::counting
