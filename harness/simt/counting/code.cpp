#include "counting/code.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simt::counting {
namespace {

struct Instruction {
  uint64_t address = 0;
  std::string name;
  uint64_t target = 0;  ///< of a jump
  bool reports = false;
};

using Blocks = std::unordered_map<uint64_t, Block>;  // by the place, as an address in the file

/// nvcc's division of doubles, as an H100's counters have it where no operand is at the ends of the range.
bool is_division_of_doubles(std::string_view name) { return name == "divsd" || name == "vdivsd"; }

/// What a scalar floating-point instruction is; -1: none. Comparisons, conversions, divisions of floats and roots are
/// left out: a GPU has no one instruction for them, or no counter.
int operation_of(std::string_view name) {
  if (name.size() > 1 && name[0] == 'v') name.remove_prefix(1);
  if (name.size() < 5) return -1;
  const std::string_view type = name.substr(name.size() - 2);
  if (type != "ss" && type != "sd") return -1;
  const int of_double = type == "sd" ? int(Operation::dadd) : int(Operation::fadd);
  name.remove_suffix(2);
  if (name == "add" || name == "sub") return of_double;
  if (name == "mul") return of_double + 1;
  const auto begins = [&](std::string_view with) { return name.substr(0, with.size()) == with; };
  return begins("fmadd") || begins("fmsub") || begins("fnmadd") || begins("fnmsub") ? of_double + 2 : -1;
}

bool ends_a_function(const std::string& name) { return name == "ret" || name == "ud2" || name == "hlt"; }

/// One function as a graph of the blocks that report themselves.
class Function {
 public:
  explicit Function(std::vector<Instruction> code) : code_(std::move(code)) {
    for (size_t i = 0; i < code_.size(); ++i) {
      at_[code_[i].address] = int(i);
      if (!code_[i].reports || i + 1 == code_.size()) continue;
      node_[int(i)] = int(first_.size());
      first_.push_back(int(i) + 1);
    }
  }

  void add_to(Blocks& blocks) {
    if (first_.empty()) return;
    const int end = int(first_.size());
    std::vector<Block> found(first_.size());
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
      blocks[code_[first_[n]].address] = found[n];
    }
  }

 private:
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
        if (const int operation = operation_of(x.name); operation >= 0) ++block.operations[operation];
        if (is_division_of_doubles(x.name)) {
          block.operations[int(Operation::dfma)] += 7;
          block.operations[int(Operation::dmul)] += 1;
          block.operations[int(Operation::ffma)] += 1;
        }
        if (ends_a_function(x.name)) {
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
  std::unordered_map<uint64_t, int> at_;    // address to instruction
  std::unordered_map<int, int> node_;       // the reporting call to its node
  std::vector<int> first_;                  // of each node: the instruction behind its call
  std::vector<std::pair<int, int>> after_;  // edges
  std::vector<std::vector<int>> before_;
};

std::string lines_of(const std::string& command) {
  std::string all;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return all;
  char part[1 << 16];
  while (const size_t count = std::fread(part, 1, sizeof part, pipe)) all.append(part, count);
  pclose(pipe);
  return all;
}

/// "  1a2b:	jmp    1a40 <name+0x20>" as objdump prints it.
bool read(std::string_view line, Instruction& out) {
  const size_t colon = line.find(':');
  if (line.empty() || line[0] != ' ' || colon == std::string_view::npos) return false;
  const size_t first = line.find_first_not_of(' ');
  if (std::from_chars(line.data() + first, line.data() + colon, out.address, 16).ec != std::errc()) return false;
  std::string_view rest = line.substr(colon + 1);
  const auto word = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    const std::string_view found = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(found.size());
    return found;
  };
  std::string_view name = word();
  while (name == "notrack" || name == "bnd" || name == "rep" || name == "repz") name = word();
  if (name.empty()) return false;
  out.name = name;
  if (name[0] == 'j') {
    const std::string_view target = word();
    std::from_chars(target.data(), target.data() + target.size(), out.target, 16);
  }
  out.reports = name == "call" && line.find("__sanitizer_cov_trace_pc") != std::string_view::npos;
  return true;
}

Blocks read_blocks(const std::string& file) {
  const std::string text = lines_of("objdump -d --no-show-raw-insn '" + file + "' 2>/dev/null");
  Blocks blocks;
  std::vector<Instruction> code;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Instruction instruction;
    if (read(std::string_view(text).substr(begin, end - begin), instruction))
      code.push_back(std::move(instruction));
    else if (!code.empty())
      Function(std::exchange(code, {})).add_to(blocks);
  }
  if (!code.empty()) Function(std::move(code)).add_to(blocks);
  return blocks;
}

}  // namespace

const Block& block_at(uint64_t place) {
  static std::mutex mutex;
  static std::map<std::string, Blocks> files;
  static std::unordered_map<uint64_t, Block> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(place);
  if (!is_new) return found->second;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(place), &info) || !info.dli_fname) return found->second;
  const auto [file, is_first] = files.try_emplace(info.dli_fname);
  if (is_first) file->second = read_blocks(info.dli_fname);
  const uint64_t base = reinterpret_cast<uint64_t>(info.dli_fbase);
  if (const auto block = file->second.find(place - base); block != file->second.end()) {
    found->second = block->second;
    if (found->second.meets_at) found->second.meets_at += base;
  }
  return found->second;
}

}  // namespace simt::counting
