// What the counter reads off g++'s machine code: which accesses nvcc joins, and what it makes of arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <string>

#include "lessons/access_alignments.hpp"
#include "simt/counting/joins.hpp"
#include "simt/counting/machine_code.hpp"
#include "simt/counting/operations.hpp"
#include "simt/counting/values.hpp"

namespace simt::counting {
namespace {

/// Lines of assembler text as objdump prints them, an instruction every 5 bytes, from 0x1000 on.
std::string disassembly(const std::vector<std::string>& lines) {
  std::string text = "0000000000001000 <kernel>:\n";
  uint64_t address = 0x1000;
  for (const std::string& line : lines) {
    char number[32];
    std::snprintf(number, sizeof number, "    %lx:\t", address);
    text += number + line + "\n";
    address += 5;
  }
  return text + "\n";
}

struct Found {
  std::unordered_map<uint64_t, Parts> joins;
  Operations operations{};
};

Found look_at(const std::vector<std::string>& lines, const std::map<uint64_t, uint64_t>& constants = {}) {
  const ReadConstant read = [&](uint64_t address) { return constants.contains(address) ? constants.at(address) : 0; };
  const auto functions = functions_in(disassembly(lines));
  EXPECT_EQ(functions.size(), 1u);
  const std::vector<Instruction>& code = functions.at(0);
  Found found;
  Values values(code, read);
  Joins joins(found.joins);
  values.for_each(
      [&](size_t i) {
        joins.visit(code, i, values);
        add(found.operations, operations_of(code, i, values, read));
      },
      [&](size_t) { joins.begin(); });
  joins.begin();
  return found;
}

/// The bytes of the instructions that the accesses become, in their order: 4 4 4 4 -> 16.
std::vector<int> bytes(const std::vector<std::string>& lines) {
  const Found found = look_at(lines);
  std::vector<int> all;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t at = std::min(lines[i].find("__tsan_read"), lines[i].find("__tsan_write"));
    if (at == std::string::npos) continue;
    const auto parts = found.joins.find(0x1000 + 5 * i + 5);
    if (parts == found.joins.end()) continue;
    for (const Part& part : parts->second) all.push_back(1 << part.size_log2);
  }
  return all;
}

using Lines = std::vector<std::string>;
Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::string read4 = "call   30a0 <__tsan_read4@plt>", write4 = "call   30b0 <__tsan_write4@plt>";
const Lines shared_in_rbx = {"call   3000 <simt_dynamic_shared@plt>", "mov    %rax,%rbx"};

/// Loads of floats at these offsets from %rbx.
Lines loads(const std::vector<std::string>& offsets) {
  Lines lines;
  for (const std::string& offset : offsets) lines = lines + Lines{"lea    " + offset + "(%rbx),%rdi", read4};
  return lines;
}

TEST(MachineCode, IsReadFromObjdumpsText) {
  const auto functions = functions_in(
      "\nDisassembly of section .text:\n\n0000000000001120 <f>:\n    1120:\tvmovss 0x12(%rip),%xmm1        # 2040 <x>\n"
      "    1128:\tlea    -0x8(%rax,%rcx,4),%rdi\n    112d:\tcall   3050 <__tsan_read4@plt>\n    1132:\tjne    1120 "
      "<f>\n"
      "\n0000000000001140 <g>:\n    1140:\tret\n");
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0][0].refers_to, 0x2040u);
  EXPECT_TRUE(memory_operand(functions[0][0].operands[0]).is_relative);
  const Memory memory = memory_operand(functions[0][1].operands.at(0));
  EXPECT_EQ(memory.displacement, -8);
  EXPECT_EQ(memory.base + memory.index, "%rax%rcx");
  EXPECT_EQ(memory.scale, 4);
  EXPECT_EQ(functions[0][2].called, "__tsan_read4");
  EXPECT_EQ(functions[0][3].target, 0x1120u);
  EXPECT_TRUE(functions[1][0].ends_block);
}

TEST(Joins, NeighbouringLoadsOfAlignedSharedMemoryAreOne) {
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x0", "0x4", "0x8", "0xc"})), std::vector{16});
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x0", "0x4", "0x8", "0xc", "0x10", "0x14", "0x18"})), (std::vector{16, 16}))
      << "three of four";
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x4", "0x8", "0xc", "0x10"})), (std::vector{16, 4})) << "from 4 on";
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x4", "0x8", "0x10"})), (std::vector{4, 4, 4})) << "two of four";
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x0", "0x8", "0x10", "0x18"})), (std::vector{4, 4, 4, 4})) << "with gaps";
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0xc", "0x8", "0x4", "0x0"})), std::vector{16}) << "backwards";
}

TEST(Joins, TheFirstAccessOfTheProgramCountsAtTheLowestAddress) {
  const Lines lines = shared_in_rbx + loads({"0x8", "0x0", "0x4", "0xc"});
  const Parts parts = look_at(lines).joins.at(0x1000 + 5 * 4);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].shift, -8);
}

TEST(Joins, ALoadWhoseAlignmentIsNotProvenStaysAlone) {
  const std::vector apart = {4, 4, 4, 4};
  EXPECT_EQ(bytes(loads({"0x0", "0x4", "0x8", "0xc"})), apart) << "a parameter";
  EXPECT_EQ(bytes(shared_in_rbx + Lines{"lea    (%rbx,%rcx,4),%rbx"} + loads({"0x0", "0x4", "0x8", "0xc"})), apart)
      << "any float of it";
  EXPECT_EQ(bytes(shared_in_rbx + Lines{"lea    (%rbx,%rcx,8),%rbx"} + loads({"0x0", "0x4", "0x8", "0xc"})),
            (std::vector{8, 8}))
      << "every second";
  EXPECT_EQ(
      bytes(shared_in_rbx + Lines{"imul   $0x50,%rcx,%rcx", "add    %rcx,%rbx"} + loads({"0x0", "0x4", "0x8", "0xc"})),
      std::vector{16})
      << "rows of 80 bytes";
}

TEST(Joins, TwiceANumberIsEven) {
  const Lines two = loads({"0x0", "0x4"});
  const auto behind = [&](const Lines& address) { return bytes(shared_in_rbx + address + two); };
  const std::vector joined = {8}, apart = {4, 4};
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "add    %rcx,%rbx"}), apart) << "any float of it";
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "add    %rcx,%rbx", "add    %rcx,%rbx"}), joined);
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "lea    0x4(%rcx,%rbx,1),%rbx", "lea    -0x4(%rbx,%rcx,1),%rbx"}), joined);
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "lea    0x4(%rcx,%rbx,1),%rbx", "add    %rcx,%rbx"}), apart) << "and 4 more";
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "add    %rcx,%rcx", "add    %rcx,%rbx"}), joined);
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "lea    0x4(%rcx),%rdx", "add    %rdx,%rcx", "add    %rcx,%rbx"}), apart)
      << "the number and the next one";
  EXPECT_EQ(behind({"shl    $0x2,%rcx", "shl    $0x2,%rdx", "add    %rcx,%rbx", "add    %rdx,%rbx"}), apart);
}

TEST(Joins, AlignmentIsKnownThroughALoopAndTheStack) {
  const Lines loop = {"mov    %rbx,0x18(%rsp)", "call   3300 <__sanitizer_cov_trace_pc@plt>", "mov    0x18(%rsp),%rbx",
                      "nop", "nop"};
  const auto in_loop = [&](const std::string& step) {
    return bytes(shared_in_rbx + loop + loads({"0x0", "0x4", "0x8", "0xc"}) +
                 Lines{"add    $" + step + ",%rbx", "mov    %rbx,0x18(%rsp)", "jne    100f <kernel+0xf>", "ret"});
  };
  EXPECT_EQ(in_loop("0x50"), std::vector{16});
  EXPECT_EQ(in_loop("0x54"), (std::vector{4, 4, 4, 4})) << "rows of 84 bytes";
}

TEST(Joins, OfConstantsThatMeetBehindABranchNothingIsKnown) {
  const auto behind = [](const std::string& one, const std::string& other) {
    return bytes(shared_in_rbx +
                 Lines{"test   %eax,%eax", "je     1023 <kernel+0x23>", "mov    " + one + ",%r12d", "imul   %r14,%r14",
                       "jmp    1028 <kernel+0x28>", "mov    " + other + ",%r12d",
                       "call   3300 <__sanitizer_cov_trace_pc@plt>", "add    %r12,%rbx"} +
                 loads({"0x0", "0x4", "0x8", "0xc"}));
  };
  EXPECT_EQ(behind("$0x20", "$0x20"), std::vector{16});
  EXPECT_EQ(behind("$0x20", "$0x10"), (std::vector{4, 4, 4, 4}));
  const auto counter = [](const std::string& step) {
    return bytes(shared_in_rbx +
                 Lines{"mov    %rbx,%r13", "mov    $0x0,%r12d", "call   3300 <__sanitizer_cov_trace_pc@plt>",
                       "lea    0x0(%r13,%r12,1),%rbx"} +
                 loads({"0x0", "0x4", "0x8", "0xc"}) +
                 Lines{"add    $" + step + ",%r12", "jne    1014 <kernel+0x14>", "ret"});
  };
  EXPECT_EQ(counter("0x10"), std::vector{16}) << "a loop's counter is no such case";
  EXPECT_EQ(counter("0x14"), (std::vector{4, 4, 4, 4}));
}

/// A loop over floats in shared memory, from number `from` of them on: the bytes that each load of several rounds has.
std::vector<int> bytes_of_rounds(const std::string& from, const Lines& inside, const std::string& step = "0x1",
                                 size_t by = 4) {
  const std::string report = "call   3300 <__sanitizer_cov_trace_pc@plt>";
  const Lines before = shared_in_rbx + Lines{"mov    " + from + ",%r12d", report};
  const Lines body = Lines{report, "movslq %r12d,%rax", "lea    (%rbx,%rax,4),%rdi", read4} + inside;
  const Lines end = {"add    $" + step + ",%r12d", "cmp    0x18(%rsp),%r12d", "jl     1014 <kernel+0x14>", "ret"};
  const std::vector<Instruction> code = functions_in(disassembly(before + body + end)).at(0);
  Values values(code, [](uint64_t) { return 0; });
  std::vector<int> found;
  for (Invariants::Unrolled loop : Invariants(code, [](size_t) { return false; }).unrolled()) {
    loop.by = by;
    for (const auto& [place, log2] : joined_rounds(code, values, loop).loads) found.push_back(1 << log2);
  }
  return found;
}

TEST(Joins, RoundsOfAnUnrolledLoopHaveALoadInCommon) {
  const std::vector<int> none;
  EXPECT_EQ(bytes_of_rounds("$0x0", {}), std::vector{16});
  EXPECT_EQ(bytes_of_rounds("$0x0", {}, "0x1", 2), std::vector{8});
  EXPECT_EQ(bytes_of_rounds("$0x0", {}, "0x1", 1), none);
  EXPECT_EQ(bytes_of_rounds("$0x0", {}, "0x2"), none) << "not side by side";
  EXPECT_EQ(bytes_of_rounds("$0x2", {}), none) << "not aligned";
  EXPECT_EQ(bytes_of_rounds("%ecx", {}), none) << "not known to be";
  EXPECT_EQ(bytes_of_rounds("$0x0", {"mov    %r15,%rdi", write4}), none) << "a store";
  const Lines maximum = {"ja     1032 <kernel+0x32>", "vmovss %xmm0,0x8(%rsp)"};
  EXPECT_EQ(bytes_of_rounds("$0x0", maximum), std::vector{16}) << "a branch";
  EXPECT_EQ(bytes_of_rounds("$0x0", {maximum[0], "add    $0x4,%rbx"}), none) << "that moves the address";
}

/// A loop over doubles in shared memory from number `from` on, whose last instructions are `end`: as above, and 0
/// behind it where not all rounds are one.
std::vector<int> bytes_of_all(const Lines& before, const Lines& end, const std::string& from = "$0x1") {
  const std::string report = "call   3300 <__sanitizer_cov_trace_pc@plt>";
  const Lines start = shared_in_rbx + before + Lines{"mov    " + from + ",%r12d"};
  char header[32];
  std::snprintf(header, sizeof header, "%lx <kernel+0x30>", 0x1000 + 5 * start.size());
  const Lines body = {report, "movslq %r12d,%rax", "lea    (%rbx,%rax,8),%rdi", "call   30a0 <__tsan_read8@plt>",
                      "add    $0x1,%r12d"};
  const std::vector<Instruction> code =
      functions_in(disassembly(start + body + end + Lines{std::string("jne    ") + header, "ret"})).at(0);
  Values values(code, [](uint64_t) { return 0; });
  std::vector<int> found;
  for (const Invariants::Unrolled& loop : Invariants(code, [](size_t) { return false; }).unrolled()) {
    const JoinedRounds joined = joined_rounds(code, values, loop);
    for (const auto& [place, log2] : joined.loads) found.push_back(1 << log2);
    if (!joined.of_all) found.push_back(0);
  }
  return found;
}

TEST(Joins, AllRoundsOfALoopWhoseNumberIsKnown) {
  const std::vector<int> all = {16}, none = {0};
  const Lines counter = {"mov    $0x7f,%r13d"}, step = {"sub    $0x1,%r13d"};
  EXPECT_EQ(bytes_of_all(counter, step), all) << "from the second number on";
  EXPECT_EQ(bytes_of_all(counter, step, "$0x0"), all);
  EXPECT_EQ(bytes_of_all(counter, step, "%ecx"), std::vector<int>{}) << "it is not known which are aligned";
  EXPECT_EQ(bytes_of_all({}, {"cmp    $0x80,%r12d"}), all);
  EXPECT_EQ(bytes_of_all({}, {"cmp    %r14d,%r12d"}), none) << "how many is not known";
  EXPECT_EQ(bytes_of_all({"mov    $0xf0,%r13d"}, step), all) << "240 rounds of 5 instructions";
  EXPECT_EQ(bytes_of_all({"mov    $0xf1,%r13d"}, step), none) << "too many";
  EXPECT_EQ(bytes_of_all({}, {"cmp    $0xf1,%r12d"}), all) << "from 1 to 240";
  EXPECT_EQ(bytes_of_all({}, {"cmp    $0xf2,%r12d"}), none);
  EXPECT_EQ(bytes_of_all({"mov    $0x7f0,%r13d"}, step, "$0x0"), (std::vector{16, 0}))
      << "by 4, from an aligned one on";
}

TEST(Joins, WhatMayBeToTheSameMemoryOrWaitEndsThem) {
  const Lines first = shared_in_rbx + loads({"0x0", "0x4"}), second = loads({"0x8", "0xc"});
  EXPECT_EQ(bytes(first + second), std::vector{16});
  EXPECT_EQ(bytes(first + Lines{"mov    %r12,%rdi", write4} + second), (std::vector{8, 4, 8})) << "a store";
  EXPECT_EQ(bytes(first + Lines{"mov    %r12,%rdi", read4} + second), (std::vector{16, 4})) << "a load";
  EXPECT_EQ(bytes(first + Lines{"call   3100 <simt_block_barrier@plt>"} + second), (std::vector{8, 8})) << "a barrier";
  EXPECT_EQ(bytes(first + Lines{"je     1000 <kernel>"} + second), (std::vector{8, 8})) << "another block of code";
}

TEST(Joins, SidesOfABranchThatOnlyCopyAreAChoice) {
  const std::string report = "call   3200 <__sanitizer_cov_trace_pc@plt>";
  const auto around = [&](const std::string& side, const std::string& jump = "ja     1028 <kernel+0x28>") {
    return bytes(shared_in_rbx + loads({"0x0"}) + Lines{"vcomiss %xmm0,%xmm1", jump, report, side, report} +
                 loads({"0x4"}));
  };
  EXPECT_EQ(around("vmovss %xmm1,0x10(%rsp)"), std::vector{8});
  EXPECT_EQ(around("vaddss %xmm1,%xmm2,%xmm2"), (std::vector{4, 4})) << "arithmetic";
  EXPECT_EQ(around("call   3100 <simt_warp@plt>"), (std::vector{4, 4}));
  EXPECT_EQ(around("mov    %rcx,%rbx"), (std::vector{4, 4})) << "another address";
  EXPECT_EQ(around("mov    %rcx,%rdx", "ja     1041 <kernel+0x41>"), (std::vector{4, 4})) << "around the second load";
}

TEST(Joins, WhatIsLoadedAlreadyIsNotLoadedAgain) {
  const Lines whole = {"lea    0x0(%rbx),%rdi", "call   30a0 <__tsan_read8@plt>"}, store = {"mov    %r12,%rdi", write4};
  EXPECT_EQ(bytes(shared_in_rbx + whole + loads({"0x0", "0x4"})), std::vector{8}) << "a structure and its members";
  EXPECT_EQ(bytes(shared_in_rbx + whole + loads({"0x8"})), (std::vector{8, 4})) << "what is beside it";
  EXPECT_EQ(bytes(shared_in_rbx + loads({"0x0", "0x0"})), std::vector{4}) << "the same number twice";
  EXPECT_EQ(bytes(shared_in_rbx + whole + store + loads({"0x0"})), (std::vector{8, 4, 4})) << "a store between them";
}

/// Loads of floats at these offsets from a parameter, and what g++ says of their alignment.
Lines loads_aligned(const std::vector<std::pair<std::string, std::string>>& offsets) {
  Lines lines;
  for (const auto& [offset, said] : offsets) lines = lines + loads({offset}) + Lines{"nopl   " + said + "(%rax)"};
  return lines;
}

TEST(Joins, AStructureIsAlignedAsItsTypeIs) {
  EXPECT_EQ(bytes(loads_aligned({{"0x0", "0x5"}, {"0x4", "0x3"}, {"0x8", "0x4"}, {"0xc", "0x3"}})), std::vector{16});
  EXPECT_EQ(bytes(loads_aligned({{"0x0", "0x5"}, {"0x4", "0x3"}, {"0x8", "0x4"}})), std::vector{16}) << "but a member";
  EXPECT_EQ(bytes(loads_aligned({{"0x0", "0x5"}, {"0x8", "0x4"}})), (std::vector{4, 4})) << "half of it";
  EXPECT_EQ(bytes(loads_aligned({{"0x8", "0x4"}, {"0xc", "0x3"}})), std::vector{8}) << "its second half";
  EXPECT_EQ(bytes(loads_aligned({{"0x0", "0x4"}, {"0x4", "0x3"}, {"0x8", "0x4"}, {"0xc", "0x3"}})), (std::vector{8, 8}))
      << "of doubles";
  EXPECT_EQ(bytes(loads({"0x0", "0x4"}) + Lines{"nopl   0x0(%rax)"}), (std::vector{4, 4})) << "padding says nothing";
}

TEST(Joins, AnAccessThatIsWiderThanItIsAlignedIsTakenApart) {
  const auto copy = [](const std::string& bytes_in_hex, const std::string& said) {
    return Lines{"mov    $" + bytes_in_hex + ",%esi", "lea    0x0(%rbx),%rdi", "call   30a0 <__tsan_read_range@plt>",
                 "nopl   " + said + "(%rax)"};
  };
  EXPECT_EQ(bytes(copy("0x8", "0x3")), (std::vector{4, 4})) << "two floats";
  EXPECT_EQ(bytes(copy("0x18", "0x4")), (std::vector{8, 8, 8})) << "three doubles";
  EXPECT_EQ(bytes(shared_in_rbx + copy("0x18", "0x3")), (std::vector{16, 8})) << "where the memory is aligned";
  EXPECT_EQ(bytes(Lines{"call   30a0 <__tsan_read16@plt>", "nopl   0x4(%rax)"}), (std::vector{8, 8}));
  const Parts parts = look_at(copy("0x8", "0x3")).joins.at(0x1000 + 5 * 3);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].shift, 4);
  EXPECT_EQ(bytes(copy("0x8", "0x3") + loads({"0x4"})), (std::vector{4, 4})) << "loaded already";
}

using ladder::with_alignments;

TEST(WithAlignments, TheAccessBehindACallIsSaidToIt) {
  const std::string call = "\tcall\t__tsan_read4@PLT\t# 12\n", load = "\tvmovss\t(%rbx), %xmm0\n";
  const auto load_of = [&](const std::string& memory) {
    return "#(insn 3 (set (reg:SF 20)\n#  " + memory + "))\n" + load;
  };
  const std::string aligned = "(mem:SF (reg:DI 3) [23 *_4.feature[0]+0 S4 A128])";
  EXPECT_EQ(with_alignments(call + load_of(aligned)), call + "\tnopl\t5(%rax)\n" + load);
  EXPECT_EQ(with_alignments(load_of(aligned) + call), load + call) << "the one before it";
  EXPECT_EQ(with_alignments(call + "\tcall\tf\n" + load_of(aligned)), call + "\tcall\tf\n" + load);
  EXPECT_EQ(with_alignments(call + load_of("(mem/c:SF (reg:DI 7) [9 %sfp+-8 S4 A64])")), call + load) << "the stack";
  EXPECT_EQ(with_alignments(call + load_of("(mem:DI (reg:DI 3) [9 *_5+0 S8 A64])")), call + load) << "too wide";
  const std::string range = "\tcall\t__tsan_write_range@PLT\n";
  EXPECT_EQ(with_alignments(range + load_of("(mem:DI (reg:DI 3) [9 *_5+0 S8 A32])")),
            range + "\tnopl\t3(%rax)\n" + load);
  EXPECT_EQ(with_alignments("#APP\n\tnop\n#NO_APP\n"), "#APP\n\tnop\n#NO_APP\n");
}

TEST(Joins, AskingForThreadVariablesEndsNothing) {
  const Lines ask = {"lea    0x3e5c7(%rip),%rdi        # 53f78 <v>", "call   3410 <__tls_get_addr@plt>",
                     "lea    0x100(%rax),%rbx"};
  EXPECT_EQ(bytes(ask + loads({"0x0", "0x4"}) + ask + loads({"0x8", "0xc"})), std::vector{16});
  const Lines other = {"lea    0x3e5d7(%rip),%rdi        # 53f88 <w>", ask[1], ask[2]};
  EXPECT_EQ(bytes(ask + loads({"0x0", "0x4"}) + other + loads({"0x8", "0xc"})), (std::vector{8, 8})) << "another one";
}

TEST(Joins, StoresAreJoinedTooAndVolatileAccessesAreNot) {
  Lines stores = shared_in_rbx, told = shared_in_rbx;
  for (const std::string offset : {"0x0", "0x4", "0x8", "0xc"}) {
    stores = stores + Lines{"lea    " + offset + "(%rbx),%rdi", write4};
    told = told + Lines{"lea    " + offset + "(%rbx),%rdi", "call   30a0 <__tsan_volatile_read4@plt>"};
  }
  EXPECT_EQ(bytes(stores), std::vector{16});
  stores.resize(stores.size() - 2);
  EXPECT_EQ(bytes(stores), (std::vector{8, 4})) << "three of four";
  EXPECT_TRUE(look_at(told).joins.empty());
}

/// fadd, fmul, ffma, dadd, dmul, dfma.
Operations operations(const Lines& lines, const std::map<uint64_t, uint64_t>& constants = {}) {
  return look_at(lines, constants).operations;
}

TEST(OperationsOf, ScalarInstructionsAreWhatTheySay) {
  EXPECT_EQ(operations({"vaddss %xmm0,%xmm1,%xmm2", "vsubss %xmm0,%xmm1,%xmm2", "vmulsd %xmm0,%xmm1,%xmm2",
                        "vfnmadd213ss %xmm0,%xmm1,%xmm2", "vcvtss2sd %xmm0,%xmm0,%xmm0"}),
            (Operations{2, 0, 1, 0, 1, 0}));
}

TEST(OperationsOf, TwiceAValueThatIsSubtractedIsTwoAdditions) {
  const uint64_t two = std::bit_cast<uint32_t>(2.0f), minus_two = std::bit_cast<uint32_t>(-2.0f),
                 three = std::bit_cast<uint32_t>(3.0f), two_of_double = std::bit_cast<uint64_t>(2.0);
  const std::string load = "vmovss 0x10(%rip),%xmm1        # 2000 <.LC0>";
  EXPECT_EQ(operations({load, "vfnmadd132ss %xmm1,%xmm3,%xmm2"}, {{0x2000, two}}), (Operations{2}));
  EXPECT_EQ(operations({load, "vfnmadd213ss %xmm3,%xmm1,%xmm2"}, {{0x2000, two}}), (Operations{2}));
  EXPECT_EQ(operations({load, "vfnmadd231ss %xmm3,%xmm1,%xmm2"}, {{0x2000, two}}), (Operations{2}));
  EXPECT_EQ(operations({load, "vfnmadd213ss %xmm1,%xmm3,%xmm2"}, {{0x2000, two}}), (Operations{0, 0, 1})) << "2 - a b";
  EXPECT_EQ(operations({load, "vfmadd132ss %xmm1,%xmm3,%xmm2"}, {{0x2000, minus_two}}), (Operations{2}));
  EXPECT_EQ(operations({load, "vfmadd132ss %xmm1,%xmm3,%xmm2"}, {{0x2000, two}}), (Operations{0, 0, 1})) << "a + 2 b";
  EXPECT_EQ(operations({load, "vfnmadd132ss %xmm1,%xmm3,%xmm2"}, {{0x2000, three}}), (Operations{0, 0, 1}));
  EXPECT_EQ(operations({load, "vmovss %xmm1,0x8(%rsp)", "call   3000 <f>", "vmovss 0x8(%rsp),%xmm4",
                        "vfnmadd132ss %xmm4,%xmm3,%xmm2"},
                       {{0x2000, two}}),
            (Operations{2}))
      << "kept on the stack over a call";
  EXPECT_EQ(operations({load, "call   3000 <f>", "vfnmadd132ss %xmm1,%xmm3,%xmm2"}, {{0x2000, two}}),
            (Operations{0, 0, 1}))
      << "lost in a call";
  EXPECT_EQ(operations({"vfnmadd132sd 0x10(%rip),%xmm3,%xmm2        # 2000 <.LC0>"}, {{0x2000, two_of_double}}),
            (Operations{0, 0, 0, 2}));
}

TEST(OperationsOf, RoutinesHaveTheStepsThatNvccMakesOfThem) {
  EXPECT_EQ(operations({"vdivsd %xmm0,%xmm1,%xmm2"}), (Operations{0, 0, 1, 0, 1, 7}));
  EXPECT_EQ(operations({"vmovsd 0x10(%rip),%xmm1        # 2000 <.LC0>", "vdivsd %xmm0,%xmm1,%xmm2"},
                       {{0x2000, std::bit_cast<uint64_t>(1.0)}}),
            (Operations{0, 0, 0, 0, 0, 5}))
      << "a reciprocal";
  EXPECT_EQ(operations({"vsqrtsd %xmm0,%xmm0,%xmm0"}), (Operations{0, 0, 0, 0, 3, 5}));
}

TEST(OperationsOf, ConversionsOfWholeNumbersWithoutASignAreNoAdditions) {
  const std::string add = "vaddsd %xmm0,%xmm0,%xmm0", load = "vmovsd 0x10(%rip),%xmm1        # 2000 <.LC0>";
  EXPECT_EQ(operations({"or     %rdi,%rax", "vcvtsi2sd %rax,%xmm0,%xmm0", add}), Operations{});
  EXPECT_EQ(operations({"or     %rdi,%rax", "vxorpd %xmm3,%xmm3,%xmm3", "vcvtsi2sd %rax,%xmm3,%xmm0", add}),
            Operations{});
  EXPECT_EQ(operations({"vcvtsi2sd %rax,%xmm0,%xmm0", "nop", add}), (Operations{0, 0, 0, 1})) << "twice a number";
  const std::map<uint64_t, uint64_t> constants = {{0x2000, std::bit_cast<uint64_t>(0x1p63)}};
  EXPECT_EQ(operations({load, "vsubsd %xmm1,%xmm0,%xmm0", "vcvttsd2si %xmm0,%rax"}, constants), Operations{});
  EXPECT_EQ(operations({load, "vsubsd %xmm1,%xmm0,%xmm0", "ret"}, constants), (Operations{0, 0, 0, 1}));
}

TEST(OperationsOf, AnAdditionThatTakesAProductIsAMultiplyAdd) {
  EXPECT_EQ(multiply_add_for({1, 2, 3, 0, 0, 0}), (Operations{0, 2, 4, 0, 0, 0}));
  EXPECT_EQ(multiply_add_for({0, 0, 0, 1, 0, 0}), (Operations{0, 0, 0, 0, 0, 1}));
}

TEST(OperationsOf, AProductWithAPowerOfTwoRoundsNothing) {
  const auto is_exact = [](const std::string& line, uint64_t constant) {
    return is_times_power_of_two(functions_in(disassembly({line})).at(0).at(0), [=](uint64_t) { return constant; });
  };
  const std::string one = "vmulss 0x10(%rip),%xmm1,%xmm2        # 2000 <.LC0>";
  const std::string of_double = "vmulsd 0x10(%rip),%xmm1,%xmm2        # 2000 <.LC0>";
  EXPECT_TRUE(is_exact(one, std::bit_cast<uint32_t>(0x1p-24f) | 7ull << 32)) << "another constant lies behind it";
  EXPECT_TRUE(is_exact(of_double, std::bit_cast<uint64_t>(-0.5)));
  EXPECT_FALSE(is_exact(one, std::bit_cast<uint32_t>(3.0f)));
  EXPECT_FALSE(is_exact(of_double, std::bit_cast<uint64_t>(0.1)));
  EXPECT_FALSE(is_exact(one, std::bit_cast<uint32_t>(0x1p-149f))) << "it underflows";
  EXPECT_FALSE(is_exact("vmulss %xmm0,%xmm1,%xmm2", std::bit_cast<uint32_t>(2.0f))) << "not known";
  EXPECT_FALSE(is_exact("vaddss 0x10(%rip),%xmm1,%xmm2        # 2000 <.LC0>", std::bit_cast<uint32_t>(2.0f)));
}

TEST(OperationsOf, ANegationOfADoubleIsAnAdditionBeforeTheBranchToIt) {
  const std::map<uint64_t, uint64_t> sign = {{0x2000, std::bit_cast<uint64_t>(-0.0)}};
  const std::string negate = "vxorpd 0x10(%rip),%xmm7,%xmm6        # 2000 <.LC0>";
  EXPECT_EQ(operations({negate}, sign), (Operations{0, 0, 0, 1}));
  EXPECT_EQ(operations({negate}), Operations{}) << "with another number";
  EXPECT_EQ(operations({"vxorps 0x10(%rip),%xmm7,%xmm6        # 2000 <.LC0>"}, sign), Operations{}) << "of a float";
  const std::string block = "call   3300 <__sanitizer_cov_trace_pc@plt>", move = "vmovq  %r12,%xmm7";
  const auto branch = [&](const Lines& lines, std::optional<size_t> at = {}) {
    return branch_before(functions_in(disassembly(lines)).at(0), at.value_or(lines.size() - 1));
  };
  const std::string over = "jns    1028 <kernel+0x28>", to_side = "jns    100f <kernel+0xf>";
  EXPECT_EQ(branch({"nop", over, block, move, negate}), std::optional<size_t>(1));
  EXPECT_EQ(branch({"nop", "jmp    1028 <kernel+0x28>", block, move, negate}), std::nullopt);
  EXPECT_EQ(branch({over, block, "vaddsd %xmm0,%xmm7,%xmm7", negate}), std::nullopt);
  EXPECT_EQ(branch({"nop", "nop", block, move, negate}), std::nullopt) << "no branch leads there";
  EXPECT_EQ(branch({to_side, "ret", "nop", move, block, move, negate}), std::optional<size_t>(0)) << "from afar";
  EXPECT_EQ(branch({over, "jmp    100f <kernel+0xf>", "nop", move, block, negate}), std::optional<size_t>(0))
      << "by a jump behind the branch";
  EXPECT_EQ(branch({to_side, over, "nop", move, block, negate}), std::nullopt) << "two ways lead there";
  EXPECT_EQ(branch({over, "nop", block, move, negate, "jmp    100f <kernel+0xf>"}, 4), std::nullopt)
      << "another one leads into the block";
}

TEST(OperationsOf, LibraryFunctionsHaveTheStepsThatNvccMakesOfThem) {
  EXPECT_EQ(operations({"call   3000 <scalbn@plt>"}), (Operations{0, 0, 0, 0, 4, 0}));
  EXPECT_EQ(operations({"call   3000 <ldexpf@plt>"}), (Operations{0, 4, 0, 0, 0, 0}));
  EXPECT_EQ(operations({"call   3000 <ilogb@plt>"}), (Operations{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(operations({"call   3000 <simt_add_upwards@plt>"}), (Operations{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(operations({"call   3000 <simt_warp@plt>"}), Operations{});
}

}  // namespace
}  // namespace simt::counting
