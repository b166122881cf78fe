// What the CPU device pretends to be. Compute capability 7.0 names what it can do: independent threads in a warp,
// atomics on double; no tensor cores or bulk copies. Asynchronous copies are plain ones, as on such a GPU. Beyond it: a
// grid may be one cluster (cluster.cpp).
#pragma once
#include <cstddef>

namespace simt::device {
inline constexpr int compute_major = 7, compute_minor = 0;
inline constexpr int warp_size = 32;
inline constexpr int max_threads_per_block = 1024;
inline constexpr int max_block_size[3] = {1024, 1024, 64};
inline constexpr int max_grid_size[3] = {2147483647, 65535, 65535};
inline constexpr int max_threads_per_multiprocessor = 2048;
inline constexpr int max_blocks_per_multiprocessor = 8;
inline constexpr int usual_blocks_of_cluster = 8, max_blocks_of_cluster = 16;  // more than 8 where the kernel asks
inline constexpr size_t constant_bytes = 64 << 10;
inline constexpr size_t shared_bytes = 48 << 10;
inline constexpr size_t shared_bytes_optin = 227 << 10;
inline constexpr size_t shared_bytes_per_multiprocessor = 228 << 10;

/// Blocks that a multiprocessor (a worker thread) would hold at once; 0 where not even one fits.
int resident_blocks(int block_size, size_t dynamic_shared_bytes);
/// Worker threads: SIMT_WORKERS where that is set, else one per hardware thread.
int workers();
/// What the host is told: SIMT_MULTIPROCESSORS where that is set, else as many as there are workers. Grids that are to
/// fill a device are so large; blocks that wait for each other have a thread each, whatever the number of workers.
int multiprocessors();
}  // namespace simt::device
