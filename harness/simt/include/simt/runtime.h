// The entry points of libsimt that device code and launches come down to, and the built-in variables of a kernel.
// Every one of them is a place where a counting build can stand beside the running one: see README.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <source_location>

#include "vector_types.h"

struct CUstream_st;

namespace simt {

/// Operations that the lanes of a warp perform together.
enum class WarpOp {
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  match_any,
  match_all,
  sync,
  add,
  min_signed,
  max_signed,
  min_unsigned,
  max_unsigned,
  bit_and,
  bit_or,
  bit_xor
};

/// A launch as the runtime sees it: `body(arguments)` is one thread of the kernel.
struct KernelCall {
  const void* kernel = nullptr;  ///< the kernel's address: its identity and its name
  dim3 grid, block;
  size_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  bool in_cluster = false;  ///< the grid is one cluster,
  dim3 cluster;             ///< of so many blocks
  CUstream_st* stream = nullptr;
  void (*body)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  size_t argument_bytes = 0;
};

}  // namespace simt

extern "C" {
// `const`: the answer is fixed for the life of a thread of the kernel, so the compiler may ask once and keep it.
__attribute__((const)) void* simt_dynamic_shared() noexcept;

/// Waits for all threads of the block; the number of them whose predicate was not 0.
int simt_block_barrier(int predicate, std::source_location where);
/// Waits for all threads of the grid; only in a cooperative launch.
void simt_grid_barrier(std::source_location where);
/// Waits for all threads of the cluster: those of the block alone where the launch has none.
void simt_cluster_barrier(std::source_location where);
/// Blocks of the cluster; where the one with this rank has what is at `address` in this block's shared memory.
__attribute__((const)) unsigned simt_cluster_blocks() noexcept;
__attribute__((const)) void* simt_map_shared(const void* address, unsigned rank, std::source_location where) noexcept;
/// Stores 4 or 8 bytes in the shared memory of a block of the cluster, as st.async does.
void simt_store_async(void* address, uint64_t bits, size_t bytes);
/// Waits for the lanes of `mask`; what `op` makes of their values for this lane.
uint64_t simt_warp(simt::WarpOp op, unsigned mask, uint64_t value, int argument, int width, std::source_location where);
/// The lanes of this warp that have come to the same place of the program.
unsigned simt_active_mask(std::source_location where);
/// Asynchronous copies of this thread: begins one, ends a group of them, waits for all groups but the last so many.
void simt_async_copy(void* to, const void* from, size_t bytes, size_t zeros, std::source_location where);
void simt_async_commit();
void simt_async_wait(size_t last);
/// Ends the launch with cudaErrorLaunchFailure.
void simt_trap(std::source_location where);
/// Nanoseconds of a steady clock.
long long simt_clock();

#ifdef __SANITIZE_ADDRESS__
/// Before and after an atomic, which the compiler's own calls cannot tell from another access; and a fence. Checked
/// build only.
void simt_atomic_access(const void* address, size_t bytes);
void simt_atomic_done(const void* address);
void simt_fence();
#endif

#ifdef __SANITIZE_THREAD__
/// Before an atomic; a module that is counted only.
void simt_count_atomic(const void* address, size_t bytes);
/// Before one that shared memory has no instruction for. `adds`: floating-point numbers.
void simt_count_update(const void* address, size_t bytes, bool adds);
/// From here on the calling thread is not counted (1), or counted again (-1); calls nest.
void simt_count_silence(int by);
#endif

int simt_launch(const simt::KernelCall* call);  ///< a cudaError_t
void simt_register_constants(const void* begin, const void* end);
void simt_unregister_constants(const void* begin);

extern char __start_simt_constant[] __attribute__((weak, visibility("hidden")));
extern char __stop_simt_constant[] __attribute__((weak, visibility("hidden")));
}

namespace simt {
/// Where a barrier or a warp operation stands in the source: the default of its last parameter, never given.
using Where = std::source_location;

namespace {
// Tells the runtime where this module's __constant__ variables are, for as long as the module is loaded.
struct ConstantSection {
  ConstantSection() { simt_register_constants(__start_simt_constant, __stop_simt_constant); }
  ~ConstantSection() { simt_unregister_constants(__start_simt_constant); }
};
[[maybe_unused]] const ConstantSection constant_section;
}  // namespace
}  // namespace simt

// The built-in variables. They are const to a kernel, so that the compiler may keep them in registers; the runtime,
// which knows them by their names in the object file, sets them whenever it turns to another thread or block.
extern __thread const uint3 threadIdx __asm__("simt_thread_index") __attribute__((tls_model("initial-exec")));
extern __thread const uint3 blockIdx __asm__("simt_block_index") __attribute__((tls_model("initial-exec")));
extern __thread const uint3 blockDim __asm__("simt_block_size") __attribute__((tls_model("initial-exec")));
extern __thread const uint3 gridDim __asm__("simt_grid_size") __attribute__((tls_model("initial-exec")));
inline constexpr int warpSize = 32;
