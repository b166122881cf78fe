// Switching stacks with libc alone: each switch is a system call, about a hundred times slower than Boost.Context.
#pragma once
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace simt {

class Context {
 public:
  using Entry = void (*)(void* argument);

  /// Lays `entry(argument)` on a stack; it starts with the first enter() and must never return.
  void prepare(void* stack, size_t bytes, Entry entry, void* argument) {
    entry_ = entry;
    argument_ = argument;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack;
    inside_.uc_stack.ss_size = bytes;
    inside_.uc_link = nullptr;
    // makecontext hands on ints only: the pointer goes in two halves.
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(start), 2, unsigned(self >> 32), unsigned(self));
  }
  /// To the context, until it leaves.
  void enter() { swapcontext(&outside_, &inside_); }
  /// From the context back to the caller of enter(), until it is entered again.
  void leave() { swapcontext(&inside_, &outside_); }

 private:
  static void start(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Context*>(uintptr_t(high) << 32 | low);
    self->entry_(self->argument_);
  }

  ucontext_t inside_ = {}, outside_ = {};
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace simt
