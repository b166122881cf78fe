// A signal while a kernel runs: a sentence before the process ends by it. Faults of a build that does not check
// accesses, and in every build a request to end, which says what a kernel that never ends was doing.
#pragma once
#include <string>

namespace simt {

/// Once, before the first launch. Where the program has handlers of its own they stay.
void catch_signals();
#ifndef SIMT_CHECKED
/// On each OS thread that runs kernels: the stack of a kernel may be what is broken.
void give_crash_stack();
#endif
/// What to say of a signal, at `address` where it is a fault; empty where no kernel runs.
std::string describe_signal(int signal, const void* address);

}  // namespace simt
