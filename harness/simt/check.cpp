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

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

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
    kind = __asan_locate_address(const_cast<void*>(address), name, sizeof name, &begin, &bytes);
    known = within(address, 1, begin, bytes);
  }
  std::string describe() const {
    if (kind == "stack" || kind == "stack-fake") return "the host's stack";
    if (kind == "heap") return "host memory (a heap or page-locked block of " + std::to_string(bytes) + " bytes)";
    if (kind == "global") return "the host's variable '" + std::string(name) + "'";
    return "host memory (a stack, or a mapped file)";
  }

  std::string_view kind;
  char name[128] = "";
  void* begin = nullptr;
  size_t bytes = 0;
  bool known = false;  ///< the address lies in a block or variable of the host, not merely near one
};

}  // namespace

bool Worker::may_access(const void* address, size_t bytes, bool write) {
  if (memory::is_device(address))
    return static_cast<const char*>(address) + bytes <= memory::bounds.top && !poisoned(address, bytes);
  if (running_->holds(address, bytes)) return !poisoned(address, bytes);
  const KernelCall& call = launch_->call;
  if (!write && within(address, bytes, call.arguments, call.argument_bytes)) return true;
  if (within(address, bytes, dynamic_shared_, call.dynamic_shared_bytes)) return true;
  for (const auto& variable : shared_) {
    if (within(address, bytes, variable.address, variable.bytes)) return true;
  }
  if (memory::is_variable(address, bytes)) return !poisoned(address, bytes);
  if (write) return false;
  if (memory::is_constant(address, bytes)) return !poisoned(address, bytes);
  return module::is_read_only(address, bytes);
}

std::string Worker::refuse_access(const void* address, size_t bytes, bool write) {
  if (may_access(address, bytes, write)) return {};
  std::string what = (write ? "a write of " : "a read of ") + std::to_string(bytes) + " bytes ";
  if (running_->holds(address, bytes)) return what + "outside the thread's local variables";
  if (memory::is_device(address)) return what + memory::describe(address);
  if (reinterpret_cast<uintptr_t>(address) < 4096) return what + "of a null pointer";
  const size_t shared_bytes = launch_->call.dynamic_shared_bytes;
  if (within(address, 1, dynamic_shared_ - shared_guard, shared_bytes + 2 * shared_guard)) {
    return what + (address < dynamic_shared_ ? "before" : "past") + " the " + std::to_string(shared_bytes) +
           " bytes of dynamic shared memory of the launch";
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
    if (!worker->may_access(address, bytes, write))
      worker->fault(cudaErrorIllegalAddress, worker->refuse_access(address, bytes, write), place);
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

#else

namespace simt {
// Without AddressSanitizer there is no symbolizer at hand, and no line.
std::string source_line(const void*) { return {}; }
}  // namespace simt

#endif
