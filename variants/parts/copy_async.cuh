// Copies from global to shared memory that go on while the thread does something else (cp.async, compute capability 8.0
// and up). On the CPU device they are copies. v22_tensor_split introduces them.
#pragma once
#include "../../harness/contract/launch.cuh"

namespace ladder {

/// 16 bytes; both addresses are multiples of 16.
__device__ inline void copy_async(uint32_t* shared, const uint4* global) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
#else
  const uint4 words = *global;
  shared[0] = words.x, shared[1] = words.y, shared[2] = words.z, shared[3] = words.w;
#endif
}

/// What this thread has asked for since the last call is a group.
__device__ inline void close_group() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last `pending` of this thread's groups are there, for this thread: a barrier tells others.
template <int pending>
__device__ void wait_groups() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

}  // namespace ladder
