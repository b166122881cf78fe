#include "counting/invariants.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "counting/values.hpp"

namespace simt::counting {
namespace {

// Places: 32 registers, the flags, and the function's part of the stack in words of 4 bytes. A frame pointer points to
// the middle of it.
constexpr size_t flags = 32, stack = 33, word = 4, most_words = 4096, nowhere = ~size_t(0);
constexpr size_t words = 8;             // of the widest access
constexpr int64_t frame_middle = 8192;  // bytes
constexpr size_t most_unrolled = 192;   // instructions of g++, of all rounds that become one

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
bool ends(std::string_view text, std::string_view with) {
  return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}

/// All bytes that are used of it, to one place.
bool copies_all(const Instruction& x) {
  static const std::set<std::string_view> names = {"mov",    "movl",    "movq",    "vmovd",   "vmovq",  "vmovss",
                                                   "vmovsd", "vmovaps", "vmovapd", "vmovups", "vmovupd"};
  return x.operands.size() == 2 && names.contains(x.name);
}
bool is_product(const Instruction& x) { return x.name == "vmulss" || x.name == "vmulsd"; }
bool compares(std::string_view name) {
  return begins(name, "cmp") || begins(name, "test") || begins(name, "vucomis") || begins(name, "vcomis");
}
/// Of a counter, by a constant.
bool steps(const Instruction& x) {
  return (begins(x.name, "add") || begins(x.name, "sub")) && x.operands.size() == 2 && x.operands[0][0] == '$';
}
bool reads_flags(std::string_view name) {
  return begins(name, "cmov") || begins(name, "set") || begins(name, "adc") || begins(name, "sbb");
}
bool writes_flags(std::string_view name) {
  return name[0] != 'v' && !begins(name, "mov") && !begins(name, "lea") && !begins(name, "cmov") &&
         !begins(name, "set") && !begins(name, "not");
}
/// AVX instructions have a destination of its own, but for multiply-adds.
bool reads_destination(const Instruction& x) {
  if (is_move(x.name) || begins(x.name, "lea") || begins(x.name, "set")) return false;
  if (x.name[0] == 'v') return begins(x.name, "vfm") || begins(x.name, "vfnm");
  return !(begins(x.name, "imul") && x.operands.size() == 3);
}
/// A call that is none on a GPU.
bool is_part_of_the_code(const Instruction& x) {
  return begins(x.called, "__tsan_read") || begins(x.called, "__tsan_write") || finds_thread_variables(x) ||
         reports_a_division(x) || begins(x.called, "scalb") || begins(x.called, "ldexp") || begins(x.called, "ilogb");
}
/// A call that reports a load.
bool reports_a_load(const Instruction& x) {
  return begins(x.called, "__tsan_read") || begins(x.called, "__tsan_unaligned_read");
}
/// A call whose arguments may be floating-point numbers.
bool may_take_numbers(const Instruction& x) {
  if (x.name != "call" || is_part_of_the_code(x) || reports_a_block(x)) return false;
  return !begins(x.called, "simt_") || x.called == "simt_bits_of_half" || x.called == "simt_add_upwards";
}
bool has_hidden_operands(std::string_view name) {
  return begins(name, "div") || begins(name, "idiv") || begins(name, "mul") || name == "cltd" || name == "cqto" ||
         name == "cltq" || name == "cwtl";
}
bool changes_the_stack_pointer(const Instruction& x) {
  if (x.name == "push" || x.name == "pop" || x.name == "leave") return true;
  return x.operands.size() == 2 && x.operands[1] == "%rsp";
}

/// Of an access to the stack.
int bytes_of(const Instruction& x) {
  if (begins(x.name, "vcvtsi2s") && (x.name.back() == 'l' || x.name.back() == 'q')) return x.name.back() == 'l' ? 4 : 8;
  if (begins(x.name, "vcvtss2")) return 4;
  if (begins(x.name, "vcvtsd2")) return 8;
  if (ends(x.name, "ss") || x.name == "vmovd") return 4;
  if (ends(x.name, "sd") || x.name == "vmovq") return 8;
  for (const std::string& operand : x.operands) {
    if (begins(operand, "%ymm")) return 32;
    if (begins(operand, "%xmm")) return 16;
    if (begins(operand, "%e") || (operand[0] == '%' && operand.back() == 'd')) return 4;
    if (begins(operand, "%r")) return 8;
  }
  return x.name.back() == 'q' ? 8 : 4;
}

}  // namespace

Invariants::Invariants(const std::vector<Instruction>& code, const std::function<bool(size_t)>& is_operation)
    : code_(code), moved_(code.size()) {
  has_frame_ = std::any_of(code.begin(), code.end(), [](const Instruction& x) {
    return x.name == "mov" && x.operands == std::vector<std::string>{"%rsp", "%rbp"};
  });
  find_blocks();
  find_order();
  find_loops();
  for (const Instruction& x : code) {
    for (const std::string& operand : x.operands) {
      for (const size_t place : places_of(operand, bytes_of(x))) places_ = std::max(places_, place + 1);
    }
  }
  for (const Loop& loop : loops_) examine(loop, is_operation);
}

std::optional<size_t> Invariants::moved_to(size_t index) const { return moved_[index]; }

const Invariants::Guarded* Invariants::guarded_by(size_t index) const {
  const auto found = guarded_in_.find(index);
  return found == guarded_in_.end() ? nullptr : &guarded_.at(found->second);
}

/// Of an operation in this block that is moved out of the loop.
void Invariants::guard(const Loop& loop, size_t block, size_t operation) {
  const auto& ways = blocks_[loop.header].next;
  const bool may_leave = std::any_of(ways.begin(), ways.end(), [&](size_t next) { return !loop.has(next); });
  if (block == loop.header || !may_leave) return;
  const auto [found, is_new] = guarded_.try_emplace(loop.header);
  Guarded& its = found->second;
  for (size_t n = 0; is_new && n < loop.blocks.size(); ++n) {
    const size_t b = loop.blocks[n];
    for (size_t i = blocks_[b].begin; i < blocks_[b].end; ++i) {
      if (reports_a_block(code_[i])) (b == loop.header ? its.header : its.inside).push_back(i);
    }
  }
  if (its.header.empty() || its.inside.empty()) return;
  guarded_in_[operation] = loop.header;
}

std::vector<Invariants::Unrolled> Invariants::unrolled() const {
  std::vector<Unrolled> found;
  for (const Loop& loop : loops_) {
    size_t ways_out = 0, last = 0;
    std::vector<size_t> instructions(blocks_.size());
    const std::vector<size_t> entries = entries_of(loop);
    bool alone = std::none_of(loops_.begin(), loops_.end(),
                              [&](const Loop& other) { return other.header != loop.header && loop.has(other.header); });
    std::vector<size_t> reports;
    // g++ has fewer registers than nvcc, and keeps numbers in the stack.
    const auto copies_by_stack = [&](const Instruction& x) {
      return is_move(x.name) && std::any_of(x.operands.begin(), x.operands.end(), [&](const std::string& operand) {
               const auto places = places_of(operand, bytes_of(x));
               return !places.empty() && places.front() >= stack;
             });
    };
    for (const size_t block : loop.blocks) {
      for (const size_t next : blocks_[block].next) {
        if (loop.has(next)) continue;
        ++ways_out;
        last = block;
      }
      alone &= !blocks_[block].next.empty();
      for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
        if (reports_a_block(code_[i]))
          reports.push_back(i);
        else if (code_[i].name == "call")
          alone &= is_part_of_the_code(code_[i]);
        else if (!begins(code_[i].name, "nop") && !copies_by_stack(code_[i]))
          ++instructions[block];
      }
    }
    size_t length = std::accumulate(instructions.begin(), instructions.end(), size_t(0));
    for (const size_t block : loop.blocks) {
      const std::vector<size_t>& sides = blocks_[block].next;
      if (sides.size() < 2 || !loop.has(sides[0]) || !loop.has(sides[1]) || !is_same_in_all_rounds(loop, block))
        continue;
      const auto length_of = [&](size_t side) {
        size_t its = 0;
        for (const size_t b : loop.blocks) its += dominates(side, b) ? instructions[b] : 0;
        return blocks_[side].before.size() == 1 ? its : 0;
      };
      length -= std::min(length_of(sides[0]), length_of(sides[1]));
    }
    const bool reports_first =
        !reports.empty() && reports.front() >= blocks_[loop.header].begin && reports.front() < blocks_[loop.header].end;
    size_t by = 4;
    while (by > 1 && by * length > most_unrolled) by /= 2;
    if (!alone || ways_out != 1 || !reports_first || !counts_in_constant_steps(loop, last)) continue;
    found.push_back(
        {.by = by, .reports = reports, .length = length, .ends_by = decided_by(last), .before = {}, .blocks = {}});
    if (entries.size() == 1) found.back().before = {blocks_[entries[0]].begin, blocks_[entries[0]].end, false};
    for (const size_t block : loop.blocks)
      found.back().blocks.push_back({blocks_[block].begin, blocks_[block].end, is_in_each_round(loop, block)});
  }
  return found;
}

/// Of the branch at the end of a block: it goes by what the loop does not change.
bool Invariants::is_same_in_all_rounds(const Loop& loop, size_t block) const {
  size_t compared = blocks_[block].end - 1;
  while (compared > blocks_[block].begin && !compares(code_[compared].name)) --compared;
  if (!compares(code_[compared].name)) return false;
  for (const std::string& operand : code_[compared].operands) {
    if (operand[0] == '$') continue;
    auto places = places_of(operand, bytes_of(code_[compared]));
    for (size_t i = compared; !places.empty() && i-- > blocks_[block].begin;) {  // a copy of what lies in the stack
      const auto written = written_by(i);
      if (std::find(written.begin(), written.end(), places.front()) == written.end()) continue;
      places = is_move(code_[i].name) ? places_of(code_[i].operands[0], 4) : std::vector<size_t>{};
      break;
    }
    if (places.empty() || inner_writes_[loop.header].contains(places.front())) return false;
  }
  return true;
}

/// What the branch at the end of a block goes by: a comparison, or a step.
size_t Invariants::decided_by(size_t block) const {
  size_t at = blocks_[block].end - 1;
  while (at > blocks_[block].begin && !(compares(code_[at].name) || steps(code_[at]))) --at;
  return at;
}

/// `last`: the block that a lane leaves the loop from.
bool Invariants::counts_in_constant_steps(const Loop& loop, size_t last) const {
  const size_t compared = decided_by(last);
  const Instruction& x = code_[compared];
  if (steps(x)) return true;
  if (!compares(x.name)) return false;
  size_t counters = 0;
  for (const std::string& operand : x.operands) {
    auto places = places_of(operand, bytes_of(x));
    for (size_t i = compared; !places.empty() && i-- > blocks_[last].begin;) {  // a copy of what lies in the stack
      const auto written = written_by(i);
      if (std::find(written.begin(), written.end(), places.front()) == written.end()) continue;
      if (const auto copied = is_move(code_[i].name) ? places_of(code_[i].operands[0], 4) : places;
          !copied.empty() && copied.front() >= stack)
        places = copied;
      break;
    }
    bool is_written = false, all_steps = true;
    for (const size_t block : loop.blocks) {
      for (size_t i = blocks_[block].begin; i < blocks_[block].end && !places.empty(); ++i) {
        const auto written = written_by(i);
        if (std::find(written.begin(), written.end(), places.front()) == written.end()) continue;
        is_written = true;
        all_steps &= steps(code_[i]) || begins(code_[i].name, "lea");
      }
    }
    if (is_written && !all_steps) return false;
    counters += is_written;
  }
  return counters == 1;
}

void Invariants::find_blocks() {
  std::unordered_map<uint64_t, size_t> at;
  for (size_t i = 0; i < code_.size(); ++i) at[code_[i].address] = i;
  std::set<size_t> firsts = {0};
  for (size_t i = 0; i < code_.size(); ++i) {
    if (!code_[i].ends_block) continue;
    if (i + 1 < code_.size()) firsts.insert(i + 1);
    if (const auto target = at.find(code_[i].target); code_[i].target && target != at.end())
      firsts.insert(target->second);
  }
  std::unordered_map<size_t, size_t> block_of;
  for (const size_t first : firsts) {
    block_of[first] = blocks_.size();
    if (!blocks_.empty()) blocks_.back().end = first;
    blocks_.push_back({.begin = first, .end = code_.size(), .next = {}, .before = {}});
  }
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Instruction& last = code_[blocks_[b].end - 1];
    if (const auto target = at.find(last.target); last.target && target != at.end())
      blocks_[b].next.push_back(block_of[target->second]);
    if (b + 1 < blocks_.size() && (!last.ends_block || (last.target && last.name != "jmp")))
      blocks_[b].next.push_back(b + 1);
    for (const size_t next : blocks_[b].next) blocks_[next].before.push_back(b);
  }
}

/// Reverse post-order, and the immediate dominators by the iteration of Cooper, Harvey and Kennedy (2001).
void Invariants::find_order() {
  std::vector<char> seen(blocks_.size());
  std::vector<std::pair<size_t, size_t>> path{{0, 0}};
  seen[0] = 1;
  while (!path.empty()) {
    auto& [block, child] = path.back();
    if (child < blocks_[block].next.size()) {
      const size_t next = blocks_[block].next[child++];
      if (!std::exchange(seen[next], 1)) path.emplace_back(next, 0);
    } else {
      order_.push_back(block);
      path.pop_back();
    }
  }
  std::reverse(order_.begin(), order_.end());
  rank_.assign(blocks_.size(), nowhere);
  for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = i;
  dominator_.assign(blocks_.size(), nowhere);
  dominator_[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const size_t block : order_) {
      if (block == 0) continue;
      size_t common = nowhere;
      for (const size_t before : blocks_[block].before) {
        if (dominator_[before] == nowhere) continue;
        common = common == nowhere ? before : common_dominator(common, before);
      }
      if (dominator_[block] != common) dominator_[block] = common, changed = true;
    }
  }
}

size_t Invariants::common_dominator(size_t a, size_t b) const {
  while (a != b) (rank_[a] > rank_[b] ? a : b) = dominator_[rank_[a] > rank_[b] ? a : b];
  return a;
}

bool Invariants::dominates(size_t a, size_t b) const {
  while (rank_[b] > rank_[a]) b = dominator_[b];
  return a == b;
}

/// Natural loops, the outer ones first.
void Invariants::find_loops() {
  std::unordered_map<size_t, std::set<size_t>> blocks_of;  // by header
  for (const size_t block : order_) {
    for (const size_t header : blocks_[block].next) {
      if (!dominates(header, block)) continue;
      std::set<size_t>& its = blocks_of[header];
      its.insert(header);
      std::vector<size_t> pending{block};
      while (!pending.empty()) {
        const size_t one = pending.back();
        pending.pop_back();
        if (rank_[one] == nowhere || !its.insert(one).second) continue;
        pending.insert(pending.end(), blocks_[one].before.begin(), blocks_[one].before.end());
      }
    }
  }
  inner_writes_.resize(blocks_.size());
  for (const auto& [header, its] : blocks_of) {
    Loop loop{.header = header, .blocks = {its.begin(), its.end()}};
    std::sort(loop.blocks.begin(), loop.blocks.end(), [&](size_t a, size_t b) { return rank_[a] < rank_[b]; });
    for (const size_t block : loop.blocks) {
      for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
        for (const size_t place : written_by(i)) inner_writes_[header].insert(place);
      }
    }
    loops_.push_back(std::move(loop));
  }
  std::sort(loops_.begin(), loops_.end(), [](const Loop& a, const Loop& b) {
    return a.blocks.size() != b.blocks.size() ? a.blocks.size() > b.blocks.size() : a.header < b.header;
  });
}

std::vector<size_t> Invariants::places_of(const std::string& operand, int bytes) const {
  if (const size_t number = register_number(operand); number < flags) return {number};
  const Memory memory = memory_operand(operand);
  const int64_t first = memory.displacement + (has_frame_ ? frame_middle : 0);
  if (!memory.is_one || memory.base != (has_frame_ ? "%rbp" : "%rsp") || !memory.index.empty() || first < 0) return {};
  std::vector<size_t> found;
  for (size_t w = size_t(first) / word; w * word < size_t(first + bytes); ++w) {
    if (w < most_words) found.push_back(stack + w);
  }
  return found;
}

std::vector<size_t> Invariants::written_by(size_t index) const {
  const Instruction& x = code_[index];
  if (reports_a_division(x)) return {};
  std::vector<size_t> found;
  if (x.name == "call") {
    found = {0, 2, 3, 4, 5, 8, 9, 10, 11, flags};  // rax, rcx, rdx, rsi, rdi, r8 to r11
    for (size_t vector = 16; vector < flags; ++vector) found.push_back(vector);
    return found;
  }
  if (has_hidden_operands(x.name)) found = {0, 3};
  if (!x.ends_block && writes_flags(x.name)) found.push_back(flags);
  if (x.operands.empty() || x.ends_block || compares(x.name) || begins(x.name, "nop")) return found;
  const auto to = places_of(x.operands.back(), bytes_of(x));
  found.insert(found.end(), to.begin(), to.end());
  if (begins(x.name, "xchg")) {
    const auto other = places_of(x.operands.front(), bytes_of(x));
    found.insert(found.end(), other.begin(), other.end());
  }
  return found;
}

/// Writes down what the instruction does; whether all that it reads is the same in all rounds. `loads_are_same`: what
/// lies at an address that is the same.
bool Invariants::execute(size_t index, State& state, bool loads_are_same) const {
  const Instruction& x = code_[index];
  const auto is_same = [&](size_t place) { return place < state.size() && state[place].same; };
  bool same = x.name != "call" && !has_hidden_operands(x.name) && !begins(x.name, "xchg");
  size_t copied = 0;  // who wrote what a move copies
  const size_t sources = x.operands.size() - (compares(x.name) || reads_destination(x) || x.operands.empty() ? 0 : 1);
  for (size_t o = 0; o < sources; ++o) {
    const std::string& operand = x.operands[o];
    if (operand[0] == '$') continue;
    const Memory memory = memory_operand(operand);
    if (begins(x.name, "lea") && memory.is_one) {
      for (const std::string& part : {memory.base, memory.index})
        same &= part.empty() || part == "%rip" || part == "%rsp" || is_same(register_number(part));
      continue;
    }
    if (memory.is_relative) continue;  // a constant
    if (memory.is_one && memory.base != "%rsp" && !(has_frame_ && memory.base == "%rbp")) {
      for (const std::string& part : {memory.base, memory.index})
        same &= loads_are_same && (part.empty() || is_same(register_number(part)));
      continue;
    }
    const auto places = places_of(operand, bytes_of(x));
    same &= !places.empty() && std::all_of(places.begin(), places.end(), is_same);
    if (!places.empty() && places.front() < state.size()) copied = state[places.front()].writer;
  }
  if (reads_flags(x.name)) same &= is_same(flags);
  // A sum of a register with itself taken away, by which registers are cleared, reads nothing.
  if (begins(x.name, "xor") || begins(x.name, "vxorp") || begins(x.name, "vpxor"))
    same |= x.operands.size() > 1 && x.operands[0] == x.operands[1];
  const bool copies = is_move(x.name) && same && copied != 0;
  for (const size_t place : written_by(index)) {
    if (place < state.size()) state[place] = {.writer = copies ? copied : index + 1, .same = same};
  }
  return same;
}

Invariants::State Invariants::joined(size_t block, const std::vector<State>& after, const std::vector<char>& inside,
                                     const std::vector<char>& same_branch) const {
  // The branches that decide by which way the block is reached.
  bool same_way = true;
  std::vector<char> seen(blocks_.size());
  std::vector<size_t> pending;
  const auto add = [&](size_t from) {
    for (const size_t before : blocks_[from].before) {
      if (rank_[before] != nowhere && !std::exchange(seen[before], 1)) pending.push_back(before);
    }
  };
  add(block);
  while (!pending.empty()) {
    const size_t one = pending.back();
    pending.pop_back();
    same_way &= inside[one] && (blocks_[one].next.size() < 2 || same_branch[one]);
    if (one != dominator_[block]) same_way &= !has_operation_[one];
    if (one != dominator_[block] && same_way) add(one);
  }
  State found;
  bool is_first = true;
  for (const size_t before : blocks_[block].before) {
    if (!inside[before] || after[before].empty()) continue;  // behind it in an inner loop
    if (std::exchange(is_first, false)) {
      found = after[before];
      continue;
    }
    for (size_t p = 0; p < found.size(); ++p) {
      if (found[p].writer == after[before][p].writer && found[p].same == after[before][p].same) continue;
      found[p] = {.writer = code_.size() + block * (stack + most_words) + p + 1,
                  .same = same_way && found[p].same && after[before][p].same};
    }
  }
  return found;
}

/// The nearest block in front of the loop that reports itself, in no other loop, and from which all ways lead into this
/// one: lanes run it once for each time that they enter the loop.
size_t Invariants::block_before(const Loop& loop, size_t entry) const {
  const auto reports = [&](size_t block) {
    return std::any_of(code_.begin() + std::ptrdiff_t(blocks_[block].begin),
                       code_.begin() + std::ptrdiff_t(blocks_[block].end), reports_a_block);
  };
  const auto is_in_other_loop = [&](size_t block) {
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const Loop& other) { return other.has(block) && !other.has(loop.header); });
  };
  size_t before = entry;
  while ((!reports(before) || is_in_other_loop(before)) && before != dominator_[before]) before = dominator_[before];
  std::vector<char> seen(blocks_.size());
  seen[loop.header] = 1;
  std::vector<size_t> pending{before};
  while (!pending.empty()) {
    const size_t block = pending.back();
    pending.pop_back();
    if (std::exchange(seen[block], 1)) continue;
    if (blocks_[block].next.empty()) return nowhere;
    pending.insert(pending.end(), blocks_[block].next.begin(), blocks_[block].next.end());
  }
  return reports(before) ? before : nowhere;
}

/// The blocks before the first one, outside the loop; not what fills up lines of the cache behind a jump.
std::vector<size_t> Invariants::entries_of(const Loop& loop) const {
  std::vector<size_t> found;
  for (const size_t before : blocks_[loop.header].before) {
    if (!loop.has(before) && rank_[before] != nowhere) found.push_back(before);
  }
  return found;
}

bool Invariants::is_in_each_round(const Loop& loop, size_t block) const {
  const std::vector<size_t>& before = blocks_[loop.header].before;
  return std::all_of(before.begin(), before.end(), [&](size_t end) { return !loop.has(end) || dominates(block, end); });
}

/// Nothing but to the stack, and there are no atomics, barriers or calls.
bool Invariants::stores_nothing(const Loop& loop) const {
  return std::all_of(loop.blocks.begin(), loop.blocks.end(), [&](size_t block) {
    return std::all_of(code_.begin() + std::ptrdiff_t(blocks_[block].begin),
                       code_.begin() + std::ptrdiff_t(blocks_[block].end), [](const Instruction& x) {
                         return x.name != "call" || reports_a_block(x) || reports_a_load(x) ||
                                finds_thread_variables(x) || reports_a_division(x);
                       });
  });
}

void Invariants::examine(const Loop& loop, const std::function<bool(size_t)>& is_operation) {
  const std::vector<size_t> entries = entries_of(loop);
  std::vector<char> inside(blocks_.size());
  for (const size_t block : loop.blocks) inside[block] = 1;
  if (entries.size() != 1) return;
  const size_t before = block_before(loop, entries[0]);
  if (before == nowhere) return;
  bool any = false;
  for (const size_t block : loop.blocks) {
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      if (changes_the_stack_pointer(code_[i]) && !has_frame_) return;
      any |= (!moved_[i] && is_operation(i)) || reports_a_load(code_[i]);
    }
  }
  if (!any) return;
  has_operation_.assign(blocks_.size(), 0);
  for (const size_t block : loop.blocks) {
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) has_operation_[block] |= char(is_operation(i));
  }
  std::vector<State> after(blocks_.size());
  std::vector<char> same_branch(blocks_.size());
  const bool only_loads = stores_nothing(loop);
  for (const size_t block : loop.blocks) {
    const bool loads_are_same = only_loads && is_in_each_round(loop, block);
    State state =
        block == loop.header ? State(places_, {.writer = 0, .same = true}) : joined(block, after, inside, same_branch);
    if (state.empty()) return;                         // not a loop of one entry
    for (const size_t place : inner_writes_[block]) {  // of the loop that begins here: by an earlier round
      if (place < places_) state[place] = {.writer = code_.size() + block + 1, .same = false};
    }
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      if (code_[i].ends_block) {
        same_branch[block] = state[flags].same;
        continue;
      }
      if (loads_are_same && reports_a_load(code_[i]) && state[register_number("%rdi")].same) loaded_before_.insert(i);
      const bool same = execute(i, state, loads_are_same);
      if (!is_operation(i)) continue;
      if (begins(code_[i].name, "vfm") || begins(code_[i].name, "vfnm")) {
        for (const size_t place : written_by(i)) state[place].same = false;
      } else if (same && !moved_[i]) {
        moved_[i] = blocks_[before].end - 1;
        guard(loop, block, i);
      }
    }
    after[block] = std::move(state);
  }
}

/// What an instruction does with products: copies them, or uses them, by use(all that the place may hold: products, and
/// `nowhere` for anything else). `is_followed`: it is a product itself that is looked for.
template <class Use>
void Invariants::carry_products(size_t index, bool is_followed, Products& held, Use use) const {
  if (held.empty() && !is_followed) return;
  const Instruction& x = code_[index];
  const auto held_by = [&](const std::vector<size_t>& places) {
    const auto found = places.empty() ? held.end() : held.find(places.front());
    return found == held.end() ? std::set<size_t>{} : found->second;
  };
  std::set<size_t> copied;
  if (x.name == "ret" || may_take_numbers(x)) {
    for (size_t argument = 16; argument < 24; ++argument) use(held_by({argument}));
  } else if (!x.operands.empty() && !x.ends_block) {
    const bool copies = is_move(x.name) && x.operands.size() == 2 && !places_of(x.operands[1], bytes_of(x)).empty();
    const size_t sources = x.operands.size() - (compares(x.name) || reads_destination(x) ? 0 : 1);
    for (size_t o = 0; o < sources; ++o) {
      const std::set<size_t> its = held_by(places_of(x.operands[o], bytes_of(x)));
      if (copies)
        copied = its;
      else
        use(its);
    }
  }
  if (changes_the_stack_pointer(x) && !has_frame_) {  // what lies in the stack has other places from here on
    for (auto in_stack = held.lower_bound(stack); in_stack != held.end(); in_stack = held.erase(in_stack))
      use(in_stack->second);
  }
  for (const size_t place : written_by(index)) held.erase(place);
  if (is_followed) copied = {index};
  if (copied.empty()) return;
  for (const size_t place : written_by(index)) held[place] = copied;
}

std::vector<Invariants::Fused> Invariants::fused(const std::function<bool(size_t)>& is_exact) const {
  // Most products are used where they are computed, and need not be followed.
  std::set<size_t> followed;
  for (const size_t block : order_) {
    Products held;
    std::set<size_t> used;
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      carry_products(i, is_product(code_[i]), held, [&](const std::set<size_t>& its) {
        if (!is_sum(code_[i])) used.insert(its.begin(), its.end());
      });
      if (is_product(code_[i]) && is_exact(i)) followed.insert(i);
    }
    for (const auto& [place, its] : held) {
      for (const size_t product : its) {
        if (!used.contains(product)) followed.insert(product);
      }
    }
  }
  if (followed.empty()) return {};
  std::vector<Products> before(blocks_.size());
  std::vector<char> is_reached(blocks_.size()), is_new(blocks_.size());
  is_reached[0] = is_new[0] = 1;
  for (bool changed = true; changed;) {
    changed = false;
    for (const size_t block : order_) {
      if (!std::exchange(is_new[block], 0)) continue;
      Products held = before[block];
      for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i)
        carry_products(i, followed.contains(i), held, [](const auto&) {});
      for (const size_t next : blocks_[block].next) {
        Products& into = before[next];
        if (!std::exchange(is_reached[next], 1)) {
          into = held;
          is_new[next] = changed = true;
          continue;
        }
        const auto add = [&](size_t place, const std::set<size_t>& its) {
          std::set<size_t>& all = into[place];
          const size_t size = all.size();
          all.insert(its.begin(), its.end());
          if (all.size() != size) is_new[next] = changed = true;
        };
        for (const auto& [place, its] : held) {
          if (!into.contains(place)) add(place, {nowhere});
          add(place, its);
        }
        for (const auto& [place, its] : Products(into)) {
          if (!held.contains(place)) add(place, {nowhere});
        }
      }
    }
  }
  // The blocks of code that report themselves are those of g++, though no branch may be left between them.
  const auto is_same_block_of_text = [&](size_t product, size_t addition, size_t block) {
    if (product < blocks_[block].begin || product > addition || is_exact(product)) return false;
    return std::none_of(code_.begin() + std::ptrdiff_t(product), code_.begin() + std::ptrdiff_t(addition),
                        reports_a_block);
  };
  std::map<size_t, std::set<size_t>> additions;  // by product
  std::set<size_t> others;                       // products with another use
  for (const size_t block : order_) {
    Products held = before[block];
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      if (changes_the_stack_pointer(code_[i]) && blocks_[block].next.empty()) break;  // it ends
      carry_products(i, followed.contains(i), held, [&](const std::set<size_t>& its) {
        const size_t one = its.size() == 1 ? *its.begin() : nowhere;
        const bool adds = one != nowhere && is_sum(code_[i]) && ends(code_[i].name, code_[one].name.substr(4)) &&
                          !is_same_block_of_text(one, i, block);
        for (const size_t product : its) {
          if (!adds || !additions[product].insert(i).second) others.insert(product);
        }
      });
    }
  }
  std::vector<Fused> found;
  std::set<size_t> taken;  // an addition takes one product
  for (const auto& [product, its] : additions) {
    if (others.contains(product) || its.empty()) continue;
    if (std::any_of(its.begin(), its.end(), [&](size_t i) { return taken.contains(i); })) continue;
    taken.insert(its.begin(), its.end());
    found.push_back({.product = product, .additions = {its.begin(), its.end()}});
  }
  return found;
}

/// Names are multiples of `words`; in the stack the words of a value behind its first have the numbers behind it. First
/// come those of what instructions write, then of what differs by the way to a block.
Invariants::Names Invariants::names_before(size_t block, const std::vector<Names>& after) const {
  const auto joined = [&](size_t place) {
    return words * (code_.size() * stack + block * (stack + most_words) + place);
  };
  Names names;
  bool is_first = true;
  for (const size_t before : blocks_[block].before) {
    if (after[before].empty()) continue;  // it cannot be reached, or is behind this one in a loop
    if (std::exchange(is_first, false)) {
      names = after[before];
      continue;
    }
    for (size_t place = 0; place < names.size(); ++place) {
      if (names[place] != after[before][place]) names[place] = joined(place);
    }
  }
  if (names.empty()) {  // the first block
    for (size_t place = 0; place < places_; ++place) names.push_back(joined(place));
  }
  for (const size_t place : inner_writes_[block]) {
    if (place < names.size()) names[place] = joined(place);
  }
  return names;
}

/// Of an operand that is read; `nowhere` where it is not known.
size_t Invariants::name_of(const std::string& operand, int bytes, const Names& names) const {
  const std::vector<size_t> places = places_of(operand, bytes);
  if (places.empty()) return nowhere;
  for (size_t w = 0; w < places.size(); ++w) {
    if (places[w] >= names.size() || names[places[w]] != names[places[0]] + w) return nowhere;
  }
  return names[places[0]];
}

std::vector<Invariants::Repeated> Invariants::repeated() const {
  struct Found {
    std::vector<size_t> products;
    size_t first = nowhere, block = nowhere;  // of the first product, and one that all of them lie in or behind
  };
  std::map<std::tuple<std::string, size_t, size_t>, Found> found;  // by what is multiplied
  std::vector<Names> after(blocks_.size());
  for (const size_t block : order_) {
    Names names = names_before(block, after);
    for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
      const Instruction& x = code_[i];
      size_t result = nowhere;
      if (copies_all(x)) {
        result = name_of(x.operands[0], bytes_of(x), names);
      } else if (is_product(x)) {
        // Constants have names of their own, by their place in the file.
        std::array<size_t, 2> factors{};
        for (size_t o = 0; o < 2; ++o)
          factors[o] = memory_operand(x.operands[o]).is_relative ? nowhere - 1 - x.refers_to
                                                                 : name_of(x.operands[o], bytes_of(x), names);
        std::sort(factors.begin(), factors.end());
        if (factors[1] != nowhere) {
          Found& same = found[{x.name, factors[0], factors[1]}];
          same.products.push_back(i);
          if (same.first == nowhere) same.first = block;
          same.block = same.block == nowhere ? block : common_dominator(same.block, block);
          result = words * stack * same.products.front();
        }
      }
      const std::vector<size_t> written = written_by(i);
      for (size_t w = 0; w < written.size(); ++w) {
        if (written[w] >= names.size()) continue;
        const bool is_in_stack = written[w] >= stack;
        const size_t id = words * (stack * i + (x.name == "call" && !is_in_stack ? written[w] : 0));
        names[written[w]] = (result == nowhere ? id : result) + (is_in_stack ? w : 0);
      }
    }
    after[block] = std::move(names);
  }
  std::vector<Repeated> all;
  for (auto& [factors, same] : found) {
    if (same.products.size() > 1)
      all.push_back({std::move(same.products), blocks_[same.block].end - 1, same.first == same.block});
  }
  return all;
}

/// Whether an instruction reads one of these places, or memory at an address that they say.
bool Invariants::reads_any(const Instruction& x, const std::vector<char>& places) const {
  if ((begins(x.name, "xor") || begins(x.name, "vxorp") || begins(x.name, "vpxor")) && x.operands[0] == x.operands[1])
    return false;  // it clears a register
  if (reads_flags(x.name) && places[flags]) return true;
  if (has_hidden_operands(x.name) && (places[0] || places[3])) return true;
  const auto holds = [&](const std::string& register_name) {
    const size_t number = register_number(register_name);
    return number < flags && places[number];
  };
  for (size_t o = 0; o < x.operands.size(); ++o) {
    const Memory memory = memory_operand(x.operands[o]);
    if (memory.is_one && (holds(memory.base) || holds(memory.index))) return true;
    if (o + 1 == x.operands.size() && !compares(x.name) && !reads_destination(x)) continue;
    for (const size_t place : places_of(x.operands[o], bytes_of(x))) {
      if (place < places.size() && places[place]) return true;
    }
  }
  return false;
}

std::vector<size_t> Invariants::yielding() const {
  const auto any_in = [&](size_t block, auto holds) {
    return std::any_of(code_.begin() + std::ptrdiff_t(blocks_[block].begin),
                       code_.begin() + std::ptrdiff_t(blocks_[block].end), holds);
  };
  const auto is_atomic = [](const Instruction& x) {
    return begins(x.called, "simt_count_atomic") || begins(x.called, "simt_count_update");
  };
  std::vector<const Loop*> loops;
  for (const Loop& loop : loops_) {
    if (std::any_of(loop.blocks.begin(), loop.blocks.end(), [&](size_t block) { return any_in(block, is_atomic); }))
      loops.push_back(&loop);
  }
  if (loops.empty()) return {};
  // What depends on the results of atomics, and the blocks that end with a branch that goes by it.
  std::vector<std::vector<char>> before(blocks_.size());
  std::set<size_t> deciding;
  before[0].assign(places_, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const size_t block : order_) {
      std::vector<char> depends = before[block];
      if (depends.empty()) continue;
      bool is_announced = false;
      for (size_t i = blocks_[block].begin; i < blocks_[block].end; ++i) {
        const Instruction& x = code_[i];
        if (x.ends_block) {
          if (x.target && x.name != "jmp" && depends[flags]) deciding.insert(block);
          continue;
        }
        bool its = false;
        if (x.name != "call") {
          its = reads_any(x, depends);
        } else if (!is_part_of_the_code(x) && !reports_a_block(x) && !is_atomic(x)) {
          its = is_announced;
          for (const size_t argument : {2, 3, 4, 5, 8, 9, 16}) its |= depends[argument] != 0;
          is_announced = false;
        }
        is_announced |= is_atomic(x);
        for (const size_t place : written_by(i)) {
          if (place < places_) depends[place] = its && (x.name != "call" || place == 0 || place == 16);
        }
      }
      for (const size_t next : blocks_[block].next) {
        if (before[next].empty()) before[next].assign(places_, 0), changed = true;
        for (size_t place = 0; place < places_; ++place) {
          if (!depends[place] || before[next][place]) continue;
          before[next][place] = 1;
          changed = true;
        }
      }
    }
  }
  std::vector<char> reached(blocks_.size());
  std::vector<size_t> pending(deciding.begin(), deciding.end());
  while (!pending.empty()) {
    const size_t one = pending.back();
    pending.pop_back();
    for (const size_t next : blocks_[one].next) {
      if (std::exchange(reached[next], 1)) continue;
      const bool meets = any_in(next, [](const Instruction& x) {
        return begins(x.called, "simt_warp") || begins(x.called, "simt_block_barrier");
      });
      if (!meets) pending.push_back(next);
    }
  }
  std::vector<size_t> found;
  for (const Loop* loop : loops) {
    if (!reached[loop->header] &&
        std::none_of(loop->blocks.begin(), loop->blocks.end(), [&](size_t block) { return deciding.contains(block); }))
      continue;
    for (const size_t block : loop->blocks) {
      size_t i = blocks_[block].begin;
      while (i < blocks_[block].end && !reports_a_block(code_[i])) ++i;
      if (i == blocks_[block].end) continue;
      found.push_back(i);
      break;
    }
  }
  return found;
}

}  // namespace simt::counting
