#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "options.hpp"
#include "simt/runtime.h"
#ifdef SIMT_CHECKED
#include <sanitizer/asan_interface.h>
#define SIMT_FORBID(address, bytes) __asan_poison_memory_region(address, bytes)
#define SIMT_ALLOW(address, bytes) __asan_unpoison_memory_region(address, bytes)
#else
#define SIMT_FORBID(address, bytes) (void)0
#define SIMT_ALLOW(address, bytes) (void)0
#endif

namespace simt::memory {
namespace {

constexpr size_t alignment = 256;           // CUDA's
constexpr size_t give_back_from = 1 << 16;  // smaller blocks keep their pages

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// What an allocation takes of the arena: its bytes, and unused addresses behind them.
size_t with_red_zone(size_t bytes) {
  const size_t used = round_up(std::max<size_t>(bytes, 1), alignment);
#ifdef SIMT_CHECKED
  // Large enough that an access past the end, by a tile of rows, does not reach the next allocation.
  return used + std::clamp<size_t>(used, 16 << 10, 1 << 20);
#else
  return used + 256;
#endif
}

/// First fit over free ranges in address order; neighbours merge again when they are freed.
class Arena {
 public:
  Arena() {
    total_ = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    // Twice as many addresses as memory, so that holes between allocations never are what runs out first.
    reserved_ = round_up(2 * total_, 1 << 21);
    void* range = MAP_FAILED;
    for (; reserved_ > 0; reserved_ /= 2) {
      range = mmap(nullptr, reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range != MAP_FAILED) break;
    }
    if (range == MAP_FAILED) return;
    madvise(range, reserved_, MADV_DONTDUMP);
    bounds.begin = static_cast<char*>(range);
    bounds.end = bounds.begin + reserved_;
    bounds.top = bounds.begin;
    free_[bounds.begin] = reserved_;
#ifdef SIMT_CHECKED
    watched_bytes = std::min(reserved_, round_up(total_ / 4 / (sizeof(races::Cell) / 4), 4096));
    cells = races::reserve_cells(watched_bytes / 4);
    if (!cells) watched_bytes = 0;
#endif
  }

  void* allocate(size_t bytes, int device) {
    const size_t needed = with_red_zone(bytes);
    std::lock_guard lock(mutex_);
    Use& use = uses_[size_t(device)];
    if (bytes > total() - std::min(total(), use.now)) return nullptr;
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [start, length] = *range;
      if (length < needed) continue;
      free_.erase(range);
      if (length > needed) free_[start + needed] = length - needed;
      live_[start] = {bytes, device};
      use.now += bytes;
      use.peak = std::max(use.peak, use.now);
      if (start + needed > bounds.top) bounds.top = start + needed;
      SIMT_FORBID(start, needed);
      SIMT_ALLOW(start, bytes);
      return start;
    }
    return nullptr;
  }

  bool release(void* address) {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<char*>(address));
    if (found == live_.end()) return false;
    release_locked(found);
    return true;
  }

  void release_all() {
    std::lock_guard lock(mutex_);
    while (!live_.empty()) release_locked(live_.begin());
  }

  bool is_allocated(const void* address, size_t bytes) {
    const char* a = static_cast<const char*>(address);
    std::lock_guard lock(mutex_);
    const auto after = live_.upper_bound(const_cast<char*>(a));
    if (after == live_.begin()) return false;
    const auto& [start, allocation] = *std::prev(after);
    return size_t(a - start) + bytes <= allocation.bytes;
  }

  std::string describe(const void* address) {
    char* a = static_cast<char*>(const_cast<void*>(address));
    std::lock_guard lock(mutex_);
    const auto after = live_.upper_bound(a);
    if (after == live_.begin()) return "in device memory that is not allocated";
    const auto& [start, found] = *std::prev(after);
    const size_t length = found.bytes;
    const std::string allocation = "a device allocation of " + std::to_string(length) + " bytes";
    if (size_t(a - start) < length) return "running over the end of " + allocation;
    const size_t past = size_t(a - start) - length;
    if (past == 0) return "just past the end of " + allocation;
    if (past < (1 << 20)) return std::to_string(past) + " bytes past the end of " + allocation;
    return "in device memory that is not allocated (or no longer)";
  }

  std::string describe_allocation(const void* address) {
    char* a = static_cast<char*>(const_cast<void*>(address));
    std::lock_guard lock(mutex_);
    const auto& [start, allocation] = *std::prev(live_.upper_bound(a));
    return "a device allocation of " + std::to_string(allocation.bytes) + " bytes (from its byte " +
           std::to_string(a - start) + " on)";
  }

  size_t total() const { return total_ / size_t(options::devices); }
  size_t free(int device) {
    std::lock_guard lock(mutex_);
    return total() - std::min(total(), uses_[size_t(device)].now);
  }
  size_t peak(int device, bool reset) {
    std::lock_guard lock(mutex_);
    Use& use = uses_[size_t(device)];
    const size_t peak = use.peak;
    if (reset) use.peak = use.now;
    return peak;
  }
  int device_of(const void* address) {
    char* a = static_cast<char*>(const_cast<void*>(address));
    std::lock_guard lock(mutex_);
    const auto after = live_.upper_bound(a);
    if (after == live_.begin()) return -1;
    const auto& [start, allocation] = *std::prev(after);
    return size_t(a - start) < allocation.bytes ? allocation.device : -1;
  }

 private:
  struct Allocation {
    size_t bytes;
    int device;
  };
  struct Use {
    size_t now = 0, peak = 0;
  };

  void release_locked(std::map<char*, Allocation>::iterator found) {
    const auto [start, allocation] = *found;
    const size_t bytes = allocation.bytes;
    live_.erase(found);
    uses_[size_t(allocation.device)].now -= bytes;
    const size_t length = with_red_zone(bytes);
    SIMT_FORBID(start, length);
    if (length >= give_back_from) {
      const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
      const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(start), page);
      const uintptr_t last = reinterpret_cast<uintptr_t>(start + length) / page * page;
      if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
    auto range = free_.emplace(start, length).first;
    if (const auto next = std::next(range); next != free_.end() && start + length == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range != free_.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == start) {
        before->second += range->second;
        free_.erase(range);
      }
    }
  }

  std::mutex mutex_;
  std::map<char*, Allocation> live_;
  std::map<char*, size_t> free_;
  std::array<Use, options::most_devices> uses_;
  size_t reserved_ = 0, total_ = 0;
};

Arena& arena() {
  static Arena& instance = *new Arena;  // never destroyed: destructors of the host's statics may still free
  return instance;
}

/// Ranges that modules and the host name to the runtime; few, and changed only between launches.
class Ranges {
 public:
  void add(const void* begin, const void* end) {
    std::lock_guard lock(mutex_);
    if (begin == end) return;
    ranges_[static_cast<const char*>(begin)] = static_cast<const char*>(end);
  }
  void remove(const void* begin) {
    std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<const char*>(begin));
  }
#ifdef SIMT_CHECKED
  races::Cell* cells(const void* address) {
    const char* a = static_cast<const char*>(address);
    std::lock_guard lock(mutex_);
    const auto after = ranges_.upper_bound(a);
    if (after == ranges_.begin()) return nullptr;
    const auto [begin, end] = *std::prev(after);
    if (a >= end) return nullptr;
    const char* const first = begin - uintptr_t(begin) % 4;
    auto& cells = cells_[begin];
    if (cells.empty()) cells.resize(size_t(end - first + 3) / 4);
    return &cells[size_t(a - first) / 4];
  }
  void forget_accesses() {
    std::lock_guard lock(mutex_);
    cells_.clear();
  }
#endif
  bool hold(const void* address, size_t bytes) {
    const char* a = static_cast<const char*>(address);
    std::lock_guard lock(mutex_);
    const auto after = ranges_.upper_bound(a);
    return after != ranges_.begin() && a + bytes <= std::prev(after)->second;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, const char*> ranges_;
#ifdef SIMT_CHECKED
  std::map<const char*, std::vector<races::Cell>> cells_;
#endif
};

Ranges& constants() {
  static Ranges& instance = *new Ranges;
  return instance;
}
Ranges& variables() {
  static Ranges& instance = *new Ranges;
  return instance;
}

}  // namespace

void fill_with_nonsense(void* address, size_t bytes) {
  uint64_t word = uint64_t(nonsense) << 32 | nonsense;
  char* a = static_cast<char*>(address);
  for (; bytes >= sizeof word; a += sizeof word, bytes -= sizeof word) std::memcpy(a, &word, sizeof word);
  std::memcpy(a, &word, bytes);
}

const void* unwritten(const void* address, size_t bytes) {
  if (!is_device(address)) return nullptr;
  const char* const end = static_cast<const char*>(address) + bytes;
  unsigned last = 0;
  for (const char* a = static_cast<const char*>(address) + -uintptr_t(address) % 4; end - a >= 4; a += 4) {
    unsigned word = 0;
    std::memcpy(&word, a, sizeof word);
    if (word == nonsense && last == nonsense) return a - 4;
    last = word;
  }
  return nullptr;
}

void* allocate(size_t bytes, int device) {
  void* address = arena().allocate(bytes, device);
  if (address) fill_with_nonsense(address, bytes);
  return address;
}
bool release(void* address) { return arena().release(address); }
void release_all() { arena().release_all(); }
size_t total_bytes() { return arena().total(); }
size_t free_bytes(int device) { return arena().free(device); }
size_t peak_bytes(int device, bool reset) { return arena().peak(device, reset); }
int device_of(const void* address) { return arena().device_of(address); }
bool is_allocated(const void* address, size_t bytes) {
  return is_device(address) ? arena().is_allocated(address, bytes)
                            : constants().hold(address, bytes) || variables().hold(address, bytes);
}
#ifdef SIMT_CHECKED
races::Cell* variable_cells(const void* address) { return variables().cells(address); }
void forget_accesses() {
  variables().forget_accesses();
  if (cells) madvise(cells, watched_bytes / 4 * sizeof(races::Cell), MADV_DONTNEED);
}
#endif
std::string describe(const void* address) { return arena().describe(address); }
std::string describe_allocation(const void* address) { return arena().describe_allocation(address); }

void add_constants(const void* begin, const void* end) { constants().add(begin, end); }
void remove_constants(const void* begin) { constants().remove(begin); }
bool is_constant(const void* address, size_t bytes) { return constants().hold(address, bytes); }
void add_variable(const void* begin, size_t bytes) { variables().add(begin, static_cast<const char*>(begin) + bytes); }
bool is_variable(const void* address, size_t bytes) { return variables().hold(address, bytes); }

}  // namespace simt::memory

extern "C" {
void simt_register_constants(const void* begin, const void* end) { simt::memory::add_constants(begin, end); }
}
