// CUDA's primitives of asynchronous copies (cp.async): what a thread copies belongs to the group that it commits next,
// and is there once it has waited for that group; for other threads, at the barrier behind.
#pragma once
#include "runtime.h"

/// Begins a copy of 4, 8 or 16 bytes, both addresses multiples of the size; the last `zeros` bytes become 0 instead.
inline void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zeros = 0,
                                    simt::Where where = simt::Where::current()) {
  simt_async_copy(shared, global, bytes, zeros, where);
}
inline void __pipeline_commit() { simt_async_commit(); }
/// Waits for all groups of this thread but the `last` that it committed last.
inline void __pipeline_wait_prior(size_t last) { simt_async_wait(last); }
