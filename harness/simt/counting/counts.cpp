#include "counting/counts.hpp"

#include <dlfcn.h>
#include <simt.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>

#include "counting/code.hpp"

namespace simt::counting {
namespace {

std::atomic<bool> counting = false;
std::mutex mutex;
std::map<KernelName, KernelCounts> kernels;

constexpr const char* kind_names[] = {"code",          "together",       "zero_dividend", "grid_poll",
                                      "loop_entered",  "global_load",    "global_store",  "global_atomic",
                                      "shared_load",   "shared_store",   "shared_atomic", "constant_load",
                                      "shared_update", "shared_addition"};

/// Of one lane, once at a place.
Operations operations_at(uint64_t bits) {
  switch (kind_of(bits)) {
    case Kind::code:
      return block_at(address_of(bits)).operations;
    case Kind::loop_entered:
      return block_at(address_of(bits)).guarded.operations;
    case Kind::zero_dividend:
      return more_for_zero_dividend;
    default:
      return {};
  }
}

/// The operations of all lanes.
std::array<uint64_t, operation_names.size()> operations_of(const KernelCounts& counts) {
  std::array<uint64_t, operation_names.size()> sums{};
  for (const auto& [bits, place] : counts.places) {
    if (kind_of(bits) == Kind::shared_addition)
      sums[size_t((bits & 15) == 3 ? Operation::dadd : Operation::fadd)] += place.lanes;
    const Operations its = operations_at(bits);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += its[i] * place.lanes;
  }
  return sums;
}

void write(FILE* file, const KernelName& name, const KernelCounts& counts) {
  std::fprintf(file, "kernel\t%s\t%u\t%u\t%u\t%u\t%u\t%u\t%lu\t%lu\t%lu\n", name.name.c_str(), name.grid[0],
               name.grid[1], name.grid[2], name.block[0], name.block[1], name.block[2], counts.launches, counts.blocks,
               counts.warps);
  const auto operations = operations_of(counts);
  for (size_t i = 0; i < operations.size(); ++i)
    std::fprintf(file, "operations\t%s\t%lu\n", operation_names[i].data(), operations[i]);
  for (const auto& [bits, place] : counts.places) {
    // A part of the operations.
    if (kind_of(bits) == Kind::zero_dividend || kind_of(bits) == Kind::loop_entered) continue;
    const uint64_t address = address_of(bits);
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(address), &info) || !info.dli_fname) continue;
    // One less: what returns to the address is the call before it.
    std::fprintf(file, "place\t%s\t%lx\t%s\t%d\t%lu\t%lu\t%lu\t%lu\t%lu\n", info.dli_fname,
                 address - reinterpret_cast<uint64_t>(info.dli_fbase) - 1, kind_names[int(kind_of(bits))],
                 1 << (bits & 15), place.requests, place.lanes, place.units, place.ideal, place.parted);
  }
}

}  // namespace

void KernelCounts::add(const KernelCounts& other) {
  launches += other.launches;
  blocks += other.blocks;
  warps += other.warps;
  for (const auto& [bits, theirs] : other.places) {
    PlaceCounts& ours = places[bits];
    ours.requests += theirs.requests;
    ours.lanes += theirs.lanes;
    ours.units += theirs.units;
    ours.ideal += theirs.ideal;
    ours.parted += theirs.parted;
  }
}

bool wanted() { return counting.load(std::memory_order_relaxed); }

void add(const KernelName& kernel, const KernelCounts& counts) {
  const std::lock_guard lock(mutex);
  kernels[kernel].add(counts);
}

}  // namespace simt::counting

using namespace simt::counting;

extern "C" {

void simt_start_counting() {
  const std::lock_guard lock(mutex);
  kernels.clear();
  counting = true;
}

int simt_stop_counting(const char* path) {
  counting = false;
  const std::lock_guard lock(mutex);
  FILE* const file = std::fopen(path, "w");
  if (!file) return -1;
  for (const auto& [name, counts] : kernels) write(file, name, counts);
  return std::fclose(file);
}
}
