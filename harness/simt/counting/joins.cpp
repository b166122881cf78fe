#include "counting/joins.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

namespace simt::counting {
namespace {

constexpr int widest_log2 = 4;
constexpr uint64_t call_bytes = 5;            // of a direct call
constexpr int64_t most_of_all_rounds = 1200;  // instructions of g++, of a loop that nvcc 13.0 has unrolled whole

struct Report {
  bool is_store = false;
  int64_t bytes = 0;
  int aligned_log2 = 0;  ///< as far as is known
};

/// "__tsan_read4": a load of 4 bytes, "__tsan_unaligned_write8", and "__tsan_read_range" of any number. Volatile
/// accesses have other names.
std::optional<Report> access_reported_by(const std::vector<Instruction>& code, size_t call, const Values& values) {
  const std::string_view called = code[call].called;
  Report report;
  for (const std::string_view name :
       {"__tsan_read", "__tsan_write", "__tsan_unaligned_read", "__tsan_unaligned_write"}) {
    if (called.substr(0, name.size()) != name) continue;
    report.is_store = name.ends_with("write");
    const std::string_view bytes = called.substr(name.size());
    if (bytes == "_range") {
      const Value count = values.of("%rsi");
      if (count.known < 32) return {};
      report.bytes = int64_t(count.bits & UINT32_MAX);
    } else {
      const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), report.bytes);
      if (error != std::errc() || end != bytes.data() + bytes.size()) return {};
    }
  }
  if (report.bytes <= 0) return {};
  report.aligned_log2 = std::countr_zero(uint64_t(report.bytes));
  // "nopl 0x5(%rax)" behind the call: a multiple of 2^4 bytes (lessons/access_alignments.hpp).
  if (const Instruction* const next = call + 1 < code.size() ? &code[call + 1] : nullptr;
      next && next->name == "nopl") {
    const Memory said = memory_operand(next->operands.empty() ? "" : next->operands[0]);
    if (said.base == "%rax" && said.index.empty() && said.displacement > 0)
      report.aligned_log2 = int(said.displacement) - 1;
  }
  return report;
}

using Blocks = std::vector<std::pair<size_t, size_t>>;

/// How many rounds a loop has, if that is a constant. `blocks`: what comes before it, and two rounds.
std::optional<int64_t> rounds_of(const std::vector<Instruction>& code, Values& values, const Invariants::Unrolled& loop,
                                 const Blocks& blocks) {
  const Instruction& x = code[loop.ends_by];
  if (x.operands.size() != 2) return {};
  // It ends where a difference is 0: that of what is compared, or of a counter behind its step and 0.
  const bool is_step = !x.name.starts_with("cmp");
  if (is_step && !x.name.starts_with("sub")) return {};
  const std::vector<Value> a = values.along(blocks, loop.ends_by, x.operands[0]);
  const std::vector<Value> b = values.along(blocks, loop.ends_by, x.operands[1]);
  if (a.size() != 2 || b.size() != 2) return {};
  std::array<int64_t, 2> difference{};
  for (size_t round = 0; round < 2; ++round) {
    const bool are_known = a[round].known >= 32 && b[round].known >= 32;
    if (!are_known && a[round].base != b[round].base) return {};
    difference[round] = are_known ? int32_t(b[round].bits - a[round].bits) : b[round].offset - a[round].offset;
  }
  const int64_t step = difference[0] - difference[1];
  if (step == 0 || difference[0] % step != 0 || difference[0] / step < 0) return {};
  return difference[0] / step + 1;
}

}  // namespace

template <class Which>
void Joins::close(Which which) {
  for (size_t i = open_.size(); i-- > 0;) {
    if (!which(open_[i])) continue;
    join(open_[i]);
    open_.erase(open_.begin() + std::ptrdiff_t(i));
  }
}

void Joins::begin() {
  close([](const Chain&) { return true; });
}

void Joins::visit(const std::vector<Instruction>& code, size_t index, const Values& values) {
  const Instruction& x = code[index];
  if (x.name != "call" || finds_thread_variables(x) || reports_a_division(x) || reports_a_block(x)) return;
  const std::optional<Report> report = access_reported_by(code, index, values);
  if (!report) return begin();
  const bool is_store = report->is_store;
  const int size_log2 = std::min({std::countr_zero(uint64_t(report->bytes)), report->aligned_log2, widest_log2});
  const Value address = values.of("%rdi");
  close([&](const Chain& chain) {
    const bool is_same = chain.is_store == is_store && chain.size_log2 == size_log2 &&
                         chain.accesses.front().address.base == address.base;
    return (is_store || chain.is_store) && !is_same;  // they may be to the same memory
  });
  const uint64_t place = x.address + call_bytes;
  found_[place];  // no part of its own, if what follows finds none
  for (int64_t before = 0; before < report->bytes; before += int64_t(1) << size_log2) {
    Value piece = address;
    piece.offset += before;
    piece.bits += uint64_t(before);
    const int aligned_log2 =
        before ? std::min(report->aligned_log2, std::countr_zero(uint64_t(before))) : report->aligned_log2;
    if (!is_store && is_loaded(piece, size_log2)) continue;
    const auto chain = std::find_if(open_.begin(), open_.end(), [&](const Chain& c) {
      return c.is_store == is_store && c.size_log2 == size_log2 && c.accesses.front().address.base == address.base;
    });
    Chain& into = chain != open_.end() ? *chain : open_.emplace_back(Chain{is_store, size_log2, {}});
    into.accesses.push_back({place, before, piece, aligned_log2});
  }
}

bool Joins::is_loaded(const Value& address, int size_log2) const {
  const auto end = [](int64_t offset, int log2) { return offset + (int64_t(1) << log2); };
  return std::any_of(open_.begin(), open_.end(), [&](const Chain& chain) {
    return !chain.is_store && std::any_of(chain.accesses.begin(), chain.accesses.end(), [&](const Access& before) {
      return before.address.base == address.base && before.address.offset <= address.offset &&
             end(address.offset, size_log2) <= end(before.address.offset, chain.size_log2);
    });
  });
}

JoinedRounds joined_rounds(const std::vector<Instruction>& code, Values& values, const Invariants::Unrolled& loop) {
  JoinedRounds found;
  if (loop.before.begin == loop.before.end || loop.by < 2) return found;
  // Two rounds, with all that is not in each of them and without it.
  Blocks with = {{loop.before.begin, loop.before.end}}, without = with;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [begin, end, in_each_round] : loop.blocks) {
      with.emplace_back(begin, end);
      if (in_each_round) without.emplace_back(begin, end);
    }
  }
  const std::optional<int64_t> rounds = rounds_of(code, values, loop, without);
  found.of_all = rounds && *rounds * int64_t(loop.length) <= most_of_all_rounds;
  for (const auto& [begin, end, in_each_round] : loop.blocks) {
    for (size_t i = begin; i < end; ++i) {
      if (code[i].name != "call") continue;
      const std::optional<Report> report = access_reported_by(code, i, values);
      if (!report) continue;
      if (report->is_store) return {};
      const int size_log2 = std::countr_zero(uint64_t(report->bytes));
      const int log2 = std::min(widest_log2, size_log2 + int(std::bit_width(loop.by)) - 1);
      if (!in_each_round || size_log2 >= log2 || !std::has_single_bit(uint64_t(report->bytes))) continue;
      const auto is_joined = [&](const Blocks& blocks) {
        const std::vector<Value> address = values.along(blocks, i, "%rdi");
        if (address.size() != 2 || address[0].base != address[1].base) return false;
        const bool by_two = found.of_all && log2 == size_log2 + 1 && address[0].known >= log2;
        return (by_two || address[0].is_multiple(log2)) && address[1].offset - address[0].offset == report->bytes;
      };
      if (is_joined(with) && is_joined(without)) found.loads[code[i].address + call_bytes] = log2;
    }
  }
  return found;
}

void Joins::join(Chain& chain) {
  std::vector<size_t> order(chain.accesses.size());  // by address
  std::iota(order.begin(), order.end(), size_t(0));
  const auto access = [&](size_t number) -> const Access& { return chain.accesses[order[number]]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return chain.accesses[a].address.offset < chain.accesses[b].address.offset;
  });
  const int64_t size = int64_t(1) << chain.size_log2;
  for (size_t first = 0, count = 0; first < order.size(); first += count) {
    const Value& address = access(first).address;
    int64_t from = address.offset;
    int log2 = widest_log2;
    for (; log2 > chain.size_log2; --log2) {
      from = address.offset;
      if (access(first).aligned_log2 < log2 && !address.is_multiple(log2)) {
        if (chain.is_store || address.known < log2) continue;
        from -= int64_t(address.bits & ((uint64_t(1) << log2) - 1));  // the place of what nothing loads
      }
      for (count = 1; first + count < order.size(); ++count) {
        const int64_t next = access(first + count).address.offset;
        if (next < access(first + count - 1).address.offset + size || next + size > from + (int64_t(1) << log2)) break;
      }
      const size_t wanted = size_t(1) << (log2 - chain.size_log2);
      if (count == wanted || (!chain.is_store && 2 * count > wanted)) break;
    }
    if (log2 == chain.size_log2) {
      count = 1;
      from = address.offset;
    }
    const auto begin = order.begin() + std::ptrdiff_t(first);
    const Access& leader = chain.accesses[*std::min_element(begin, begin + std::ptrdiff_t(count))];
    found_[leader.place].push_back({log2, from - leader.address.offset + leader.before});
  }
}

}  // namespace simt::counting
