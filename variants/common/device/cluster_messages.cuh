// Messages between the blocks of a cluster: a number goes into the shared memory of another block (st.async), where an
// mbarrier counts the bytes that have arrived. A block waits for the numbers that it needs, and no barrier of the
// cluster is passed. Needs compute capability 9.0; on the CPU device mailboxes are device memory, and to wait is a
// barrier of the grid. v03k_cluster_messages introduces it. Source: PTX ISA, sections "mbarrier" and "st.async".
#pragma once
#include <cooperative_groups.h>

#include "../../../harness/contract/launch.cuh"
#ifdef __CUDACC__
#include <cuda/ptx>
#endif

namespace ladder {

/// A block's memory for messages, at the same place in each block of the cluster. `shared`: bytes of its shared memory;
/// `instead`: the mailboxes of all blocks on the CPU device.
struct Mailbox {
  char* const memory;
  const size_t bytes;
  __device__ Mailbox([[maybe_unused]] char* shared, [[maybe_unused]] char* instead, size_t bytes)
#ifdef __CUDACC__
      : memory(shared),
#else
      : memory(instead + blockIdx.x * bytes),
#endif
        bytes(bytes) {
  }

  /// Sends `number` to where block `to` has what is *place here; `arrived`, a barrier in the mailbox, counts it there.
  template <class Number>
  __device__ void send(int to, Number* place, Number number, [[maybe_unused]] uint64_t* arrived) const {
#ifdef __CUDACC__
    const auto cluster = cooperative_groups::this_cluster();
    cuda::ptx::st_async(cluster.map_shared_rank(place, to), number, cluster.map_shared_rank(arrived, to));
#else
    *reinterpret_cast<Number*>(reinterpret_cast<char*>(place) + (to - int(blockIdx.x)) * ptrdiff_t(bytes)) = number;
#endif
  }
};

/// By one thread of each block, before a barrier of the cluster.
__device__ inline void init_arrivals([[maybe_unused]] uint64_t* arrived) {
#ifdef __CUDACC__
  cuda::ptx::mbarrier_init(arrived, 1);
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
#endif
}

/// By one thread, once per round: how many bytes this block gets in it. They may arrive before: the round stays open
/// until it is announced. None of them may be sent before the round before has ended here.
__device__ inline void expect([[maybe_unused]] uint64_t* arrived, [[maybe_unused]] int bytes) {
#ifdef __CUDACC__
  using namespace cuda::ptx;
  mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, arrived, uint32_t(bytes));
#endif
}

/// By all threads: waits until all that was expected in round 0, 1, ... has arrived.
__device__ inline void wait_for_messages([[maybe_unused]] uint64_t* arrived, [[maybe_unused]] int round) {
#ifdef __CUDACC__
  using namespace cuda::ptx;
  while (!mbarrier_try_wait_parity(sem_acquire, scope_cluster, arrived, uint32_t(round) % 2)) {
  }
#else
  cooperative_groups::this_grid().sync();
#endif
}

}  // namespace ladder
