// What this build was made from and with.
#pragma once

namespace ladder {

extern const char* const host_flags;     ///< of the host compiler
extern const char* const cuda_compiler;  ///< nvcc's version; empty in a build without it

}  // namespace ladder
