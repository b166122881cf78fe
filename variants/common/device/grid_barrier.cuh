// A barrier of a cooperative grid: one release, one acquire, and a count that only grows. The barrier of
// cooperative_groups waits for the answer to each arrival before it polls. v05j_own_barrier introduces it and measured
// the difference.
#pragma once
#include <cooperative_groups.h>

#include "../../../harness/contract/launch.cuh"
#ifdef __CUDACC__
#include <cuda/atomic>
#endif

namespace ladder {

/// All threads of the grid: waits until `arrivals` blocks have arrived since the count was 0.
__device__ inline void grid_barrier([[maybe_unused]] unsigned* arrived, [[maybe_unused]] unsigned arrivals) {
#ifdef __CUDACC__
  __syncthreads();
  if (threadIdx.x == 0) {
    const cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(*arrived);
    count.fetch_add(1, cuda::memory_order_release);
    while (int(count.load(cuda::memory_order_acquire) - arrivals) < 0) continue;
  }
  __syncthreads();
#else
  cooperative_groups::this_grid().sync();  // the CPU device: its threads must not poll
#endif
}

}  // namespace ladder
