#ifndef SIMT_CHECKED
#include "crash.hpp"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "worker.hpp"

namespace simt {
namespace {

constexpr size_t stack_bytes = 64 << 10;  // names are looked up in the symbol table

/// The fault is synchronous and inside a kernel, which holds none of the library's locks: a sentence can be made up
/// here. Then the signal does what it would have done.
void tell(int number, siginfo_t* info, void*) {
  signal(number, SIG_DFL);
  if (const Worker* worker = Worker::current()) {
    const std::string sentence = "simt: " + worker->describe_crash(number, info->si_addr) + "\n";
    if (write(STDERR_FILENO, sentence.data(), sentence.size()) < 0) return;
  }
}

}  // namespace

void catch_crashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE}) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {};
    ours.sa_sigaction = tell;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &ours, nullptr);
  }
}

void give_crash_stack() {
  struct Stack {
    std::unique_ptr<char[]> memory = std::make_unique<char[]>(stack_bytes);
    stack_t before = {};
    Stack() {
      stack_t ours = {};
      ours.ss_sp = memory.get();
      ours.ss_size = stack_bytes;
      sigaltstack(nullptr, &before);
      if (before.ss_flags & SS_DISABLE) sigaltstack(&ours, nullptr);
    }
    ~Stack() {
      if (before.ss_flags & SS_DISABLE) sigaltstack(&before, nullptr);
    }
  };
  thread_local const Stack stack;
}

}  // namespace simt
#endif
