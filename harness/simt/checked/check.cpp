// The checked build: every access of code compiled with AddressSanitizer comes through here.
//
// The compiler is told to call __asan_load4(address) and the like at each access instead of testing in place, and the
// linker (--wrap) to send these calls to __wrap___asan_load4 below. Inside a kernel the address must be one that a
// GPU's thread may touch; elsewhere it must not be device memory, and the ordinary test of AddressSanitizer follows. A
// counting build stands at the same place, with the call-backs of -fsanitize=thread.
#include "worker.hpp"

#ifdef SIMT_CHECKED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <simt/runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "fault.hpp"
#include "memory.hpp"

namespace simt {
namespace {

const uintptr_t shadow = [] {
  size_t scale = 0, offset = 0;
  __asan_get_shadow_mapping(&scale, &offset);
  return offset;
}();

/// What __asan_region_is_poisoned says, faster where it is asked most. A shadow byte stands for 8 bytes: 0 where all of
/// them may be touched, 1 to 7 where only that many may, negative where none.
bool poisoned(const void* address, size_t bytes) {
  if (bytes > 16) return __asan_region_is_poisoned(const_cast<void*>(address), bytes) != nullptr;
  const auto forbidden = [](uintptr_t a) {
    const auto allowed = *reinterpret_cast<const signed char*>((a >> 3) + shadow);
    return allowed != 0 && int(a & 7) >= allowed;
  };
  const auto first = reinterpret_cast<uintptr_t>(address);
  return forbidden(first) || forbidden(first + bytes - 1) || (bytes > 8 && forbidden(first + 8));
}

bool within(const void* address, size_t bytes, const void* begin, size_t length) {
  const auto a = reinterpret_cast<uintptr_t>(address), b = reinterpret_cast<uintptr_t>(begin);
  return a >= b && a + bytes <= b + length;
}

/// What AddressSanitizer knows of an address of the host: the kind of memory, and the block or variable.
struct HostMemory {
  explicit HostMemory(const void* address) {
    locate(address, address);
    // Near the end of a variable the next one may be named in its place; 64 bytes at least lie between the two.
    if (kind == "global" && !known) {
      const HostMemory next = *this;
      locate(static_cast<const char*>(address) - 64, address);
      if (!known) *this = next;
    }
  }
  std::string describe() const {
    if (kind == "stack" || kind == "stack-fake") return "the host's stack";
    if (kind == "heap") return "host memory (a heap or page-locked block of " + std::to_string(bytes) + " bytes)";
    if (kind == "global") return "the host's variable '" + std::string(name) + "'";
    return "host memory (a stack, or a mapped file)";
  }

  void locate(const void* near, const void* address) {
    kind = __asan_locate_address(const_cast<void*>(near), name, sizeof name, &begin, &bytes);
    known = within(address, 1, begin, bytes);
  }

  std::string_view kind;
  char name[128] = "";
  void* begin = nullptr;
  size_t bytes = 0;
  bool known = false;  ///< the address lies in a block or variable of the host, not merely near one
};

}  // namespace

const module::SharedVariable* Worker::shared_variable(const void* address) const {
  const auto next = std::ranges::upper_bound(shared_, address, {}, &module::SharedVariable::address);
  return next != shared_.begin() && within(address, 1, next[-1].address, next[-1].bytes) ? &next[-1] : nullptr;
}

bool Worker::is_in_shared(const void* address, size_t bytes) const {
  if (within(address, bytes, dynamic_shared_, launch_->call.dynamic_shared_bytes)) return true;
  const auto* const variable = shared_variable(address);
  return variable && within(address, bytes, variable->address, variable->bytes);
}

const char* Worker::own_place(const void* address, int rank) const {
  const auto* const a = static_cast<const char*>(address);
  const Worker& other = *launch_->cluster()[size_t(rank)];
  const bool is_dynamic = within(a, 1, other.dynamic_shared_, launch_->call.dynamic_shared_bytes);
  return is_dynamic ? dynamic_shared_ + (a - other.dynamic_shared_) : shared_begin_ + (a - other.shared_begin_);
}

bool Worker::may_access(const void* address, size_t bytes, bool write) {
  if (memory::is_device(address))
    return static_cast<const char*>(address) + bytes <= memory::bounds.top && !poisoned(address, bytes);
  if (running_->holds(address, bytes)) return !poisoned(address, bytes);
  const KernelCall& call = launch_->call;
  if (!write && within(address, bytes, call.arguments, call.argument_bytes)) return true;
  if (is_in_shared(address, bytes)) return true;
  if (const int rank = owner_in_cluster(address); rank >= 0) return is_in_shared(own_place(address, rank), bytes);
  if (memory::is_variable(address, bytes)) return !poisoned(address, bytes);
  if (write) return false;
  if (memory::is_constant(address, bytes)) return !poisoned(address, bytes);
  return module::is_read_only(address, bytes);
}

std::string Worker::refuse_access(const void* address, size_t bytes, Touch touch) {
  const bool write = touch != Touch::read;
  std::string what = std::string(touch == Touch::atomic ? "an atomic on "
                                 : write                ? "a write of "
                                                        : "a read of ") +
                     std::to_string(bytes) + " bytes ";
  if (running_->holds(address, bytes)) return what + "outside the thread's local variables";
  if (memory::is_device(address)) return what + memory::describe(address);
  if (reinterpret_cast<uintptr_t>(address) < 4096) return what + "of a null pointer";
  const size_t shared_bytes = launch_->call.dynamic_shared_bytes;
  if (within(address, 1, dynamic_shared_ - shared_guard, shared_bytes + 2 * shared_guard)) {
    return what + (address < dynamic_shared_ ? "before" : "past") + " the " + std::to_string(shared_bytes) +
           " bytes of dynamic shared memory of the launch";
  }
  for (const Worker* other : launch_->cluster()) {
    if (within(address, 1, other->dynamic_shared_ - shared_guard, shared_bytes + 2 * shared_guard))
      return what + (address < other->dynamic_shared_ ? "before" : "past") + " the " + std::to_string(shared_bytes) +
             " bytes of dynamic shared memory of another block of the cluster";
  }
  const HostMemory host(address);
  const module::SharedVariable* nearest = nullptr;
  for (const auto& variable : shared_) {
    // 64 bytes of guard stand beside each variable; within a page of them it is surely one that was meant, unless the
    // host has a block of its own there: thread-local variables lie on its heap.
    if (!within(address, 1, variable.address - 64, variable.bytes + 4096)) continue;
    if (!host.known || within(variable.address, 1, host.begin, host.bytes)) nearest = &variable;
  }
  if (nearest) {
    return what + "outside the __shared__ variable '" + nearest->name + "' of " + std::to_string(nearest->bytes) +
           " bytes";
  }
  if (memory::is_constant(address, 1)) return what + (write ? "in constant memory" : "outside a __constant__ variable");
  return what + "of " + host.describe();
}

void Worker::access(const void* address, size_t bytes, Touch touch, const void* place) {
  if (!may_access(address, bytes, touch != Touch::read)) {
    fault(cudaErrorIllegalAddress,
          [=, this] { return refuse_access(address, bytes, touch) + ", " + in_this_thread(source_line(place)); });
  }
  if (launch_->call.in_cluster && !memory::is_device(address)) {
    if (const int rank = owner_in_cluster(address); rank >= 0) access_cluster(rank, bytes, touch, place);
  }
  if (watching_) watch(address, bytes, touch, place);
}

void Worker::access_cluster(int rank, size_t bytes, Touch touch, const void* place) {
  const bool has_ended = launch_->cluster()[size_t(rank)]->has_ended_;
  if (!has_ended && !(watching_ && order_.may_not_have_begun(uint64_t(rank), launch_->first_run))) return;
  fault(cudaErrorIllegalAddress, [=, this] {
    return std::string(touch == Touch::read ? "a read of " : "a write of ") + std::to_string(bytes) +
           " bytes in the shared memory of block " + text(launch_->block_index(uint64_t(rank))) +
           (has_ended ? ", which has ended: this_cluster().sync() must come behind it, "
                      : ", which may not have begun: this_cluster().sync() must come before it, ") +
           in_this_thread(source_line(place));
  });
}

bool Worker::is_of_block(const void* address) const { return !memory::is_device(address) && !launch_->call.in_cluster; }

// ---------------------------------------------------------------------------------------------------------- races

inline races::Cell* Worker::shared_cells(const void* address) {
  const char* const a = static_cast<const char*>(address);
  if (memory::is_device(a)) {
    const auto offset = size_t(a - memory::bounds.begin);
    return offset < memory::watched_bytes ? memory::cells + offset / 4 : nullptr;
  }
  if (running_->holds(a, 1)) return nullptr;
  if (within(a, 1, dynamic_shared_, launch_->call.dynamic_shared_bytes))
    return dynamic_cells_ ? dynamic_cells_ + (a - dynamic_shared_) / 4 : nullptr;
  if (a >= static_begin_ && a < static_end_) return &static_cells_[size_t(a - static_begin_) / 4];
  if (const int rank = owner_in_cluster(a); rank >= 0) {
    Worker& other = *launch_->cluster()[size_t(rank)];
    if (a >= other.static_begin_ && a < other.static_end_)
      return &other.static_cells_[size_t(a - other.static_begin_) / 4];
    return other.dynamic_cells_ ? other.dynamic_cells_ + (a - other.dynamic_shared_) / 4 : nullptr;
  }
  return memory::variable_cells(a);
}

inline void Worker::watch(const void* address, size_t bytes, Touch touch, const void* place) {
  races::Cell* cell = shared_cells(address);
  if (!cell) return;
  if (touch == Touch::atomic) {
    find_unseen_writes();
    order_.atomic(address);
    refresh_moment();
  }
  const bool is_shared = !memory::is_device(address), of_block = is_of_block(address);
  const auto offset = int32_t(static_cast<const char*>(place) - static_cast<const char*>(launch_->call.kernel));
  races::Access now = now_;
  now.detail |= uint32_t(offset);
  if (touch != Touch::read) now.detail |= races::Access::write_bit;
  if (touch == Touch::atomic) now.detail |= races::Access::atomic_bit;
  const auto first = reinterpret_cast<uintptr_t>(address), end = first + bytes;
  if (!is_shared && size_t(static_cast<const char*>(address) - memory::bounds.begin) + bytes > memory::watched_bytes)
    return;
  for (uintptr_t word = first & ~uintptr_t(3); word < end; word += 4, ++cell) {
    unsigned mask = 15;
    if (word < first) mask &= 15u << (first - word);
    if (word + 4 > end) mask &= 15u >> (word + 4 - end);
    now.detail = (now.detail & ~races::Access::bytes_mask) | mask * races::Access::byte_bit;
    const auto* const at = reinterpret_cast<const volatile uint32_t*>(word);
    // What fills shared memory when a block begins, where this block has written nothing.
    if (is_shared && touch != Touch::write && *at == memory::nonsense && !has_unwritten_read() &&
        races::load(cell->write).run() != now.run())
      note_unwritten_read("the block reads " + describe_memory(address) + " before it writes there, at " +
                          source_line(place));
    if (touch != Touch::read) {
      const races::Access before = order_.write(*cell, now, of_block);
      if (before.moment != 0) fail_by_race(before, now, address, bytes);
      if (is_shared) {
        for (SmallWord& small : small_words_) small.seen |= small.word == at;
      }
      continue;
    }
    bool again = false;
    const races::Access before = order_.read(*cell, now, of_block, again);
    if (before.moment != 0) fail_by_race(before, now, address, bytes);
    if (again || bytes > 16) continue;
    if (reads_count_ == reads_.size()) find_unseen_writes();
    reads_[reads_count_++] = {at, *at, offset};
  }
}

void Worker::fail_by_race(const races::Access& before, const races::Access& now, const void* address, size_t bytes) {
  reads_count_ = 0;
  fault(cudaErrorLaunchFailure, [=, this] { return describe_race(before, now, address, bytes); });
}

void Worker::find_unseen_writes() {
  if (!watching_) return;
  const auto record = [&](const volatile uint32_t* word, races::Cell& cell, bool of_block, int32_t place) {
    races::Access now = now_;
    now.detail |= races::Access::write_bit | races::Access::bytes_mask | uint32_t(place);
    const races::Access before = order_.write(cell, now, of_block);
    if (before.moment != 0) fail_by_race(before, now, const_cast<const uint32_t*>(word), 4);
  };
  for (size_t i = 0; i < reads_count_; ++i) {
    const SeenRead& read = reads_[i];
    if (*read.word == read.value) continue;
    const void* const address = const_cast<const uint32_t*>(read.word);
    record(read.word, *shared_cells(address), is_of_block(address), read.place);
  }
  reads_count_ = 0;
  for (SmallWord& small : small_words_) {
    const uint32_t value = *small.word;
    const bool unseen = value != small.value && !small.seen;
    small.value = value;
    small.seen = false;
    if (unseen) record(small.word, *small.cell, true, 0);
  }
}

void Worker::watch_words_of_small_variables() {
  small_words_.clear();
  reads_count_ = 0;
  if (!launch_->watches_races || launch_->call.in_cluster) return;  // there other blocks may be the ones that write
  for (const auto& variable : shared_) {
    const auto first = reinterpret_cast<uintptr_t>(variable.address);
    if (variable.bytes > 16) continue;
    for (uintptr_t word = first & ~uintptr_t(3); word < first + variable.bytes; word += 4) {
      const auto* const at = reinterpret_cast<const volatile uint32_t*>(word);
      races::Cell* const cell = &static_cells_[size_t(reinterpret_cast<const char*>(word) - static_begin_) / 4];
      small_words_.push_back({at, *at, cell, false});
    }
  }
}

std::string Worker::describe_memory(const void* address) const {
  if (memory::is_device(address)) return memory::describe_allocation(address);
  if (const auto* const variable = shared_variable(address)) {
    return "the __shared__ variable '" + variable->name + "' (from its byte " +
           std::to_string(static_cast<const char*>(address) - variable->address) + " on)";
  }
  if (within(address, 1, dynamic_shared_, launch_->call.dynamic_shared_bytes)) {
    return "dynamic shared memory (from its byte " +
           std::to_string(static_cast<const char*>(address) - dynamic_shared_) + " on)";
  }
  if (const int rank = owner_in_cluster(address); rank >= 0)
    return describe_memory(own_place(address, rank)) + " of block " + text(launch_->block_index(uint64_t(rank)));
  return "a __device__ variable";
}

std::string Worker::describe_race(const races::Access& before, const races::Access& now, const void* address,
                                  size_t bytes) {
  const KernelCall& call = launch_->call;
  const auto thread = [&](int rank) { return text(threads_[size_t(rank)].index); };
  const auto block = [&](uint64_t i) { return text(launch_->block_index(i)); };
  const auto did = [&](const races::Access& access) {
    return std::string(access.is_atomic() ? "an atomic"
                       : access.wrote()   ? "a write"
                                          : "a read") +
           (access.place() == 0 ? "" : " at " + source_line(static_cast<const char*>(call.kernel) + access.place()));
  };
  const bool one_block = before.run() == now.run();
  return "a race: " +
         (one_block ? "thread " + thread(before.thread()) + " and thread " + thread(now.thread()) + " of block " +
                          block(order_.block_of(now))
                    : "thread " + thread(before.thread()) + " of block " + block(order_.block_of(before)) +
                          " and thread " + thread(now.thread()) + " of block " + block(order_.block_of(now))) +
         " both touch " + std::to_string(bytes) + " bytes of " + describe_memory(address) +
         (one_block ? " between two barriers" : " in one launch") +
         ", at least one of them writing, not both atomically: " + did(before) + ", " + did(now) + "; in kernel " +
         module::function_name(call.kernel) + "; " +
         (one_block ? "put a __syncthreads() between, or use atomicAdd or another atomic for both"
          : call.in_cluster
              ? "put a this_cluster().sync() between, or use atomicAdd or another atomic for both"
              : "blocks of a launch have no order: use atomicAdd or another atomic for both, or two launches");
}

std::string source_line(const void* place) {
  char frames[4096] = "";
  if (place) __sanitizer_symbolize_pc(const_cast<void*>(place), "%s:%l", frames, sizeof frames - 2);
  // One string per inlined frame, the innermost first; those of our own headers, and of the system's, are not what the
  // reader looks for.
  for (const char* frame = frames; *frame; frame += std::strlen(frame) + 1) {
    const std::string_view line = frame;
    const bool ours = line.find("/simt/include/") != line.npos || line.find("launch.cuh") != line.npos;
    if (!ours && line.rfind("/usr/", 0) != 0) return frame;
  }
  return frames;
}

namespace {

[[noreturn]] __attribute__((noinline)) void stop_host(const void* address, size_t bytes, bool write) {
  std::fprintf(stderr, "simt: host code %s %zu bytes of device memory at %p; cudaMemcpy is the way to them\n",
               write ? "writes" : "reads", bytes, address);
  __sanitizer_print_stack_trace();
  std::abort();
}

/// True where a kernel asks and may: AddressSanitizer need not look again.
inline bool check(const void* address, size_t bytes, bool write, const void* place) {
  if (Worker* worker = Worker::current()) {
    worker->access(address, bytes, write ? Worker::Touch::write : Worker::Touch::read, place);
    return true;
  }
  if (memory::is_device(address)) stop_host(address, bytes, write);
  return false;
}

}  // namespace
}  // namespace simt

#define SIMT_CHECK(name, bytes, write)                                                                   \
  void __asan_##name(void*);                                                                             \
  void __wrap___asan_##name(void* address) {                                                             \
    if (!simt::check(address, bytes, write, __builtin_return_address(0))) return __asan_##name(address); \
  }
#define SIMT_CHECK_N(name, write)                                         \
  void __asan_##name(void*, ptrdiff_t);                                   \
  void __wrap___asan_##name(void* address, size_t bytes) {                \
    if (!simt::check(address, bytes, write, __builtin_return_address(0))) \
      return __asan_##name(address, ptrdiff_t(bytes));                    \
  }

extern "C" {
void simt_atomic_access(const void* address, size_t bytes) {
  const void* const place = __builtin_return_address(0);
  simt::Worker* const worker = simt::Worker::current();
  if (worker)
    worker->access(address, bytes, simt::Worker::Touch::atomic, place);
  else if (simt::memory::is_device(address))
    simt::stop_host(address, bytes, true);
}
void simt_atomic_done(const void* address) {
  if (simt::Worker* const worker = simt::Worker::current()) worker->atomic_done(address);
}
void simt_fence() {
  if (simt::Worker* const worker = simt::Worker::current()) worker->fence();
}

SIMT_CHECK(load1, 1, false)
SIMT_CHECK(load2, 2, false)
SIMT_CHECK(load4, 4, false)
SIMT_CHECK(load8, 8, false)
SIMT_CHECK(load16, 16, false)
SIMT_CHECK(store1, 1, true)
SIMT_CHECK(store2, 2, true)
SIMT_CHECK(store4, 4, true)
SIMT_CHECK(store8, 8, true)
SIMT_CHECK(store16, 16, true)
SIMT_CHECK_N(loadN, false)
SIMT_CHECK_N(storeN, true)

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  const void* place = __builtin_return_address(0);
  if (bytes > 0) simt::check(from, bytes, false, place), simt::check(to, bytes, true, place);
  return std::memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  const void* place = __builtin_return_address(0);
  if (bytes > 0) simt::check(from, bytes, false, place), simt::check(to, bytes, true, place);
  return std::memmove(to, from, bytes);
}
void* __wrap_memset(void* address, int value, size_t bytes) {
  if (bytes > 0) simt::check(address, bytes, true, __builtin_return_address(0));
  return std::memset(address, value, bytes);
}
}

#endif
