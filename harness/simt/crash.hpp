// A signal in a kernel of a build that does not check accesses: a sentence before the process ends by it.
#pragma once

namespace simt {

/// Once, before the first launch. Where the program has handlers of its own they stay.
void catch_crashes();
/// On each OS thread that runs kernels: the stack of a kernel may be what is broken.
void give_crash_stack();

}  // namespace simt
