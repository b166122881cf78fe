#include "counting/code.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "counting/invariants.hpp"
#include "counting/machine_code.hpp"
#include "counting/operations.hpp"
#include "counting/text/pragmas.hpp"
#include "counting/values.hpp"

namespace simt::counting {
namespace {

/// By the place, as an address in the file.
struct Program {
  std::unordered_map<uint64_t, Block> blocks;
  std::unordered_map<uint64_t, Parts> joins;
};

/// One function as a graph of the blocks that report themselves.
class Function {
 public:
  explicit Function(std::vector<Instruction> code) : code_(std::move(code)), operations_(code_.size()) {
    for (size_t i = 0; i < code_.size(); ++i) {
      at_[code_[i].address] = int(i);
      if (!reports_a_block(code_[i]) || i + 1 == code_.size()) continue;
      node_[int(i)] = int(first_.size());
      first_.push_back(int(i) + 1);
    }
  }

  /// `file`: the module's.
  void add_to(Program& program, const ReadConstant& read, const std::string& file) {
    if (first_.empty()) return;
    Values values(code_, read);
    Joins joins(program.joins);
    values.for_each(
        [&](size_t i) {
          joins.visit(code_, i, values);
          const Operations its = operations_of(code_, i, values, read);
          Operations& to = operations_[branch_before(code_, i).value_or(i)];
          for (size_t o = 0; o < its.size(); ++o) to[o] += its[o];
        },
        [&](size_t) { joins.begin(); });
    joins.begin();
    const Invariants invariants(code_,
                                [&](size_t i) { return code_[i].called.empty() && operations_[i] != Operations{}; });
    std::vector<char> is_fused(code_.size());
    const auto is_exact = [&](size_t i) { return is_times_power_of_two(code_[i], read); };
    for (const Invariants::Fused& fused : invariants.fused(is_exact)) {
      operations_[fused.product] = {};
      for (const size_t i : fused.additions) {
        operations_[i] = multiply_add_for(operations_[i]);
        is_fused[i] = 1;
      }
    }
    count_once(invariants, file);
    for (size_t i = 0; i < code_.size(); ++i) {
      const auto before = invariants.moved_to(i);
      if (!before || is_fused[i]) continue;  // multiply-adds stay
      const Operations its = std::exchange(operations_[i], {});
      for (size_t o = 0; o < its.size(); ++o) operations_[*before][o] += its[o];
    }
    const int end = int(first_.size());
    std::vector<Block> found(first_.size());
    for (const Invariants::Unrolled& loop : invariants.unrolled()) {
      Block& first = found[size_t(node_.at(int(loop.reports.front())))];
      first.unrolled_by = loop.by;
      first.joined = joined_rounds(code_, values, loop);
      for (const size_t i : loop.reports) first.unrolled.push_back(code_[i + 1].address);
    }
    for (const size_t i : invariants.yielding()) found[size_t(node_.at(int(i)))].yields = true;
    before_.resize(first_.size() + 1);
    for (int n = 0; n < end; ++n) {
      for (const int next : follow(first_[n], found[n])) {
        before_[next].push_back(n);
        after_.emplace_back(n, next);
      }
    }
    const std::vector<int> meeting = post_dominators(end);
    for (int n = 0; n < end; ++n) {
      if (meeting[n] >= 0 && meeting[n] != end) found[n].meets_at = code_[first_[meeting[n]]].address;
      program.blocks[code_[first_[n]].address] = found[n];
    }
  }

 private:
  /// Products of the same operands. Where the first does not come before the others, nvcc joins those that unrolling
  /// has copied from one place in the text.
  void count_once(const Invariants& invariants, const std::string& file) {
    std::vector<Invariants::Repeated> all = invariants.repeated();
    std::erase_if(all, [&](const Invariants::Repeated& one) {
      return std::any_of(one.products.begin(), one.products.end(),
                         [&](size_t i) { return operations_[i] == Operations{}; });
    });
    std::vector<uint64_t> asked;
    for (const Invariants::Repeated& one : all) {
      for (const size_t i : one.products) {
        if (!one.first_is_before) asked.push_back(code_[i].address);
      }
    }
    const auto lines = lines_of(file, asked);
    for (const Invariants::Repeated& one : all) {
      const size_t first = one.products.front();
      const auto of_first = lines.find(code_[first].address);
      const auto is_of_one_line = [&](size_t i) {
        const auto its = lines.find(code_[i].address);
        return its != lines.end() && of_first != lines.end() && its->second == of_first->second;
      };
      if (!one.first_is_before && !std::all_of(one.products.begin(), one.products.end(), is_of_one_line)) continue;
      const Operations its = operations_[first];
      for (const size_t i : one.products) operations_[i] = {};
      Operations& to = operations_[one.first_is_before || invariants.moved_to(first) ? first : one.before];
      for (size_t o = 0; o < its.size(); ++o) to[o] += its[o];
    }
  }
  /// The nodes that come next behind instruction `from` (the last one: the function's end), and what lies between.
  std::vector<int> follow(int from, Block& block) const {
    const int end = int(first_.size());
    std::vector<int> next, pending{from};
    std::vector<char> seen(code_.size());
    while (!pending.empty()) {
      int i = pending.back();
      pending.pop_back();
      for (;; ++i) {
        if (i >= int(code_.size())) {
          next.push_back(end);
          break;
        }
        if (seen[i]) break;
        seen[i] = 1;
        const Instruction& x = code_[i];
        if (const auto node = node_.find(i); node != node_.end()) {
          next.push_back(node->second);
          break;
        }
        for (size_t o = 0; o < operations_[i].size(); ++o) block.operations[o] += operations_[i][o];
        if (x.ends_block && !x.target && x.name[0] != 'j') {
          next.push_back(end);
          break;
        }
        if (x.name[0] != 'j') continue;
        if (const auto target = at_.find(x.target); target != at_.end())
          pending.push_back(target->second);
        else
          next.push_back(end);  // into another function
        if (x.name == "jmp") break;
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    return next;
  }

  /// The immediate post-dominator of each node, by the iteration of Cooper, Harvey and Kennedy ("A Simple, Fast
  /// Dominance Algorithm", 2001) on the graph with its arrows turned round; -1 where the end cannot be reached.
  std::vector<int> post_dominators(int end) const {
    std::vector<int> number(end + 1, -1), order, meeting(end + 1, -1);
    std::vector<std::pair<int, size_t>> path{{end, 0}};
    std::vector<char> seen(end + 1);
    seen[end] = 1;
    while (!path.empty()) {  // depth first: children before their parents
      auto& [node, child] = path.back();
      if (child < before_[node].size()) {
        const int next = before_[node][child++];
        if (!std::exchange(seen[next], 1)) path.emplace_back(next, 0);
      } else {
        number[node] = int(order.size());
        order.push_back(node);
        path.pop_back();
      }
    }
    std::vector<std::vector<int>> after(end + 1);
    for (const auto& [from, to] : after_) after[from].push_back(to);
    meeting[end] = end;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = order.size() - 1; i-- > 0;) {
        const int node = order[i];
        int common = -1;
        for (const int next : after[node]) {
          if (meeting[next] < 0) continue;
          if (common < 0) {
            common = next;
            continue;
          }
          for (int other = next; common != other;) {
            while (number[common] < number[other]) common = meeting[common];
            while (number[other] < number[common]) other = meeting[other];
          }
        }
        if (meeting[node] != common) meeting[node] = common, changed = true;
      }
    }
    return meeting;
  }

  std::vector<Instruction> code_;
  std::vector<Operations> operations_;      // of each instruction
  std::unordered_map<uint64_t, int> at_;    // address to instruction
  std::unordered_map<int, int> node_;       // the reporting call to its node
  std::vector<int> first_;                  // of each node: the instruction behind its call
  std::vector<std::pair<int, int>> after_;  // edges
  std::vector<std::vector<int>> before_;
};

/// `base`: where the file's first byte is in memory.
Program read_program(const std::string& file, const char* base) {
  const std::string text = output_of("objdump -d --no-show-raw-insn '" + file + "' 2>/dev/null");
  const ReadConstant read = [base](uint64_t address) {
    uint64_t bits = 0;
    std::memcpy(&bits, base + address, sizeof bits);
    return bits;
  };
  Program program;
  for (std::vector<Instruction>& code : functions_in(text)) Function(std::move(code)).add_to(program, read, file);
  std::vector<uint64_t> loops;
  for (const auto& [place, block] : program.blocks) {
    if (!block.unrolled.empty()) loops.push_back(place);
  }
  for (const auto& [place, by] : told_to_unroll(file, loops)) {
    Block& block = program.blocks[place];
    if (by != block.unrolled_by) block.joined.clear();
    block.unrolled_by = by;
  }
  return program;
}

/// The program that a place belongs to, and the place in its file.
std::pair<const Program*, uint64_t> program_of(uint64_t place) {
  static std::map<std::string, Program> files;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(place), &info) || !info.dli_fname) return {};
  const auto [file, is_first] = files.try_emplace(info.dli_fname);
  if (is_first) file->second = read_program(info.dli_fname, static_cast<const char*>(info.dli_fbase));
  return {&file->second, reinterpret_cast<uint64_t>(info.dli_fbase)};
}

std::mutex mutex;

}  // namespace

const Block& block_at(uint64_t place) {
  static std::unordered_map<uint64_t, Block> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(place);
  if (!is_new) return found->second;
  const auto [program, base] = program_of(place);
  if (!program) return found->second;
  if (const auto block = program->blocks.find(place - base); block != program->blocks.end()) {
    found->second = block->second;
    if (found->second.meets_at) found->second.meets_at += base;
    for (uint64_t& its : found->second.unrolled) its += base;
    found->second.joined.clear();
    for (const auto& [its, log2] : block->second.joined) found->second.joined[its + base] = log2;
  }
  return found->second;
}

std::optional<Parts> parts_at(uint64_t place) {
  const std::lock_guard lock(mutex);
  const auto [program, base] = program_of(place);
  if (!program) return {};
  const auto parts = program->joins.find(place - base);
  return parts == program->joins.end() ? std::nullopt : std::optional(parts->second);
}

}  // namespace simt::counting
