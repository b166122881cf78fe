// Messages between the blocks of a cluster: a number goes into the shared memory of another block (st.async), where an
// mbarrier counts the bytes that have arrived. A block waits for the numbers that it needs, and no barrier of the
// cluster is passed. Needs compute capability 9.0; the CPU device has no mbarriers, and to wait is a barrier of the
// cluster. v03k_cluster_messages introduces it. Source: PTX ISA, sections "mbarrier" and "st.async".
#pragma once
#include <cooperative_groups.h>

#include <cuda/ptx>

#include "../../../harness/contract/launch.cuh"

namespace ladder {

/// Sends `number` to where block `to` of the cluster has what is *place here, in its shared memory; `arrived`, a
/// barrier there, counts it.
template <class Number>
__device__ void send(int to, Number* place, Number number, uint64_t* arrived) {
  const auto cluster = cooperative_groups::this_cluster();
  cuda::ptx::st_async(cluster.map_shared_rank(place, to), number, cluster.map_shared_rank(arrived, to));
}

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
  cooperative_groups::this_cluster().sync();
#endif
}

}  // namespace ladder
