#include "counting/code.hpp"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "counting/machine_code.hpp"
#include "counting/text/pragmas.hpp"
#include "counting/values.hpp"

namespace simt::counting {
namespace {

/// `base`: where the file's first byte is in memory.
Program read_program(const std::string& file, const char* base) {
  const std::string text = output_of("objdump -d --no-show-raw-insn '" + file + "' 2>/dev/null");
  const ReadConstant read = [base](uint64_t address) {
    uint64_t bits = 0;
    std::memcpy(&bits, base + address, sizeof bits);
    return bits;
  };
  Program program;
  for (std::vector<Instruction>& code : functions_in(text)) add_function(std::move(code), read, file, program);
  std::vector<uint64_t> loops;
  for (const auto& [place, block] : program.blocks) {
    if (!block.unrolled.empty()) loops.push_back(place);
  }
  for (const auto& [place, by] : told_to_unroll(file, loops)) {
    Block& block = program.blocks[place];
    if (by != block.unrolled_by) block.joined = {};
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
    for (uint64_t& its : found->second.guarded.header) its += base;
    for (uint64_t& its : found->second.guarded.inside) its += base;
    found->second.joined.loads.clear();
    for (const auto& [its, log2] : block->second.joined.loads) found->second.joined.loads[its + base] = log2;
  }
  return found->second;
}

Access access_at(uint64_t place) {
  const std::lock_guard lock(mutex);
  const auto [program, base] = program_of(place);
  if (!program) return {};
  const auto parts = program->joins.find(place - base);
  return {parts == program->joins.end() ? std::nullopt : std::optional(parts->second),
          program->loaded_before.contains(place - base)};
}

}  // namespace simt::counting
