// Where a module that was compiled to be counted calls the runtime: the call-backs that g++ puts at each access and
// function with -fsanitize=thread, and at each block of code with -fsanitize-coverage=trace-pc. Its own runtime for
// them is not linked. Calls from host code, and while nothing is counted, return at once.
#include <simt/half.h>
#include <simt/intrinsics.h>
#include <simt/runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "counting/counts.hpp"
#include "counting/rules.hpp"
#include "memory.hpp"
#include "module.hpp"
#include "worker.hpp"

namespace simt {

void Worker::begin_counting() {
  if (!counting::wanted()) return trace_.reset();
  if (!trace_) trace_ = std::make_unique<counting::Trace>();
  counts_ = {};
}

void Worker::end_counting() {
  if (!trace_) return;
  const bool compiled_for_it = std::any_of(counts_.places.begin(), counts_.places.end(), [](const auto& place) {
    return counting::kind_of(place.first) == counting::Kind::code;
  });
  if (!compiled_for_it) return;
  const auto size = [](dim3 d) { return std::array{d.x, d.y, d.z}; };
  counting::add({module::function_name(launch_->call.kernel), size(launch_->call.grid), size(launch_->call.block)},
                counts_);
}

void Worker::add_note(counting::Kind kind, int size_log2, uint64_t value, const void* place) {
  if (!trace_->add(rank(*current_), place, kind, size_log2, value)) wait(State::notes_full, {});
}

void Worker::note(counting::Kind kind, int size_log2, const void* place) {
  if (trace_) add_note(kind, size_log2, 0, place);
}

void Worker::note_access(const void* address, int size_log2, Way way, const void* place,
                         counting::Kind atomic_of_shared) {
  const auto* const a = static_cast<const char*>(address);
  const auto kind = [&](counting::Kind load) { return counting::Kind(int(load) + int(way)); };
  const bool is_device = memory::is_device(a);
  const bool shared = !is_device && (has_shared(*this, a) || owner_in_cluster(a) >= 0);
  if (is_device || (!shared && memory::is_variable(a, 1)))
    add_note(kind(counting::Kind::global_load), size_log2, reinterpret_cast<uint64_t>(a), place);
  else if (shared)
    add_note(way == Way::atomic ? atomic_of_shared : kind(counting::Kind::shared_load), size_log2,
             reinterpret_cast<uint64_t>(a), place);
  else if (way == Way::load && memory::is_constant(a, 1))
    add_note(counting::Kind::constant_load, size_log2, reinterpret_cast<uint64_t>(a), place);
}

void Worker::note_copy(const void* to, const void* from, int size_log2, const void* place) {
  if (!memory::is_device(from)) return note_access(from, size_log2, Way::load, place);
  add_note(counting::Kind::global_load, size_log2,
           counting::copied(reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(to)), place);
}

void Worker::note_zero_dividend(const void* place) {
  if (trace_->is_silent(rank(*current_))) return;
  counting::PlaceCounts& its = counts_.at(counting::Place(0, place, counting::Kind::zero_dividend, 0));
  ++its.requests;
  ++its.lanes;
}

void Worker::note_grid_barrier(const void* place) {
  const int thread = rank(*current_);
  if (thread != 0 || trace_->is_silent(thread)) return;
  const auto add = [&](counting::Kind kind, uint64_t requests) {
    counting::PlaceCounts& its = counts_.at(counting::Place(0, place, kind, 2));
    its.requests += requests, its.lanes += requests, its.units += requests, its.ideal += requests;
  };
  add(counting::Kind::global_atomic, 1);
  add(counting::Kind::grid_poll, counting::polls_at_grid_barrier);
}

bool Worker::release_full_notes() {
  trace_->replay();
  bool released = false;
  for (int i = 0; i < size_; ++i) {
    if (threads_[i].state != State::notes_full || !trace_->has_room(i)) continue;
    make_ready(threads_[i]);
    released = true;
  }
  return released;
}

}  // namespace simt

#ifndef SIMT_CHECKED
using simt::Worker;

namespace {
__attribute__((always_inline)) inline Worker* counted() {
  Worker* const worker = Worker::current();
  return worker && worker->is_counted() ? worker : nullptr;
}

/// Of structures: one note, whose place says what nvcc makes of it (joins.hpp).
void note_range(const void* address, Worker::Way way, const void* place) {
  if (Worker* const w = counted()) w->note_access(address, 4, way, place);
}
}  // namespace

extern "C" {

#define NOTE(name, size_log2, way)                                                                         \
  void name(const void* address) {                                                                         \
    if (Worker* const w = counted()) w->note_access(address, size_log2, way, __builtin_return_address(0)); \
  }
NOTE(__tsan_read1, 0, Worker::Way::load)
NOTE(__tsan_read2, 1, Worker::Way::load)
NOTE(__tsan_read4, 2, Worker::Way::load)
NOTE(__tsan_read8, 3, Worker::Way::load)
NOTE(__tsan_read16, 4, Worker::Way::load)
NOTE(__tsan_unaligned_read2, 1, Worker::Way::load)
NOTE(__tsan_unaligned_read4, 2, Worker::Way::load)
NOTE(__tsan_unaligned_read8, 3, Worker::Way::load)
NOTE(__tsan_unaligned_read16, 4, Worker::Way::load)
NOTE(__tsan_volatile_read1, 0, Worker::Way::load)
NOTE(__tsan_volatile_read2, 1, Worker::Way::load)
NOTE(__tsan_volatile_read4, 2, Worker::Way::load)
NOTE(__tsan_volatile_read8, 3, Worker::Way::load)
NOTE(__tsan_write1, 0, Worker::Way::store)
NOTE(__tsan_write2, 1, Worker::Way::store)
NOTE(__tsan_write4, 2, Worker::Way::store)
NOTE(__tsan_write8, 3, Worker::Way::store)
NOTE(__tsan_write16, 4, Worker::Way::store)
NOTE(__tsan_unaligned_write2, 1, Worker::Way::store)
NOTE(__tsan_unaligned_write4, 2, Worker::Way::store)
NOTE(__tsan_unaligned_write8, 3, Worker::Way::store)
NOTE(__tsan_unaligned_write16, 4, Worker::Way::store)
NOTE(__tsan_volatile_write1, 0, Worker::Way::store)
NOTE(__tsan_volatile_write2, 1, Worker::Way::store)
NOTE(__tsan_volatile_write4, 2, Worker::Way::store)
NOTE(__tsan_volatile_write8, 3, Worker::Way::store)
#undef NOTE

#if defined(__x86_64__)
/// `instruction`: vdivsd, its numerator in one of `registers`. Its number is inverted in the last but one byte of the
/// prefix, which has two bytes or three (Intel's manual, volume 2, 2.3: VEX).
__attribute__((used)) void simt_counted_division(const unsigned char* instruction, const double (*registers)[4]) {
  Worker* const w = counted();
  if (!w) return;
  const unsigned prefix = instruction[instruction[0] == 0xc5 ? 1 : 2];
  if (registers[~prefix >> 3 & 15][0] == 0) w->note_zero_dividend(instruction);
}
// Called before each division (include/simt/intrinsics.h), in the midst of a function: it keeps all registers and
// flags.
asm(R"(
  .text
  .globl simt_count_division
  .type simt_count_division, @function
simt_count_division:
  pushfq
  push %rbp
  mov %rsp, %rbp
  push %rax
  push %rcx
  push %rdx
  push %rsi
  push %rdi
  push %r8
  push %r9
  push %r10
  push %r11
  sub $512, %rsp
  and $-32, %rsp
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovaps %ymm\n, 32*\n(%rsp)
  .endr
  mov 16(%rbp), %rdi
  mov %rsp, %rsi
  vzeroupper
  call simt_counted_division@PLT
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovaps 32*\n(%rsp), %ymm\n
  .endr
  lea -72(%rbp), %rsp
  pop %r11
  pop %r10
  pop %r9
  pop %r8
  pop %rdi
  pop %rsi
  pop %rdx
  pop %rcx
  pop %rax
  pop %rbp
  popfq
  ret
  .size simt_count_division, .-simt_count_division
)");
#endif

void __tsan_read_range(const void* address, size_t) {
  note_range(address, Worker::Way::load, __builtin_return_address(0));
}
void __tsan_write_range(const void* address, size_t) {
  note_range(address, Worker::Way::store, __builtin_return_address(0));
}

void simt_count_atomic(const void* address, size_t bytes) {
  if (Worker* const w = counted())
    w->note_access(address, std::countr_zero(bytes), Worker::Way::atomic, __builtin_return_address(0));
}

void simt_count_update(const void* address, size_t bytes, bool adds) {
  if (Worker* const w = counted())
    w->note_access(address, std::countr_zero(bytes), Worker::Way::atomic, __builtin_return_address(0),
                   adds ? simt::counting::Kind::shared_addition : simt::counting::Kind::shared_update);
}

unsigned short simt_bits_of_half(double value) { return __double2half(value).bits; }
double simt_add_upwards(double a, double b) { return __dadd_ru(a, b); }

void simt_count_silence(int by) {
  if (Worker* const w = counted()) w->note_silence(by);
}

void __tsan_init() {}
void __tsan_func_entry(const void*) {
  if (Worker* const w = counted()) w->note_enter();
}
void __tsan_func_exit() {
  if (Worker* const w = counted()) w->note_leave();
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// The compiler's own atomics, mostly of host code: done, and not counted. CUDA's name themselves (simt_count_atomic).
#define ATOMICS(bits, type)                                                                                     \
  type __tsan_atomic##bits##_load(const volatile type* a, int) { return __atomic_load_n(a, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile type* a, type v, int) { __atomic_store_n(a, v, __ATOMIC_SEQ_CST); } \
  type __tsan_atomic##bits##_exchange(volatile type* a, type v, int) {                                          \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                                         \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_add(volatile type* a, type v, int) {                                         \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_sub(volatile type* a, type v, int) {                                         \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_and(volatile type* a, type v, int) {                                         \
    return __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_or(volatile type* a, type v, int) {                                          \
    return __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_xor(volatile type* a, type v, int) {                                         \
    return __atomic_fetch_xor(a, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* a, type* c, type v, int, int) {              \
    return __atomic_compare_exchange_n(a, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
  }                                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* a, type* c, type v, int, int) {                \
    return __atomic_compare_exchange_n(a, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
#undef ATOMICS
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

void __sanitizer_cov_trace_pc() {
  if (Worker* const w = counted()) w->note(simt::counting::Kind::code, 0, __builtin_return_address(0));
}
}
#endif
