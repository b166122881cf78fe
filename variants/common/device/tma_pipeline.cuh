// A ring of slots in shared memory between one producer thread, which fills them by bulk copies (cp.async.bulk, compute
// capability 9.0 and up), and consumer warps, which read them in the same order. CUTLASS calls it PipelineTmaAsync.
// v27_tma_ring introduces it, for one block; v29_multicast uses it for a cluster.
//
// Each slot has two mbarriers. `full`: the producer arrives with the number of bytes to come, and the copy engine
// counts them off. `empty`: each consumer warp arrives when it has read the slot.
//
//                 slot 0        slot 1        slot 2        slot 3
//   producer    wait empty -> announce bytes on full -> start the copy into the slot
//                  [C]           [.]           [F]           [F]          C: copy under way    F: full    .: empty
//   consumer 0                           reads 2: wait full -> multiply -> arrive on empty
//   consumer 1                                          reads 3: one slot ahead; slot 2 is empty when both have arrived
//
// A thread waits for a phase of a barrier to end, and names the phase by its parity: PipelineState.
//
// In a cluster of two blocks both read the same data. Each block's producer fetches half of every slot, and the copy
// engine writes it to both blocks (multicast), so that it leaves the L2 cache once for two. `full` then counts the
// bytes from both producers, and `empty` the consumers of both blocks, because a producer writes to both. Source: PTX
// ISA, sections "mbarrier", "cp.async.bulk", "mapa", "barrier.cluster".
#pragma once
#include "../../../harness/contract/launch.cuh"
#ifdef __CUDACC__
#include <cuda/ptx>
#endif

namespace ladder {

constexpr int cluster_size = 2;  // blocks

/// The next slot, and the parity of the number of rounds through the ring.
struct PipelineState {
  int slot = 0;
  uint32_t round = 0;
  __host__ __device__ constexpr void advance(int slots) {
    if (++slot == slots) slot = 0, round ^= 1;
  }
  /// The phase of `full` whose end a consumer waits for.
  __host__ __device__ constexpr uint32_t filled() const { return round; }
  /// The phase of `empty` whose end the producer waits for. In the first round there is none: the parity is that of the
  /// phase before the first, which counts as ended.
  __host__ __device__ constexpr uint32_t emptied() const { return round ^ 1; }
};

#ifdef __CUDACC__

/// A wait for an mbarrier longer than this many ticks of 2^32 ns, 4.3 s, is a deadlock: the kernel then ends with an
/// error. 0: no limit.
constexpr uint32_t max_wait_ticks = 3;

__device__ inline uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// Ends the kernel with an error, that of a store to an invalid address. library: __trap(); own because a kernel with a
/// trap does not use the registers that setmaxnreg gives it.
__device__ inline void fail() { asm volatile("st.global.u32 [%0], %1;" ::"l"(uint64_t(0)), "r"(0) : "memory"); }

__device__ inline void wait(uint64_t* barrier, uint32_t parity) {
  if (cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) return;
  const uint32_t since = cuda::ptx::get_sreg_globaltimer_hi();
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
    if (max_wait_ticks > 0 && cuda::ptx::get_sreg_globaltimer_hi() - since > max_wait_ticks) fail();
  }
}

/// Arrives at the same barrier of another block of the cluster. library: cuda::ptx::mbarrier_arrive; own because that
/// one releases at cluster scope, and this one, like CUTLASS's, at block scope: consumers have only read.
__device__ inline void arrive_remote(const uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [remote]; "
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

/// `readers`: consumer warps of a block, each of which reads every slot. `cluster`: blocks that read the same data, 1
/// or cluster_size. slot_bytes is a multiple of 16 x cluster.
template <int slots, int slot_bytes, int readers, int cluster = cluster_size>
struct TmaPipeline {
  static constexpr size_t bytes = size_t(slots) * (slot_bytes + 2 * sizeof(uint64_t));

  unsigned char* const data;  // slots x slot_bytes
  uint64_t* const full;       // slots
  uint64_t* const empty;      // slots
  const uint32_t rank;        // of this block in its cluster
  /// In `bytes` bytes of shared memory, a multiple of 16, at the same address in all blocks of the cluster.
  __device__ explicit TmaPipeline(void* shared)
      : data(static_cast<unsigned char*>(shared)),
        full(reinterpret_cast<uint64_t*>(data + slots * slot_bytes)),
        empty(full + slots),
        rank(cluster > 1 ? cuda::ptx::get_sreg_cluster_ctarank() : 0) {}

  /// First, by all threads of the cluster.
  __device__ void init() const {
    using namespace cuda::ptx;
    if (threadIdx.x == 0) {
      for (int slot = 0; slot < slots; ++slot) {
        mbarrier_init(&full[slot], 1);
        mbarrier_init(&empty[slot], cluster * readers);
      }
      fence_mbarrier_init(sem_release, scope_cluster);
    }
    synchronise();  // no thread uses a barrier before it is initialised
  }
  /// Last, by all threads of the cluster: until then other blocks write to this one's shared memory.
  __device__ void finish() const {
    __syncwarp();
    if constexpr (cluster > 1) synchronise();
  }

  /// The shared address of the slot.
  __device__ uint32_t slot(const PipelineState& state) const { return shared_address(data) + state.slot * slot_bytes; }

  /// By one thread of each block, the same in all: starts the copy of `count` bytes, a multiple of 16 x cluster, from
  /// global memory into the slot of each block, and advances `state`.
  __device__ void produce(PipelineState& state, const unsigned char* from, int count) const {
    using namespace cuda::ptx;
    const uint32_t share = uint32_t(count) / cluster;  // that this block fetches
    wait(&empty[state.slot], state.emptied());
    mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, &full[state.slot], uint32_t(count));
    unsigned char* const target = data + state.slot * slot_bytes + rank * share;
    if constexpr (cluster > 1)
      cp_async_bulk(space_cluster, space_global, target, from + rank * share, share, &full[state.slot],
                    uint16_t((1 << cluster) - 1));
    else
      cp_async_bulk(space_cluster, space_global, target, from, share, &full[state.slot]);
    state.advance(slots);
  }

  /// By each thread that reads the slot: waits until it is full.
  __device__ void consumer_wait(const PipelineState& state) const { wait(&full[state.slot], state.filled()); }
  /// By each consumer warp, once, when all its lanes have read the slot: tells the producers of all blocks.
  __device__ void consumer_release(int slot) const {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (cluster > 1) {
      if (lane < cluster) arrive_remote(&empty[slot], lane);
    } else {
      if (lane == 0) cuda::ptx::mbarrier_arrive(&empty[slot]);
    }
  }

 private:
  __device__ static void synchronise() {
    if constexpr (cluster > 1) {
      cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
      cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
    } else {
      __syncthreads();
    }
  }
};

#endif

}  // namespace ladder
