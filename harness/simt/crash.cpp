#include "crash.hpp"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "worker.hpp"

namespace simt {
namespace {

/// A kernel holds none of the library's locks, so a sentence can be made up here. Then the signal does what it would
/// have done: a fault by its instruction, which is run once more, a request to end by being raised again.
void tell(int number, siginfo_t* info, void*) {
  signal(number, SIG_DFL);
  const std::string what = describe_signal(number, info->si_addr);
  if (!what.empty()) {
    const std::string sentence = "simt: " + what + "\n";
    if (write(STDERR_FILENO, sentence.data(), sentence.size()) < 0) return;
  }
  if (number == SIGTERM) raise(number);
}

}  // namespace

void catch_signals() {
#ifdef SIMT_CHECKED
  const int signals[] = {SIGTERM};  // AddressSanitizer has handlers of its own for the others
#else
  const int signals[] = {SIGTERM, SIGSEGV, SIGBUS, SIGFPE};
#endif
  for (const int number : signals) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {};
    ours.sa_sigaction = tell;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &ours, nullptr);
  }
}

#ifndef SIMT_CHECKED
void give_crash_stack() {
  constexpr size_t stack_bytes = 64 << 10;  // names are looked up in the symbol table
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
#endif

}  // namespace simt
