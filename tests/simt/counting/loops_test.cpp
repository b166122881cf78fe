// What the counter reads off the loops of g++'s machine code: operations that nvcc takes out of them, and loops that it
// unrolls.
#include <gtest/gtest.h>

#include <string>

#include "program.hpp"
#include "simt/counting/invariants.hpp"
#include "simt/counting/text/pragmas.hpp"

namespace simt::counting {
namespace {

/// The lines of additions and multiplications that are moved, and where to.
std::vector<std::pair<size_t, size_t>> moved(const std::vector<std::string>& lines) {
  const std::vector<Instruction> code = program(lines);
  const Invariants invariants(code,
                              [&](size_t i) { return code[i].name.substr(0, 4) != "vmov" && code[i].name[0] == 'v'; });
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t i = 0; i < code.size(); ++i) {
    if (const auto to = invariants.moved_to(i)) found.emplace_back(i, *to);
  }
  return found;
}

using Moves = std::vector<std::pair<size_t, size_t>>;

TEST(Invariants, AProductOfWhatTheLoopDoesNotChangeIsMovedOutOfIt) {
  const std::vector<std::string> lines = {report,                           // 0
                                          "mov    $0x10,%ebx",              // 1
                                          report,                           // 2: the loop
                                          "vmovsd 0x38(%rsp),%xmm0",        // 3
                                          "vmulsd 0x40(%rsp),%xmm0,%xmm1",  // 4
                                          "vaddsd %xmm1,%xmm2,%xmm2",       // 5: a sum over the rounds
                                          "sub    $0x1,%ebx",               // 6
                                          "jne    @2",                      // 7
                                          "ret"};
  EXPECT_EQ(moved(lines), (Moves{{4, 1}}));
  std::vector<std::string> changed = lines;
  changed[5] = "vmovsd %xmm1,0x40(%rsp)";
  EXPECT_EQ(moved(changed), Moves{}) << "a factor is the product of the round before";
}

TEST(Invariants, AFactorThatIsOneOfTwoIsTheSameWhereTheBranchIs) {
  const auto lines = [](const std::string& compared) {
    return std::vector<std::string>{report,                           // 0
                                    "mov    $0x10,%ebx",              // 1
                                    report,                           // 2: the loop
                                    "mov    $0x1f4,%ebp",             // 3
                                    "cmp    $0x5," + compared,        // 4
                                    "jl     @8",                      // 5
                                    report,                           // 6
                                    "mov    $0x0,%ebp",               // 7
                                    report,                           // 8
                                    "vmovd  %ebp,%xmm0",              // 9
                                    "vmulsd 0x40(%rsp),%xmm0,%xmm1",  // 10
                                    "sub    $0x1,%ebx",               // 11
                                    "jne    @2",                      // 12
                                    "ret"};
  };
  EXPECT_EQ(moved(lines("0x30(%rsp)")), (Moves{{10, 1}}));
  EXPECT_EQ(moved(lines("%ebx")), Moves{}) << "the branch goes by the round";
}

TEST(Invariants, WhatAnOperationThatStaysGivesIsNotTheSame) {
  EXPECT_EQ(moved({report, "mov    $0x10,%ebx", report, "vmovsd 0x38(%rsp),%xmm0", "vfmadd213sd 0x40(%rsp),%xmm3,%xmm0",
                   "vaddsd %xmm0,%xmm0,%xmm1", "sub    $0x1,%ebx", "jne    @2", "ret"}),
            Moves{})
      << "multiply-adds stay, as nvcc leaves those that the text rounds by itself";
}

TEST(Invariants, AnOperationIsMovedInFrontOfTheLoopBeforeToo) {
  EXPECT_EQ(moved({report, "mov    $0x4,%ecx",               // 0, 1
                   report, "sub    $0x1,%ecx", "jne    @2",  // 2 to 4: a loop that ends in front of it
                   report, "vmovsd 0x38(%rsp),%xmm3", "vmulsd 0x40(%rsp),%xmm3,%xmm1", "sub    $0x1,%ebx", "jne    @5",
                   "ret"}),
            (Moves{{7, 1}}));
}

TEST(Invariants, AnOperationStaysWhereLanesMayPassTheLoopBy) {
  EXPECT_EQ(moved({report, "cmp    $0x4,%ecx", "jl     @8",  // 0 to 2
                   report, "vmovsd 0x38(%rsp),%xmm3", "vmulsd 0x40(%rsp),%xmm3,%xmm1", "sub    $0x1,%ebx",
                   "jne    @3",  // 3 to 6
                   report, "ret"}),
            Moves{});
}

TEST(Invariants, AWholeNumberThatIsConvertedHasItsOwnBytes) {
  const auto lines = [](const std::string& convert, const std::string& written) {
    return std::vector<std::string>{report,
                                    "mov    $0x10,%ebx",  // 0, 1
                                    report,
                                    "vxorps %xmm6,%xmm6,%xmm6",  // 2, 3: the loop
                                    convert,
                                    "vmulsd 0x60(%rsp),%xmm0,%xmm1",  // 4, 5
                                    "mov    %ebx," + written,         // 6
                                    "sub    $0x1,%ebx",               // 7
                                    "jne    @2",
                                    "ret"};
  };
  const Moves all = {{3, 1}, {4, 1}, {5, 1}};
  EXPECT_EQ(moved(lines("vcvtsi2sdl 0x30(%rsp),%xmm6,%xmm0", "0x34(%rsp)")), all);
  EXPECT_EQ(moved(lines("vcvtsi2sdl 0x30(%rsp),%xmm6,%xmm0", "0x30(%rsp)")), (Moves{{3, 1}}));
  EXPECT_EQ(moved(lines("vcvtsi2sdq 0x30(%rsp),%xmm6,%xmm0", "0x34(%rsp)")), (Moves{{3, 1}})) << "8 bytes";
  EXPECT_EQ(moved(lines("vcvtss2sd 0x30(%rsp),%xmm6,%xmm0", "0x34(%rsp)")), all) << "a float";
}

TEST(Invariants, AFramePointerPointsToTheStack) {
  const auto lines = [](const std::string& written) {
    return std::vector<std::string>{report,
                                    "push   %rbp",  // 0, 1
                                    "mov    %rsp,%rbp",
                                    "sub    $0x40,%rsp",  // 2, 3
                                    report,
                                    "vmovsd -0x38(%rbp),%xmm0",  // 4, 5: the loop
                                    "vmulsd 0x10(%rbp),%xmm0,%xmm1",
                                    "mov    %rax," + written,  // 6, 7
                                    "sub    $0x20,%rsp",
                                    "call   60 <f>",
                                    "add    $0x20,%rsp",  // 8 to 10
                                    "sub    $0x1,%ebx",
                                    "jne    @4",
                                    "ret"};
  };
  EXPECT_EQ(moved(lines("-0x30(%rbp)")), (Moves{{6, 3}})) << "arguments in the stack come and go below it";
  EXPECT_EQ(moved(lines("-0x38(%rbp)")), Moves{});
}

/// The lines of loads that count once for all rounds.
std::vector<size_t> loaded_before(const std::vector<std::string>& lines) {
  const std::vector<Instruction> code = program(lines);
  const Invariants invariants(code, [](size_t) { return false; });
  std::vector<size_t> found;
  for (size_t i = 0; i < code.size(); ++i) {
    if (invariants.is_loaded_before(i)) found.push_back(i);
  }
  return found;
}

TEST(Invariants, ALoadFromOneAddressIsTakenOutOfALoopThatStoresNothing) {
  // A binary search: g++ goes back to line 4 on one side of the branch, and to line 3 on the other.
  const std::vector<std::string> lines = {report,                          // 0
                                          "mov    $0x0,%ebx",              // 1
                                          "mov    %rsi,%r13",              // 2
                                          "nop",                           // 3: the outer loop
                                          report,                          // 4: the inner one
                                          "cmp    %ebx,%ebp",              // 5
                                          "jle    @17",                    // 6
                                          report,                          // 7
                                          "lea    (%r12,%rbx,8),%rdi",     // 8: the middle
                                          "call   60 <__tsan_read8@plt>",  // 9
                                          "mov    %r13,%rdi",              // 10: the target
                                          "call   60 <__tsan_read8@plt>",  // 11
                                          "vmulsd 0x0(%r13),%xmm7,%xmm1",  // 12
                                          "lea    0x1(%rbx),%ebx",         // 13
                                          "vucomisd (%r12,%rbx,8),%xmm1",  // 14
                                          "ja     @4",                     // 15
                                          "jmp    @3",                     // 16
                                          report,                          // 17
                                          "ret"};
  EXPECT_EQ(loaded_before(lines), std::vector<size_t>{11});
  const auto with = [&](size_t at, const std::string& line) {
    std::vector<std::string> other = lines;
    other[at] = line;
    return loaded_before(other);
  };
  const std::vector<size_t> none;
  EXPECT_EQ(with(14, "call   60 <__tsan_write8@plt>"), none) << "it stores";
  EXPECT_EQ(with(14, "call   60 <simt_block_barrier@plt>"), none) << "others may have stored";
  EXPECT_EQ(with(14, "call   60 <simt_count_atomic@plt>"), none);
  EXPECT_EQ(with(3, "call   60 <__tsan_write8@plt>"), std::vector<size_t>{11}) << "around the loop";
  EXPECT_EQ(with(10, "lea    0x8(%r13,%rbx,8),%rdi"), none) << "another address in each round";
  EXPECT_EQ(with(8, "jg     @13"), none) << "not in each round";
}

TEST(Invariants, AProductOfWhatIsLoadedFromOneAddressIsMovedOutOfTheLoop) {
  const auto lines = [](const std::string& between) {
    return std::vector<std::string>{report,
                                    "mov    $0x10,%ebx",  // 0, 1
                                    report,
                                    "mov    %r13,%rdi",  // 2, 3: the loop
                                    "call   60 <__tsan_read8@plt>",
                                    "vmovsd 0x8(%rsp),%xmm7",
                                    "vmulsd 0x0(%r13),%xmm7,%xmm1",
                                    between,  // 6, 7
                                    "sub    $0x1,%ebx",
                                    "jne    @2",
                                    "ret"};
  };
  EXPECT_EQ(moved(lines("nop")), (Moves{{6, 1}}));
  EXPECT_EQ(moved(lines("call   60 <__tsan_write8@plt>")), Moves{});
}

TEST(Invariants, NvccAsksWhetherALoopHasARoundBeforeWhatItTakesOutOfIt) {
  const auto guarded = [](const std::vector<std::string>& lines) {
    const std::vector<Instruction> code = program(lines);
    const Invariants invariants(code, [&](size_t i) { return code[i].name == "vmulsd"; });
    std::vector<std::vector<size_t>> found;
    for (size_t i = 0; i < code.size(); ++i) {
      if (const auto* loop = invariants.guarded_by(i)) found.insert(found.end(), {loop->header, loop->inside});
    }
    return found;
  };
  const std::string product = "vmulsd 0x38(%rsp),%xmm3,%xmm1", constant = "vmovsd 0x30(%rsp),%xmm3";
  using Blocks = std::vector<std::vector<size_t>>;
  EXPECT_EQ(guarded({report, "mov    $0x10,%ebx",                       // 0, 1
                     report, "sub    $0x1,%ebx", report, "js     @10",  // 2 to 5: the loop's first block
                     report, constant, product, "jmp    @2",            // 6 to 9
                     report, "ret"}),
            (Blocks{{2, 4}, {6}}));
  EXPECT_EQ(guarded({report, "mov    $0x10,%ebx", report, constant, product, "sub    $0x1,%ebx", "js     @9", report,
                     "jmp    @2", report, "ret"}),
            Blocks{})
      << "in the first block itself";
  EXPECT_EQ(guarded({report, "mov    $0x10,%ebx", report, "test   %eax,%eax", "je     @6", report, report, constant,
                     product, "sub    $0x1,%ebx", "jne    @2", report, "ret"}),
            Blocks{})
      << "at the end of a round";
}

TEST(Invariants, WhatFillsUpALineBehindAJumpIsNoWayIntoALoop) {
  const std::vector<std::string> lines = {report,
                                          "mov    $0x10,%ebx",
                                          "test   %eax,%eax",
                                          "je     @7",  // 0 to 3
                                          report,
                                          "ret",               // 4, 5
                                          "nopl   0x0(%rax)",  // 6
                                          report,
                                          "vmovsd 0x38(%rsp),%xmm0",  // 7: the loop
                                          "sub    $0x1,%ebx",
                                          "jne    @7",
                                          report,
                                          "ret"};
  const auto found = Invariants(program(lines), [](size_t) { return false; }).unrolled();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].before.begin, 0u);
  EXPECT_EQ(found[0].before.end, 4u);
}

/// The lines of products with those of the additions that take them.
std::vector<std::pair<size_t, std::vector<size_t>>> fused(const std::vector<std::string>& lines,
                                                          bool are_exact = false) {
  const std::vector<Instruction> code = program(lines);
  const Invariants invariants(code, [](size_t) { return false; });
  std::vector<std::pair<size_t, std::vector<size_t>>> found;
  for (const Invariants::Fused& one : invariants.fused([&](size_t) { return are_exact; }))
    found.emplace_back(one.product, one.additions);
  return found;
}

using Fusions = std::vector<std::pair<size_t, std::vector<size_t>>>;

TEST(Fused, AProductThatOnlyAdditionsOfOtherBlocksUse) {
  const std::vector<std::string> lines = {report,                           // 0
                                          "vmulss 0x40(%rsp),%xmm0,%xmm6",  // 1
                                          "vmovss %xmm6,0x50(%rsp)",        // 2
                                          report,                           // 3: a loop
                                          "vmovss 0x50(%rsp),%xmm5",        // 4
                                          "vaddss 0x8(%rsp),%xmm5,%xmm1",   // 5
                                          "call   60 <simt_warp@plt>",      // 6: it takes no floating-point numbers
                                          "vsubss 0x50(%rsp),%xmm2,%xmm2",  // 7
                                          "sub    $0x1,%ebx",               // 8
                                          "jne    @3",                      // 9
                                          report,
                                          "ret"};
  EXPECT_EQ(fused(lines), (Fusions{{1, {5, 7}}}));
  const auto with = [&](size_t at, const std::string& line) {
    std::vector<std::string> other = lines;
    other[at] = line;
    return fused(other);
  };
  EXPECT_EQ(with(7, "vmulss 0x50(%rsp),%xmm2,%xmm2"), Fusions{}) << "a factor of another product";
  EXPECT_EQ(with(7, "vucomiss 0x50(%rsp),%xmm2"), Fusions{}) << "it is compared";
  EXPECT_EQ(with(7, "vmovss %xmm5,(%rbx)"), (Fusions{{1, {5}}})) << "a call has changed the register";
  EXPECT_EQ(with(6, "vmovss %xmm5,(%rbx)"), Fusions{}) << "it is stored";
  EXPECT_EQ(with(6, "call   60 <expf@plt>"), Fusions{}) << "it may be an argument";
  EXPECT_EQ(with(7, "vaddsd 0x50(%rsp),%xmm2,%xmm2"), Fusions{}) << "as a double";
  EXPECT_EQ(with(5, "vaddss %xmm5,%xmm5,%xmm1"), Fusions{}) << "twice the product";
  EXPECT_EQ(with(8, "vmovss %xmm2,0x50(%rsp)"), Fusions{}) << "in later rounds it is another number";
}

TEST(Fused, NotInItsOwnBlockWhereTheTextMayRoundIt) {
  EXPECT_EQ(fused({report, "vmulsd %xmm1,%xmm2,%xmm3", "vaddsd %xmm3,%xmm4,%xmm4", "call   60 <f>", "ret"}), Fusions{});
  EXPECT_EQ(fused({report, "vmulsd %xmm1,%xmm2,%xmm3", "vmovsd %xmm3,0x8(%rsp)", report, "vaddsd 0x8(%rsp),%xmm4,%xmm4",
                   "call   60 <f>", "ret"}),
            (Fusions{{1, {4}}}))
      << "blocks of the text, though no branch is left between them";
}

TEST(Fused, InItsOwnBlockWhereItRoundsNothing) {
  const auto lines = [](const std::string& use) {
    return std::vector<std::string>{
        report, "vmulss 0x10(%rip),%xmm2,%xmm3", "vsubss %xmm3,%xmm4,%xmm5", use, "call   60 <f>", "ret"};
  };
  const std::string nothing = "vmovss %xmm5,%xmm3";
  EXPECT_EQ(fused(lines(nothing), true), (Fusions{{1, {2}}}));
  EXPECT_EQ(fused(lines(nothing), false), Fusions{});
  EXPECT_EQ(fused(lines("vmovss %xmm3,(%rbx)"), true), Fusions{}) << "it is stored, too";
}

TEST(Fused, AnAdditionTakesOneProduct) {
  const std::string keep = "vmovsd %xmm3,0x8(%rsp)", other = "vmovsd %xmm3,0x10(%rsp)";
  EXPECT_EQ(fused({report, "vmulsd %xmm1,%xmm2,%xmm3", keep, "vmulsd %xmm5,%xmm2,%xmm3", other, report,
                   "vmovsd 0x8(%rsp),%xmm9", "vaddsd 0x10(%rsp),%xmm9,%xmm4", "call   60 <f>", "ret"}),
            (Fusions{{1, {7}}}));
}

/// The lines of products of the same operands, and the line that they are computed behind.
using Repetitions = std::vector<std::pair<std::vector<size_t>, size_t>>;
Repetitions repeated(const std::vector<std::string>& lines) {
  Repetitions found;
  for (const auto& one : Invariants(program(lines), [](size_t) { return false; }).repeated())
    found.emplace_back(one.products, one.before);
  return found;
}

TEST(Repeated, AProductThatSeveralRoundsTakeABranchTo) {
  const std::vector<std::string> lines = {report,                           // 0
                                          "vmovss %xmm5,0x20(%rsp)",        // 1
                                          "jne    @7",                      // 2
                                          report,                           // 3: one round's side
                                          "vmovss 0x10(%rsp),%xmm0",        // 4
                                          "vmulss 0x20(%rsp),%xmm0,%xmm1",  // 5
                                          "vmulss %xmm1,%xmm6,%xmm1",       // 6
                                          report,                           // 7
                                          "call   60 <fmaxf@plt>",          // 8
                                          "jne    @14",                     // 9
                                          report,                           // 10: another's
                                          "vmovss 0x20(%rsp),%xmm9",        // 11
                                          "vmulss 0x10(%rsp),%xmm9,%xmm3",  // 12
                                          "vmulss %xmm3,%xmm6,%xmm3",       // 13
                                          report,                           // 14
                                          "ret"};
  EXPECT_EQ(repeated(lines), (Repetitions{{{5, 12}, 2}})) << "of the call's registers nothing is known";
  std::vector<std::string> kept = lines;
  kept[6] = "vmulss 0x30(%rsp),%xmm1,%xmm1", kept[13] = "vmulss 0x30(%rsp),%xmm3,%xmm3";
  EXPECT_EQ(repeated(kept).size(), 2u) << "a product of the same product, too";
  std::vector<std::string> changed = lines;
  changed[8] = "vmovss %xmm8,0x20(%rsp)";
  EXPECT_EQ(repeated(changed).size(), 0u) << "a factor is another number";
  changed[8] = "vmovsd %xmm8,0x1c(%rsp)";
  EXPECT_EQ(repeated(changed).size(), 0u) << "or a part of it";
}

TEST(Repeated, NotOfWhatDiffersByTheWayToIt) {
  std::vector<std::string> lines = {report,                          // 0
                                    "vmovss 0x8(%rsp),%xmm5",        // 1
                                    "vmulss 0xc(%rsp),%xmm5,%xmm1",  // 2
                                    "jne    @5",                     // 3
                                    "vmovss %xmm7,0xc(%rsp)",        // 4
                                    report,                          // 5
                                    "vmovss 0x8(%rsp),%xmm5",        // 6
                                    "vmulss 0xc(%rsp),%xmm5,%xmm2",  // 7
                                    "ret"};
  EXPECT_EQ(repeated(lines), Repetitions{});
  lines[4] = "nop";
  EXPECT_EQ(repeated(lines), (Repetitions{{{2, 7}, 3}})) << "the first comes before the other";
  lines[4] = "jne    @0";
  EXPECT_EQ(repeated(lines), (Repetitions{{{2, 7}, 3}})) << "in a loop";
  // A loop that changes a factor: behind it that is another number.
  EXPECT_EQ(repeated({report, report, lines[1], lines[2], "vmovss %xmm1,0xc(%rsp)", "jne    @1", report, lines[1],
                      lines[2], "ret"}),
            Repetitions{});
}

/// By how much; 0: not.
size_t unrolled(const std::vector<std::string>& inside, const std::string& step = "$0x20") {
  std::vector<std::string> lines = {report, report};
  lines.insert(lines.end(), inside.begin(), inside.end());
  lines.insert(lines.end(), {"add    " + step + ",%ebx", "cmp    %ebp,%ebx", "jl     @1", report, "ret"});
  const auto found = Invariants(program(lines), [](size_t) { return false; }).unrolled();
  return found.empty() ? 0 : found.front().by;
}

TEST(Loops, TheirEndMayBeCopiedFromTheStackInEachRound) {
  const auto by = [](const std::string& inside) {
    const auto found = Invariants(program({report, report, inside, "add    $0x20,%ebp", "mov    0xcc(%rsp),%eax",
                                           "cmp    %eax,%ebp", "jl     @1", report, "ret"}),
                                  [](size_t) { return false; })
                           .unrolled();
    return found.empty() ? 0 : found.front().by;
  };
  EXPECT_EQ(by("nop"), 4u);
  EXPECT_EQ(by("mov    %ecx,0xcc(%rsp)"), 0u) << "it is not the same in all rounds";
}

TEST(Loops, ShortOnesWithoutBarriersAreUnrolled) {
  EXPECT_EQ(unrolled({"mov    %rbx,%rdi", "call   60 <__tsan_read4@plt>", "mov    (%rbx),%eax"}), 4u);
  EXPECT_EQ(unrolled({}), 4u);
  EXPECT_EQ(unrolled({}, "%ecx"), 0u) << "how often it runs would take a division";
  EXPECT_EQ(unrolled({"call   60 <simt_warp@plt>"}), 0u);
  EXPECT_EQ(unrolled({"call   60 <simt_count_atomic@plt>"}), 0u);
  EXPECT_EQ(unrolled(std::vector<std::string>(50, "add    $0x1,%ecx")), 2u) << "a longer one";
  std::vector<std::string> spilled(50, "add    $0x1,%ecx");
  spilled.resize(100, "mov    %ecx,0x18(%rsp)");
  EXPECT_EQ(unrolled(spilled), 2u) << "nvcc has registers for what g++ keeps in the stack";
  EXPECT_EQ(unrolled(std::vector<std::string>(100, "add    $0x1,%ecx")), 1u) << "a long one";
  EXPECT_EQ(unrolled({"cmp    $0x5,%ecx", "jg     @7"}), 0u) << "a second way out";
}

TEST(Loops, OfABranchThatGoesTheSameWayInAllRoundsTheLongerSideCounts) {
  const auto by = [](const std::string& compared, const std::string& inside = "nop") {
    std::vector<std::string> lines = {report,      report, inside, "mov    0x60(%rsp),%ecx", "test   " + compared,
                                      "jne    @33"};
    lines.resize(31, "add    $0x1,%edx");
    lines.insert(lines.end(), {"nop", "jmp    @58"});  // 31, 32
    lines.resize(58, "add    $0x2,%edx");
    lines.insert(lines.end(), {"add    $0x20,%ebx", "cmp    %ebp,%ebx", "jl     @1", report, "ret"});
    const auto found = Invariants(program(lines), [](size_t) { return false; }).unrolled();
    return found.empty() ? 0 : found.front().by;
  };
  EXPECT_EQ(by("%ecx,%ecx"), 4u);
  EXPECT_EQ(by("%r12d,%r12d"), 4u) << "a register";
  EXPECT_EQ(by("%edx,%edx"), 2u) << "what the loop changes";
  EXPECT_EQ(by("%ecx,%ecx", "mov    %edx,0x60(%rsp)"), 2u);
}

/// How many loops, behind a call of an atomic that returns a number and `before`.
size_t yielding(const std::vector<std::string>& before, const std::string& inside = "call   90 <simt_count_atomic@plt>",
                const std::string& end = "%ebp") {
  std::vector<std::string> lines = {"call   90 <simt_count_atomic@plt>", "call   80 <fetch_add>"};
  lines.insert(lines.end(), before.begin(), before.end());
  while (lines.size() < 10) lines.push_back("nop");
  lines.insert(lines.end(), {report, inside, "add    $0x20,%ebx", "cmp    " + end + ",%ebx", "jl     @10", "ret"});
  return Invariants(program(lines), [](size_t) { return false; }).yielding().size();
}

TEST(Loops, TheyYieldWhereABranchGoesByWhatAnAtomicReturned) {
  const std::vector<std::string> branch = {"cmp    $0x3,%eax", "je     @10"};
  const auto and_then = [&](std::vector<std::string> lines) {
    lines.insert(lines.begin(), branch.begin(), branch.end());
    return lines;
  };
  EXPECT_EQ(yielding(branch), 1u);
  EXPECT_EQ(yielding(branch, "nop"), 0u) << "no atomic in it";
  EXPECT_EQ(yielding({"mov    %eax,(%rbx)"}), 0u) << "no branch";
  EXPECT_EQ(yielding({"cmp    $0x3,%ecx", "je     @10"}), 0u) << "a branch by another number";
  EXPECT_EQ(yielding(and_then({"call   70 <simt_block_barrier@plt>"})), 1u) << "the branch leads around the barrier";
  EXPECT_EQ(yielding({"cmp    $0x3,%eax", "je     @4", "nop", "nop", "call   70 <simt_block_barrier@plt>"}), 0u);
  EXPECT_EQ(yielding({"mov    %eax,%edx", "call   70 <simt_warp@plt>", "cmp    $0x3,%eax", "je     @10"}), 1u)
      << "what the lanes told each other";
  EXPECT_EQ(yielding({"mov    (%rcx,%rax,4),%edx", "test   %edx,%edx", "je     @10"}), 1u) << "from a list";
  EXPECT_EQ(yielding({"mov    %eax,0x18(%rsp)", "call   70 <simt_block_barrier@plt>"}, branch[0], "%ecx"), 0u);
  EXPECT_EQ(yielding({"mov    %eax,0x18(%rsp)", "call   70 <simt_block_barrier@plt>"},
                     "call   90 <simt_count_atomic@plt>", "0x18(%rsp)"),
            1u)
      << "its own end";
}

TEST(Loops, TheTextSaysByHowMuchTheyAreUnrolled) {
  const std::vector<std::string> text = {"#pragma unroll 2  // registers are few",       // 1
                                         "  for (int f = lane; f < d; f += 32) {",       // 2
                                         "    const auto difference = point[f] - c;",    // 3
                                         "    sum += difference * difference;",          // 4
                                         "    count += 1;",                              // 5
                                         "  for (int f = lane; f < d; f += 32) ++sum;",  // 6
                                         "#pragma unroll",                               // 7
                                         "  for (int f = lane; f < d; f += 32) ++sum;"};
  bool is_loop = false;
  EXPECT_EQ(told_in(text, 4, is_loop), 2u);
  EXPECT_TRUE(is_loop);
  EXPECT_EQ(told_in(text, 5, is_loop), 0u);
  EXPECT_FALSE(is_loop) << "too far away";
  EXPECT_EQ(told_in(text, 6, is_loop), 0u);
  EXPECT_TRUE(is_loop) << "nothing is said of it";
  EXPECT_EQ(told_in(text, 8, is_loop), 0u) << "as far as the compiler likes";
}

}  // namespace
}  // namespace simt::counting
