// A ring of slots in shared memory that one thread keeps full by bulk copies (cp.async.bulk, compute capability 9.0 and
// up), while others read the slots in the same order. Two blocks, a cluster, read the same: each fetches half of every
// slot and the copy engine writes it to both (multicast), so it leaves the L2 cache once for two. v23_multicast
// introduces it.
//
// Each slot has two barriers (mbarrier), in each block. `full`: this block's producer arrives and says how many bytes
// come, from both blocks; the copies count them off. `empty`: of both blocks, each warp that reads the slot arrives
// when it has; the producer of either block waits for that, for it writes to both. A barrier's phases end one after
// another; who waits says by one bit, which one it waits for to end: PipelineState. Source: PTX ISA, sections
// "mbarrier", "cp.async.bulk", "mapa", "barrier.cluster".
#pragma once
#include "../../../harness/contract/launch.cuh"

namespace ladder {

constexpr int cluster_size = 2;  // of a cluster

/// Which slot is next, and how often the ring has been gone round, modulo 2.
struct PipelineState {
  int slot = 0;
  uint32_t round = 0;
  __host__ __device__ constexpr void advance(int slots) {
    if (++slot == slots) slot = 0, round ^= 1;
  }
  /// The phase of `full` whose end a reader waits for.
  __host__ __device__ constexpr uint32_t filled() const { return round; }
  /// The phase of `empty` whose end the producer waits for: in the first round none, which the phase before the first
  /// stands for.
  __host__ __device__ constexpr uint32_t emptied() const { return round ^ 1; }
};

#ifdef __CUDACC__

// ---- barriers; addresses are those of shared memory

/// What waits longer for a barrier than so many ticks of 2^32 ns, 4.3 s, waits for ever: it ends the kernel with an
/// error instead. 0: it waits for ever.
constexpr uint32_t patience = 3;

__device__ inline uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// Has the phase of this parity ended? Looks for a while, which is up to the hardware.
__device__ inline bool try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t ended;
  asm volatile(
      "{ .reg .pred ended; mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2; selp.u32 %0, 1, 0, ended; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}
__device__ inline uint32_t ticks() {
  uint32_t high;
  asm volatile("mov.u32 %0, %%globaltimer_hi;" : "=r"(high));
  return high;
}
/// Ends the kernel with an error, that of an access to an address that does not exist. A trap would be more to the
/// point, but in a kernel that has one the compiler leaves setmaxnreg's registers unused.
__device__ inline void fail() { asm volatile("st.global.u32 [%0], %1;" ::"l"(uint64_t(0)), "r"(0) : "memory"); }
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  if (try_wait(barrier, parity)) return;
  const uint32_t since = ticks();
  while (!try_wait(barrier, parity)) {
    if (patience > 0 && ticks() - since > patience) fail();
  }
}

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Where in the cluster the same address of another block is.
__device__ inline uint32_t address_in(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
/// All threads of both blocks: what was written before it is seen behind it.
__device__ inline void synchronise_cluster() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

/// `readers`: warps of a block that read each slot, and release it. slot_bytes is a multiple of 32.
template <int slots, int slot_bytes, int readers>
struct TmaPipeline {
  static constexpr size_t bytes = size_t(slots) * (slot_bytes + 2 * sizeof(uint64_t));

  uint32_t first, rank;
  /// In `bytes` bytes of shared memory, a multiple of 16, the same in both blocks.
  __device__ explicit TmaPipeline(const void* shared) : first(shared_address(shared)), rank(cluster_rank()) {}

  /// By all threads of the cluster, before anything else.
  __device__ void begin() const {
    if (threadIdx.x == 0) {
      for (int slot = 0; slot < slots; ++slot) {
        expect_arrivals(full(slot), 1);
        expect_arrivals(empty(slot), cluster_size * readers);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    synchronise_cluster();  // nobody uses a barrier, of the other block either, that is not there yet
  }
  /// By all threads of the cluster, at the end: until then the other block writes here.
  __device__ void end() const {
    __syncwarp();
    synchronise_cluster();
  }

  __device__ uint32_t slot(const PipelineState& at) const { return first + at.slot * slot_bytes; }

  /// By one thread of each block, the same in both: `count` bytes, a multiple of 32, from global memory to both blocks'
  /// slots; then `at` is the next place. Of them each block fetches half.
  __device__ void fill(PipelineState& at, const unsigned char* from, int count) const {
    const uint32_t half = uint32_t(count) / cluster_size;
    wait(empty(at.slot), at.emptied());
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full(at.slot)), "r"(count) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
        "%4;" ::"r"(slot(at) + rank * half),
        "l"(from + rank * half), "r"(half), "r"(full(at.slot)), "h"((unsigned short)((1 << cluster_size) - 1))
        : "memory");
    at.advance(slots);
  }

  /// By each thread that reads it: waits until the slot is full.
  __device__ void wait_for(const PipelineState& at) const { wait(full(at.slot), at.filled()); }
  /// By each reading warp, once, when its lanes have read the slot: tells the producers of both blocks.
  __device__ void release(int slot) const {
    const uint32_t lane = threadIdx.x % 32;
    if (lane < cluster_size) {
      asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(empty(slot), lane)) : "memory");
    }
  }

 private:
  __device__ uint32_t full(int slot) const { return first + slots * slot_bytes + slot * 8; }
  __device__ uint32_t empty(int slot) const { return full(slot) + slots * 8; }
  __device__ static void expect_arrivals(uint32_t barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
  }
};

#endif

}  // namespace ladder
