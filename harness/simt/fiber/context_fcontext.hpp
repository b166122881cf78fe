// Switching stacks with Boost.Context: a few nanoseconds, no system call.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace simt {

class Context {
 public:
  using Entry = void (*)(void* argument);

  /// Lays `entry(argument)` on a stack; it starts with the first enter() and must never return.
  void prepare(void* stack, size_t bytes, Entry entry, void* argument) {
    entry_ = entry;
    argument_ = argument;
    inside_ = boost::context::detail::make_fcontext(static_cast<char*>(stack) + bytes, bytes, start);
  }
  /// To the context, until it leaves.
  void enter() { inside_ = boost::context::detail::jump_fcontext(inside_, this).fctx; }
  /// From the context back to the caller of enter(), until it is entered again.
  void leave() { outside_ = boost::context::detail::jump_fcontext(outside_, nullptr).fctx; }

 private:
  static void start(boost::context::detail::transfer_t from) {
    auto* self = static_cast<Context*>(from.data);
    self->outside_ = from.fctx;
    self->entry_(self->argument_);
  }

  boost::context::detail::fcontext_t inside_ = nullptr, outside_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace simt
