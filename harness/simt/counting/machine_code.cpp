#include "counting/machine_code.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace simt::counting {
namespace {

constexpr std::string_view prefixes[] = {"notrack", "bnd", "rep", "repz", "repnz", "lock", "cs", "data16", "rex.W"};

/// The operands of an instruction: commas within parentheses do not part them.
std::vector<std::string> operands_in(std::string_view text) {
  std::vector<std::string> found;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (i > begin) found.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return found;
}

uint64_t hexadecimal(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

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
  while (std::find(std::begin(prefixes), std::end(prefixes), name) != std::end(prefixes)) name = word();
  if (name.empty()) return false;
  out.name = name;
  const std::string_view operands = word();
  out.ends_block = name[0] == 'j' || name == "ret" || name == "ud2" || name == "hlt";
  if (name[0] == 'j') {
    out.target = hexadecimal(operands);
  } else if (name == "call") {
    if (const size_t open = rest.find('<'); open != std::string_view::npos && operands[0] != '*') {
      const std::string_view called = rest.substr(open + 1, rest.rfind('>') - open - 1);
      out.called = called.substr(0, called.find('@'));
    }
  } else {
    out.operands = operands_in(operands);
    if (const size_t comment = rest.find("# "); comment != std::string_view::npos)
      out.refers_to = hexadecimal(rest.substr(comment + 2));
  }
  return true;
}

}  // namespace

std::vector<std::vector<Instruction>> functions_in(std::string_view text) {
  std::vector<std::vector<Instruction>> functions(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    Instruction instruction;
    if (read(text.substr(begin, end - begin), instruction))
      functions.back().push_back(std::move(instruction));
    else if (!functions.back().empty())
      functions.emplace_back();
    begin = end + 1;
  }
  if (functions.back().empty()) functions.pop_back();
  return functions;
}

bool is_move(std::string_view name) { return name.starts_with("mov") || name.starts_with("vmov"); }
bool is_sum(const Instruction& x) { return x.name.starts_with("vadds") || x.name.starts_with("vsubs"); }
bool reports_a_block(const Instruction& instruction) { return instruction.called == "__sanitizer_cov_trace_pc"; }
bool reports_a_division(const Instruction& instruction) { return instruction.called == "simt_count_division"; }
bool finds_thread_variables(const Instruction& instruction) { return instruction.called == "__tls_get_addr"; }

Memory memory_operand(std::string_view operand) {
  const size_t open = operand.find('(');
  if (open == std::string_view::npos || operand[0] == '%' || operand[0] == '*') return {};
  Memory found;
  found.is_one = true;
  std::string_view displacement = operand.substr(0, open);
  const bool negative = !displacement.empty() && displacement[0] == '-';
  if (negative) displacement.remove_prefix(1);
  if (displacement.starts_with("0x")) displacement.remove_prefix(2);
  found.displacement = int64_t(hexadecimal(displacement)) * (negative ? -1 : 1);
  const std::string_view inside = operand.substr(open + 1, operand.find(')') - open - 1);
  const size_t comma = inside.find(',');
  found.base = inside.substr(0, comma);
  if (comma != std::string_view::npos) {
    const std::string_view index = inside.substr(comma + 1);
    const size_t second = index.find(',');
    found.index = index.substr(0, second);
    if (second != std::string_view::npos) found.scale = index[second + 1] - '0';
  }
  found.is_relative = found.base == "%rip";
  return found;
}

}  // namespace simt::counting
