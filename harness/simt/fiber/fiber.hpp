// A fiber: a stack of its own on which the threads of a block run one after another, until one of them must wait.
#pragma once
#include <cstddef>

#ifdef SIMT_FIBERS_FCONTEXT
#include "context_fcontext.hpp"
#else
#include "context_ucontext.hpp"
#endif
#ifdef SIMT_CHECKED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {

class Fiber {
 public:
  /// Starts afresh on the stack, whatever was left there; `entry` must never return.
  void prepare(void* stack, size_t bytes, Context::Entry entry, void* argument) {
    stack_ = static_cast<char*>(stack);
    bytes_ = bytes;
    entry_ = entry;
    argument_ = argument;
#ifdef SIMT_CHECKED
    __asan_unpoison_memory_region(stack, bytes);
#endif
    context_.prepare(stack, bytes, start, this);
  }

  /// Runs the fiber until it suspends itself.
  void resume() {
#ifdef SIMT_CHECKED
    void* outside = nullptr;
    __sanitizer_start_switch_fiber(&outside, stack_, bytes_);
    context_.enter();
    __sanitizer_finish_switch_fiber(outside, nullptr, nullptr);
#else
    context_.enter();
#endif
  }

  /// Called on the fiber: returns to the caller of resume.
  void suspend() {
#ifdef SIMT_CHECKED
    void* inside = nullptr;
    __sanitizer_start_switch_fiber(&inside, outside_stack_, outside_bytes_);
    context_.leave();
    __sanitizer_finish_switch_fiber(inside, &outside_stack_, &outside_bytes_);
#else
    context_.leave();
#endif
  }

  bool holds(const void* address, size_t bytes) const {
    const char* a = static_cast<const char*>(address);
    return a >= stack_ && a + bytes <= stack_ + bytes_;
  }

 private:
  static void start(void* argument) {
    auto* self = static_cast<Fiber*>(argument);
#ifdef SIMT_CHECKED
    __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
    self->entry_(self->argument_);
  }

  Context context_;
  char* stack_ = nullptr;
  size_t bytes_ = 0;
  Context::Entry entry_ = nullptr;
  void* argument_ = nullptr;
#ifdef SIMT_CHECKED
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
#endif
};

}  // namespace simt
