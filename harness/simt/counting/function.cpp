#include "counting/function.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "counting/invariants.hpp"
#include "counting/operations.hpp"
#include "counting/text/pragmas.hpp"

namespace simt::counting {
namespace {

bool is_copy(const Instruction& x) {
  return is_move(x.name) || x.name.starts_with("vcvts") || x.name.starts_with("nop") || x.name == "jmp" ||
         x.name == "vxorps" || x.name == "xchg";
}

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

  void add_to(Program& program, const ReadConstant& read, const std::string& file) {
    if (first_.empty()) return;
    Values values(code_, read);
    Joins joins(program.joins);
    values.for_each(
        [&](size_t i) {
          joins.visit(code_, i, values);
          const Operations its = operations_of(code_, i, values, read);
          if (its == Operations{}) return;
          add(operations_[branch_before(code_, i).value_or(i)], its);
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
      const Invariants::Guarded* const loop = invariants.guarded_by(i);
      if (!loop) {
        add(operations_[*before], its);
        continue;
      }
      Block::Guarded& guarded = guarded_[node_.at(int(loop->header.front()))];
      if (guarded.header.empty()) {
        for (const size_t report : loop->header) guarded.header.push_back(code_[report + 1].address);
        for (const size_t report : loop->inside) guarded.inside.push_back(code_[report + 1].address);
      }
      add(guarded.operations, its);
    }
    for (size_t i = 0; i + 1 < code_.size(); ++i) {
      if (invariants.is_loaded_before(i)) program.loaded_before.insert(code_[i + 1].address);
    }
    const int end = int(first_.size());
    std::vector<Block> found(first_.size());
    for (const Invariants::Unrolled& loop : invariants.unrolled()) {
      Block& first = found[size_t(node_.at(int(loop.reports.front())))];
      first.unrolled_by = loop.by;
      first.joined = joined_rounds(code_, values, loop);
      for (const size_t i : loop.reports) first.unrolled.push_back(code_[i + 1].address);
    }
    for (const auto& [node, guarded] : guarded_) found[size_t(node)].guarded = guarded;
    for (Block& block : found) block.is_beside_guarded = !guarded_.empty();
    for (const size_t i : invariants.yielding()) found[size_t(node_.at(int(i)))].yields = true;
    before_.resize(first_.size() + 1);
    for (int n = 0; n < end; ++n) {
      after_.push_back(follow(n));
      for (const int next : after_[n]) before_[next].push_back(n);
    }
    count(found);
    add_before_choosing(found);
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
      add(operations_[one.first_is_before || invariants.moved_to(first) ? first : one.before], its);
    }
  }
  /// Calls visit(i) for each instruction that can be reached from `from`, and goes on behind it where that is true.
  /// Returns whether the function's end can be reached.
  template <class Visit>
  bool walk(int from, const Visit& visit) const {
    bool ends = false;
    std::vector<int> pending{from};
    std::vector<char> seen(code_.size());
    while (!pending.empty()) {
      int i = pending.back();
      pending.pop_back();
      for (;; ++i) {
        if (i >= int(code_.size())) {
          ends = true;
          break;
        }
        if (std::exchange(seen[i], 1) || !visit(i)) break;
        const Instruction& x = code_[i];
        if (x.ends_block && !x.target && x.name[0] != 'j') {
          ends = true;
          break;
        }
        if (x.name[0] != 'j') continue;
        if (const auto target = at_.find(x.target); target != at_.end())
          pending.push_back(target->second);
        else
          ends = true;  // into another function
        if (x.name == "jmp") break;
      }
    }
    return ends;
  }
  /// The nodes that come next behind a node (the last one: the function's end), and what lies between.
  std::vector<int> follow(int node) {
    std::vector<int> next;
    const bool ends = walk(first_[node], [&](int i) {
      if (const auto its = node_.find(i); its != node_.end()) {
        next.push_back(its->second);
        return false;
      }
      if (operations_[i] != Operations{}) leading_to_[i].push_back(node);
      return true;
    });
    if (ends) next.push_back(int(first_.size()));
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    return next;
  }
  /// g++ may move an operation of one block behind another, to a place that no block reports, and that several lead to.
  /// Where the first of these comes before the others, and the place once behind it on all ways, the operation counts
  /// with that one, else with each.
  void count(std::vector<Block>& found) const {
    for (const auto& [i, nodes] : leading_to_) {
      const auto first = std::find_if(nodes.begin(), nodes.end(), [&, i = i, &nodes = nodes](int node) {
        return nodes.size() > 1 && is_once_behind(node, i, nodes);
      });
      for (const int node : nodes) {
        if (first == nodes.end() || node == *first) add(found[node].operations, operations_[i]);
      }
    }
  }
  /// Whether each way to one of `nodes` goes through `first`, and each way from there through instruction i, once.
  bool is_once_behind(int first, int i, const std::vector<int>& nodes) const {
    const auto node_at = [&](int at) {
      const auto found = node_.find(at);
      return found == node_.end() ? -1 : found->second;
    };
    bool others = false, around = false, again = false;
    walk(0, [&](int at) {
      if (node_at(at) == first) return false;
      others |= std::find(nodes.begin(), nodes.end(), node_at(at)) != nodes.end();
      return true;
    });
    const bool ends = walk(first_[first], [&](int at) {
      around |= node_at(at) == first;
      return at != i && node_at(at) != first;
    });
    walk(i + 1, [&](int at) {
      again |= at == i;
      return node_at(at) != first;
    });
    return !others && !ends && !around && !again;
  }
  /// A block that a branch may leave out, with one addition and nothing else but copies: nvcc adds in all lanes, and
  /// then chooses. The addition counts before the branch.
  void add_before_choosing(std::vector<Block>& found) const {
    for (int n = 0; n < int(first_.size()); ++n) {
      if (before_[n].size() != 1 || after_[n].size() != 1) continue;
      const int branch = before_[n].front();
      const std::vector<int>& ways = after_[branch];
      if (ways.size() != 2 || std::find(ways.begin(), ways.end(), after_[n].front()) == ways.end()) continue;
      int additions = 0;
      bool copies = true;
      walk(first_[n], [&](int i) {
        if (node_.contains(i)) return false;
        const Instruction& x = code_[i];
        additions += is_sum(x);
        copies &= is_sum(x) || is_copy(x);
        return true;
      });
      if (additions == 1 && copies) add(found[branch].operations, std::exchange(found[n].operations, {}));
    }
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
    meeting[end] = end;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = order.size() - 1; i-- > 0;) {
        const int node = order[i];
        int common = -1;
        for (const int next : after_[node]) {
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
  std::vector<Operations> operations_;            // of each instruction
  std::map<int, std::vector<int>> leading_to_;    // of each that has operations: the nodes before it
  std::unordered_map<uint64_t, int> at_;          // address to instruction
  std::map<int, Block::Guarded> guarded_;         // by node: loops that lanes may leave in their first block
  std::unordered_map<int, int> node_;             // the reporting call to its node
  std::vector<int> first_;                        // of each node: the instruction behind its call
  std::vector<std::vector<int>> after_, before_;  // of each node; before_ of the end, too
};

}  // namespace

void add_function(std::vector<Instruction> code, const ReadConstant& read, const std::string& file, Program& program) {
  Function(std::move(code)).add_to(program, read, file);
}

}  // namespace simt::counting
