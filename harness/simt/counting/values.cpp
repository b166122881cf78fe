#include "counting/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace simt::counting {
namespace {

constexpr size_t general = 16, vectors = 16, registers = general + vectors;
constexpr size_t rax = 0, rdx = 3, rsp = 7;
constexpr uint32_t stack = 1, aligned_stack = 2, thread_variables = 3, first_base = 16;
constexpr int all = 64;
constexpr size_t most_sides = 8;  // of a choice, in blocks

struct Register {
  size_t number = registers;  // none
  int width = 0;              // bits
  explicit operator bool() const { return number < registers; }
};

const std::unordered_map<std::string, Register>& names() {
  static const auto* const known = [] {
    auto* const map = new std::unordered_map<std::string, Register>;
    const std::array<std::string, 8> old = {"ax", "bx", "cx", "dx", "si", "di", "bp", "sp"};
    for (size_t i = 0; i < 8; ++i) {
      (*map)["%r" + old[i]] = {i, 64};
      (*map)["%e" + old[i]] = {i, 32};
      (*map)["%" + old[i]] = {i, 16};
      (*map)[i < 4 ? "%" + old[i].substr(0, 1) + "l" : "%" + old[i] + "l"] = {i, 8};
    }
    for (size_t i = 8; i < general; ++i) {
      const std::string name = "%r" + std::to_string(i);
      (*map)[name] = {i, 64};
      (*map)[name + "d"] = {i, 32};
      (*map)[name + "w"] = {i, 16};
      (*map)[name + "b"] = {i, 8};
    }
    for (size_t i = 0; i < vectors; ++i) {
      (*map)["%xmm" + std::to_string(i)] = {general + i, 128};
      (*map)["%ymm" + std::to_string(i)] = {general + i, 256};
    }
    return map;
  }();
  return *known;
}

Register register_named(const std::string& operand) {
  const auto found = names().find(operand);
  return found == names().end() ? Register{} : found->second;
}

bool is_stack(uint32_t base) { return base == stack || base == aligned_stack; }

uint64_t mask(int bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

Value keep(Value value, int known) {
  value.known = std::clamp(known, 0, all);
  value.bits &= mask(value.known);
  return value;
}

Value common(const Value& a, const Value& b) {
  const uint64_t differ = a.bits ^ b.bits;
  return keep(a, std::min({a.known, b.known, differ ? std::countr_zero(differ) : all}));
}

/// Of a product the zeros at the end of one factor shift what is known of the other.
int zeros(const Value& value) { return value.bits ? std::countr_zero(value.bits) : value.known; }

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Bits that an instruction writes to memory: by the suffix, or by the register beside it.
int width_of(const Instruction& x) {
  for (const std::string& operand : x.operands) {
    if (const Register found = register_named(operand)) {
      if (found.width < 128) return found.width;
      if (begins(x.name, "vmovs") || begins(x.name, "movs")) return x.name.back() == 's' ? 32 : 64;
      if (is_one_of(x.name, {"vmovd", "movd"})) return 32;
      if (is_one_of(x.name, {"vmovq", "movq", "vmovlps", "vmovhps", "vmovlpd", "vmovhpd", "movlps", "movhps"}))
        return 64;
      return found.width;
    }
  }
  switch (x.name.back()) {
    case 'b':
      return 8;
    case 'w':
      return 16;
    case 'l':
      return 32;
    default:
      return 64;
  }
}

}  // namespace

size_t register_number(const std::string& operand) { return register_named(operand).number; }

Values::Values(const std::vector<Instruction>& code, const ReadConstant& read) : code_(code), read_constant_(read) {
  std::unordered_map<uint64_t, size_t> at;
  for (size_t i = 0; i < code.size(); ++i) at[code[i].address] = i;
  std::set<size_t> firsts = {0};
  for (size_t i = 0; i < code.size(); ++i) {
    if (!code[i].ends_block) continue;
    if (i + 1 < code.size()) firsts.insert(i + 1);
    if (const auto target = at.find(code[i].target); code[i].target && target != at.end())
      firsts.insert(target->second);
  }
  first_.assign(firsts.begin(), firsts.end());
  const size_t blocks = first_.size();
  std::unordered_map<size_t, size_t> block_of;
  for (size_t b = 0; b < blocks; ++b) block_of[first_[b]] = b;
  first_.push_back(code.size());
  next_.resize(blocks);
  before_.resize(blocks);
  for (size_t b = 0; b < blocks; ++b) {
    const Instruction& last = code[first_[b + 1] - 1];
    if (last.target) {
      if (const auto target = at.find(last.target); target != at.end()) next_[b].push_back(block_of[target->second]);
    }
    if (b + 1 < blocks && (!last.ends_block || (last.target && last.name != "jmp"))) next_[b].push_back(b + 1);
  }
  before_it_.resize(blocks);
  for (size_t b = 0; b < blocks; ++b) {
    for (const size_t next : next_[b]) before_it_[next].push_back(b);
  }
  if (blocks == 0) return;
  before_[0].is_reached = true;
  before_[0].at.resize(registers);
  before_[0].at[rsp].base = stack;
  const std::vector<char> is_header = loop_headers();
  std::deque<size_t> pending = {0};
  while (!pending.empty()) {
    const size_t block = pending.front();
    pending.pop_front();
    enter(block);
    for (size_t i = first_[block]; i < first_[block + 1]; ++i) execute(i);
    for (const size_t next : next_[block]) {
      if (join(before_[next], is_header[next]) && std::find(pending.begin(), pending.end(), next) == pending.end())
        pending.push_back(next);
    }
  }
}

void Values::for_each(const std::function<void(size_t)>& visit, const std::function<void(size_t)>& begin) {
  const auto run = [&](size_t block, bool visited) {
    for (size_t i = first_[block]; i < first_[block + 1]; ++i) {
      if (visited) visit(i);
      execute(i);
    }
  };
  size_t behind = 0;  // a choice: the block that continues the one before it
  for (size_t block = 0; block < before_.size(); ++block) {
    if (!before_[block].is_reached) continue;
    if (block != behind || block == 0) {
      enter(block);
      begin(first_[block]);
    }
    run(block, true);
    behind = behind_choice(block);
    if (!behind) continue;
    // What no side changes has the same value behind them.
    std::vector<Value> kept = now_;
    for (size_t side = block + 1; side < behind; ++side) {
      now_ = kept;
      run(side, false);
      kept.resize(std::max(kept.size(), now_.size()));
      for (size_t i = 0; i < now_.size(); ++i) {
        if (kept[i].base == now_[i].base && kept[i].offset == now_[i].offset && kept[i].known == now_[i].known)
          continue;
        kept[i] = common(kept[i], now_[i]);
        kept[i].base = ++last_base_;
      }
    }
    const auto names = std::tuple(bases_, summands_, last_base_);
    for (size_t side = block + 1; side < behind; ++side) {
      enter(side);
      run(side, true);
    }
    now_ = kept;
    std::tie(bases_, summands_, last_base_) = names;
    block = behind - 1;
  }
}

bool Values::only_copies(size_t block) const {
  return std::all_of(code_.begin() + std::ptrdiff_t(first_[block]), code_.begin() + std::ptrdiff_t(first_[block + 1]),
                     [](const Instruction& x) {
                       const bool clears = x.operands.size() > 1 && x.operands[0] == x.operands[1] &&
                                           (begins(x.name, "xor") || begins(x.name, "vxorp"));
                       return reports_a_block(x) || clears || begins(x.name, "nop") || begins(x.name, "mov") ||
                              begins(x.name, "vmov") || begins(x.name, "cmp") || begins(x.name, "test") ||
                              begins(x.name, "vucomis") || begins(x.name, "vcomis") ||
                              (x.ends_block && x.name[0] == 'j');
                     });
}

size_t Values::behind_choice(size_t block) const {
  if (next_[block].size() < 2) return 0;
  size_t behind = block + 1;
  while (behind < next_.size() && behind - block <= most_sides && only_copies(behind)) ++behind;
  // The nearest block that all ways lead to, and no other.
  for (size_t one = block + 2; one <= std::min(behind, next_.size() - 1); ++one) {
    const auto all_between = [](const std::vector<size_t>& blocks, size_t first, size_t last) {
      return std::all_of(blocks.begin(), blocks.end(), [&](size_t b) { return b >= first && b <= last; });
    };
    bool is_behind = true;
    for (size_t b = block; b < one; ++b)
      is_behind &= all_between(next_[b], block + 1, one) && all_between(before_it_[b + 1], block, one - 1);
    if (is_behind) return one;
  }
  return 0;
}

std::vector<Value> Values::along(const std::vector<std::pair<size_t, size_t>>& blocks, size_t at,
                                 const std::string& operand) {
  std::vector<Value> found;
  const auto first = std::find(first_.begin(), first_.end(), blocks.at(0).first);
  if (first == first_.end() || !before_[size_t(first - first_.begin())].is_reached) return found;
  enter(size_t(first - first_.begin()));
  for (const auto& [begin, end] : blocks) {
    for (size_t i = begin; i < end; ++i) {
      if (i == at) found.push_back(read(operand));
      execute(i);
    }
  }
  return found;
}

Value Values::of(const std::string& operand) const { return read(operand); }

/// Within a block each place has a base of its own, unless it is known to point into the stack or to differ from
/// another place by a constant.
void Values::enter(size_t block) {
  now_ = before_[block].at;
  bases_.clear();
  summands_.clear();
  last_base_ = first_base;
  std::unordered_map<uint32_t, uint32_t> today;
  for (Value& value : now_) {
    if (is_stack(value.base)) continue;
    uint32_t& base = today[value.base];
    if (!value.base || !base) base = ++last_base_;  // 0: nothing is known of it
    value.base = base;
  }
}

/// Of each block whether a way leads back to it from where it leads to.
std::vector<char> Values::loop_headers() const {
  std::vector<char> found(next_.size());
  enum class Seen : char { no, now, done };
  std::vector<Seen> seen(next_.size());
  std::vector<std::pair<size_t, size_t>> path{{0, 0}};  // depth first: blocks, and which of their ways comes next
  seen[0] = Seen::now;
  while (!path.empty()) {
    auto& [block, way] = path.back();
    if (way == next_[block].size()) {
      seen[block] = Seen::done;
      path.pop_back();
      continue;
    }
    const size_t next = next_[block][way++];
    found[next] |= char(seen[next] == Seen::now);
    if (std::exchange(seen[next], seen[next] == Seen::no ? Seen::now : seen[next]) == Seen::no)
      path.emplace_back(next, 0);
  }
  return found;
}

/// Places have a base in common before a block if they have in all that comes before it, with the same difference. A
/// base is a value at one moment: whatever is written later has another one.
/// Of several constants that meet behind branches nothing is known: g++ makes such cases of loops that it tries out,
/// and nvcc keeps these loops.
bool Values::join(State& into, bool begins_a_loop) const {
  if (!into.is_reached) {
    into.is_reached = true;
    into.at = now_;
    return true;
  }
  bool changed = false;
  const Value nothing;
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, uint32_t> bases;
  std::set<uint32_t> before, now;
  uint32_t last = first_base;
  for (size_t i = 0; i < into.at.size(); ++i) {
    Value& old = into.at[i];
    const Value& other = i < now_.size() ? now_[i] : nothing;
    const bool are_cases =
        !begins_a_loop && old.known >= all / 2 && other.known >= all / 2 && uint32_t(old.bits) != uint32_t(other.bits);
    Value both = are_cases ? Value{} : common(old, other);
    const bool same_stack = old.base == other.base && old.offset == other.offset;
    if (!is_stack(old.base) || !same_stack) {
      uint32_t& base = bases[{old.base, other.base, old.offset - other.offset}];
      if (!base && old.base && other.base) base = ++last;
      both.base = base;
      if (old.base) before.insert(old.base);
      if (base) now.insert(base);
    }
    changed |= both.known != old.known || (old.base && !both.base);
    old = both;
  }
  return changed || now.size() > before.size();
}

Value Values::fresh(int known, uint64_t bits) const { return keep({.base = ++last_base_, .bits = bits}, known); }

uint32_t Values::base_of(uint32_t a, uint32_t b, int64_t c) const {
  uint32_t& base = bases_[{a, b, c}];
  if (!base) base = ++last_base_;
  return base;
}

Value Values::sum(const Value& a, const Value& b, int64_t more) const {
  const int known = std::min(a.known, b.known);
  const uint64_t bits = a.bits + b.bits + uint64_t(more);
  if (b.known == all) return keep({a.base, a.offset + int64_t(b.bits) + more, 0, bits}, known == all ? all : a.known);
  if (a.known == all) return keep({b.base, b.offset + int64_t(a.bits) + more, 0, bits}, b.known);
  const uint32_t base = base_of(std::min(a.base, b.base), std::max(a.base, b.base), 1);
  // Twice a number is even: x + x, and (y + x) + x.
  const auto doubled = [&](const Value& x, const Value& rest, int64_t others) {
    return keep({base, a.offset + b.offset + more, 0, 2 * x.bits + rest.bits + uint64_t(others + more)},
                std::min(x.known + 1, rest.known));
  };
  if (a.base && a.base == b.base) return doubled(a, {.known = all}, b.offset - a.offset);
  for (const auto& [sum_of, other] : {std::pair(a, b), std::pair(b, a)}) {
    const auto parts = summands_.find(sum_of.base);
    if (parts == summands_.end() || !other.base) continue;
    const auto& [one, two] = parts->second;
    const int64_t others = sum_of.offset - one.offset - two.offset;
    if (two.base == other.base) return doubled(two, one, others + other.offset - two.offset);
    if (one.base == other.base) return doubled(one, two, others + other.offset - one.offset);
  }
  summands_.insert({base, {a, b}});
  return keep({base, a.offset + b.offset + more, 0, bits}, known);
}

Value Values::product(const Value& a, const Value& b) const {
  const Value& by = a.known == all ? a : b;
  const Value& of = a.known == all ? b : a;
  Value found{.base = 0, .offset = 0, .known = 0, .bits = a.bits * b.bits};
  if (by.known == all && by.bits) {
    found.base = base_of(of.base, 0, int64_t(by.bits) << 1);
    found.offset = of.offset * int64_t(by.bits);
  } else {
    found.base = ++last_base_;
  }
  return keep(found, std::min({a.known + zeros(b), b.known + zeros(a), all}));
}

Value Values::address_of(const Memory& memory) const {
  Value sum_of{.base = 0, .offset = 0, .known = all, .bits = 0};
  const auto value = [&](const std::string& name) {
    const Register found = register_named(name);
    return found ? now_[found.number] : fresh();
  };
  if (!memory.base.empty()) sum_of = value(memory.base);
  if (!memory.index.empty()) {
    const Value scale{.base = 0, .offset = 0, .known = all, .bits = uint64_t(memory.scale)};
    const Value scaled = memory.scale == 1 ? value(memory.index) : product(value(memory.index), scale);
    sum_of = memory.base.empty() ? scaled : sum(sum_of, scaled, 0);
  }
  return sum(sum_of, {.base = 0, .offset = 0, .known = all, .bits = uint64_t(memory.displacement)}, 0);
}

Value Values::read(const std::string& operand, int width) const {
  if (operand[0] == '$') {
    const bool negative = operand[1] == '-';
    const uint64_t number = std::stoull(operand.substr(negative ? 2 : 1), nullptr, 16);
    return fresh(all, negative ? -number : number);
  }
  if (const Register found = register_named(operand)) return now_[found.number];
  const Memory memory = memory_operand(operand);
  if (!memory.is_one || memory.is_relative) return fresh();
  const Value address = address_of(memory);
  if (address.base == stack || address.base == aligned_stack) {
    const auto slot = slots_.find({address.base, address.offset});
    if (slot != slots_.end() && slot->second.place < now_.size()) {
      const Value& value = now_[slot->second.place];
      return keep(value, std::min(value.known, width));
    }
  }
  return fresh();
}

void Values::write_register(size_t number, Value value, int width) {
  // 32 bits clear the other half; fewer leave the rest as it was.
  if (width == 32 && number < general && value.known >= 32) {
    value.known = all;
    value.bits &= mask(32);
  }
  if (width < 32) value = fresh();
  now_[number] = value;
}

void Values::forget_slots(uint32_t in, int64_t offset, int bytes) {
  for (auto slot = slots_.lower_bound({in, offset - 7});
       slot != slots_.end() && slot->first < std::pair(in, offset + bytes); ++slot) {
    const auto& [place, wide] = slot->second;
    if (place < now_.size() && slot->first.second + wide > offset) now_[place] = fresh();
  }
}

void Values::write(const std::string& operand, Value value, int width) {
  if (const Register found = register_named(operand)) return write_register(found.number, value, width);
  const Memory memory = memory_operand(operand);
  if (!memory.is_one) return;
  const Value address = address_of(memory);
  if (address.base != stack && address.base != aligned_stack) return;
  forget_slots(address.base, address.offset, width / 8);
  if (width != 32 && width != 64) return;
  auto& [place, bytes] =
      slots_.try_emplace({address.base, address.offset}, Slot{registers + slots_.size()}).first->second;
  bytes = std::max(bytes, width / 8);
  if (now_.size() <= place) now_.resize(place + 1);
  now_[place] = keep(value, std::min(value.known, width));
}

void Values::forget_registers_of_callee() {
  for (const size_t number : {0, 2, 3, 4, 5, 8, 9, 10, 11}) now_[number] = fresh();  // rax, rcx, rdx, rsi, rdi, r8-r11
  for (size_t number = general; number < registers; ++number) now_[number] = fresh();
}

void Values::execute(size_t index) {
  const Instruction& x = code_[index];
  const std::string& name = x.name;
  const auto constant = [](uint64_t bits) { return Value{.base = 0, .offset = 0, .known = all, .bits = bits}; };
  if (reports_a_division(x)) return;
  if (name == "call") {
    forget_registers_of_callee();
    // Multiples of 16: where dynamic shared memory begins, and __shared__ variables do, which g++ keeps per thread.
    if (x.called == "simt_dynamic_shared") now_[rax] = fresh(4, 0);
    if (finds_thread_variables(x))
      now_[rax] = keep({.base = base_of(thread_variables, 0, int64_t(last_relative_)), .bits = 0}, 4);
    return;
  }
  if (name == "push" || name == "pop") {
    const int64_t step = name == "push" ? -8 : 8;
    if (name == "pop") write(x.operands.at(0), fresh(), 64);
    now_[rsp] = sum(now_[rsp], constant(uint64_t(step)), 0);
    if (name == "push" && now_[rsp].base) forget_slots(now_[rsp].base, now_[rsp].offset, 8);
    return;
  }
  if (name == "leave") {
    now_[rsp] = fresh();
    return;
  }
  if (is_one_of(name, {"cltq", "cwtl"})) {
    now_[rax] = keep(fresh(all, now_[rax].bits), std::min(now_[rax].known, 31));
    return;
  }
  if (is_one_of(name, {"cltd", "cqto"})) {
    now_[rdx] = fresh();
    return;
  }
  if (x.ends_block || x.operands.empty() || begins(name, "nop") || begins(name, "cmp") || begins(name, "test") ||
      begins(name, "vucomis") || begins(name, "vcomis") || begins(name, "ucomis") || begins(name, "comis"))
    return;
  const std::string& to = x.operands.back();
  const int width = width_of(x);
  const size_t count = x.operands.size();
  if (count == 1) {
    if (begins(name, "mul") || begins(name, "imul") || begins(name, "div") || begins(name, "idiv"))
      now_[rax] = fresh(), now_[rdx] = fresh();
    else
      write(to, fresh(), width);
    return;
  }
  const std::string& from = x.operands.front();
  const bool adds = is_one_of(name, {"add", "addl", "addq"}), subtracts = is_one_of(name, {"sub", "subl", "subq"});
  if (count == 2 && is_one_of(name, {"mov", "movq", "movl", "movabs", "vmovd", "vmovq", "vmovss", "vmovsd", "vmovaps",
                                     "vmovapd", "vmovdqa", "vmovdqu", "vmovups", "vmovupd"})) {
    Value value = read(from, width);
    if (memory_operand(from).is_relative && register_named(to).number >= general && width <= 128)
      value = fresh(width == 32 ? 32 : all, read_constant_(x.refers_to));
    write(to, value, width);
  } else if (begins(name, "movs") && count == 2 && name != "movss" && name != "movsd") {  // with its sign
    const Value value = read(from);
    const int bits = name == "movslq" ? 32 : name[4] == 'w' ? 16 : 8;
    Value wide = keep(fresh(all, value.bits), std::min(value.known, bits - 1));
    if (value.known >= bits && !(value.bits >> (bits - 1) & 1)) wide = keep(fresh(all, value.bits & mask(bits)), all);
    wide.base = base_of(value.base, 0, 0);
    wide.offset = value.offset;
    write(to, wide, 64);
  } else if (name == "lea") {
    const Memory memory = memory_operand(from);
    if (memory.is_relative) last_relative_ = x.refers_to;
    write(to, memory.is_relative ? fresh() : address_of(memory), width);
  } else if (count == 2 && (adds || subtracts)) {
    Value by = read(from);
    if (subtracts) by = from == to ? by : keep(fresh(all, -by.bits), by.known);
    if (subtracts && from == to) return write(to, fresh(all, 0), width);
    write(to, sum(read(to), by, 0), width);
  } else if (begins(name, "imul")) {
    write(to, product(read(from), read(count == 3 ? x.operands[1] : to)), width);
  } else if (is_one_of(name, {"shl", "sal", "shll", "shlq"}) && from[0] == '$') {
    write(to, product(read(to), constant(1ull << (read(from).bits & 63))), width);
  } else if (is_one_of(name, {"shr", "sar"}) && from[0] == '$') {
    const int by = int(read(from).bits & 63);
    const Value value = read(to);
    write(to, fresh(std::min(value.known, width) - by, value.bits >> by), width);
  } else if (is_one_of(name, {"and", "andl", "andq"})) {
    const Value a = read(to), b = read(from);
    const Value zeros_of = b.known == all ? b : a, other = b.known == all ? a : b;
    int known = other.known;
    if (zeros_of.known == all)
      while (known < all && !(zeros_of.bits >> known & 1)) ++known;
    if (register_named(to).number == rsp)
      now_[rsp] = {.base = aligned_stack, .offset = 0, .known = 0, .bits = 0};
    else
      write(to, fresh(zeros_of.known == all ? known : std::min(a.known, b.known), a.bits & b.bits), width);
  } else if ((name == "xor" && from == to) || (begins(name, "vxorp") && from == x.operands[1]) ||
             (begins(name, "vpxor") && from == x.operands[1])) {
    write(to, fresh(all, 0), width);
  } else if (begins(name, "cmov")) {
    const Value either = common(read(to), read(from));
    write(to, fresh(either.known, either.bits), width);
  } else if (name == "xchg") {
    const Value a = read(from), b = read(to);
    write(from, b, width);
    write(to, a, width);
  } else {
    write(to, fresh(), width);
  }
}

}  // namespace simt::counting
