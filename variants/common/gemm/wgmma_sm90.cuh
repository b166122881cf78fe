// Hopper's asynchronous matrix product of a warpgroup, four warps: D = A B + D, A 64 x 16 halves in registers, B
// 16 x `columns` halves in shared memory, D floats in registers (wgmma.mma_async.m64nNk16, compute capability 9.0
// only). The layouts are plain arithmetic, also for the host and its tests; the instructions are for nvcc. Here is the
// instruction for 128 columns. v26_wgmma introduces it.
//
// A and D: warp w of the group holds rows 16 w .. 16 w + 15, of A the fragment of mma.m16n8k16 (FragmentA in
// mma_sm80.cuh); element e of a thread's part of D is at accumulator_row() and accumulator_column().
// B: the 16 halves of column n are two times 16 bytes. Core matrices, 8 columns x 16 bytes, are 128 contiguous bytes.
// Here those of the same 8 features follow each other column after column, so that a tile of centroids is, for each 8
// features, one array of columns x 16 bytes, which one bulk copy without a tensor map brings. No swizzle is needed: the
// tensor core reads whole core matrices, 128 contiguous bytes in 32 different banks. Source: PTX ISA, section
// "Asynchronous Warpgroup Level Matrix Instructions": "Register Fragments and Shared Memory Matrix Layouts" (figures of
// A and D for .m64nNk16, core matrices), "Matrix Descriptor Format", "wgmma.mma_async", "wgmma.fence",
// "wgmma.commit_group", "wgmma.wait_group".
#pragma once
#include "mma_sm80.cuh"
#ifdef __CUDACC__
#include <cuda/ptx>
#endif

namespace ladder {

constexpr int warpgroup_threads = 128, warpgroup_rows = 64;

// ---- layouts

/// The row of element e of a thread's part of D, columns / 2 elements.
__host__ __device__ constexpr int accumulator_row(int thread, int e) {
  return thread / 32 * 16 + thread % 32 / 4 + e / 2 % 2 * 8;
}
__host__ __device__ constexpr int accumulator_column(int thread, int e) { return e / 4 * 8 + thread % 4 * 2 + e % 2; }

/// Points in global memory in the order of a warpgroup's fragments: for 64 rows, for each step of 16 features, 128
/// times a FragmentA, so that a warpgroup loads A by 16 coalesced bytes per thread. The place of the features 2 word
/// and 2 word + 1 of a row, in words.
__host__ __device__ constexpr int64_t a_fragment_offset(int64_t row, int word, int steps) {
  const int line = int(row % warpgroup_rows), warp = line / 16, g = line % 8, below = line % 16 / 8;
  const int step = word / 8, q = word % 4, right = word % 8 / 4;
  return (((row / warpgroup_rows * steps + step) * 4 + warp) * 32 + g * 4 + q) * 4 + right * 2 + below;
}

/// The place of the features 2 word and 2 word + 1 of a column in a tile of centroids, in words.
template <int columns>
__host__ __device__ constexpr int b_smem_offset(int column, int word) {
  return (word / 4 * columns + column) * 4 + word % 4;
}

constexpr int core_bytes = 128;
/// The bytes of B for one step of 16 features.
template <int columns>
constexpr int step_bytes = columns* mma_depth * 2;

/// The matrix descriptor of a step's B at this shared address, a multiple of 16. In units of 16 bytes: bits 0-13 the
/// address; 16-29 the offset to the next core matrix along the features, 32-45 along the columns; 62-63 are 0: no
/// swizzle. library: cute::make_gmma_desc; own because CUTLASS is no dependency.
template <int columns>
__host__ __device__ constexpr uint64_t descriptor(uint32_t shared) {
  constexpr uint64_t next_features = columns * 16, next_columns = core_bytes;
  return uint64_t((shared & 0x3ffffu) >> 4) | next_features >> 4 << 16 | next_columns >> 4 << 32;
}
/// The increment of a descriptor for a B that lies `bytes` further: addresses below 256 KB never carry.
__host__ __device__ constexpr uint64_t descriptor_offset(int bytes) { return uint64_t(bytes) >> 4; }

/// A pipeline stage holds two steps of B, 32 features.
constexpr int stage_steps = 2, stage_depth = stage_steps * mma_depth;

#ifdef __CUDACC__
/// By each thread that wrote shared memory with ordinary stores or cp.async, before the barrier after which wgmma or
/// bulk copies access it: these use the async proxy, which does not see such writes without a fence.
__device__ inline void fence_async_proxy() { cuda::ptx::fence_proxy_async(cuda::ptx::space_shared); }

// ---- the instructions, each by all threads of a warpgroup together. library: cuda::ptx has no wgmma, CuTe has
// (cute/arch/mma_sm90_gmma.hpp); own because CUTLASS is no dependency

/// Before the first wgmma, and before one whose registers other instructions have written.
__device__ inline void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// The wgmma instructions since the last call become a group.
__device__ inline void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most the last `pending` groups are in flight: the others have read A's registers and B.
template <int pending>
__device__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// The same, after which d can be read: the groups in flight must not write it.
template <int pending = 0, class Number, int count>
__device__ void warpgroup_wait_for(Number (&d)[count]) {
  warpgroup_wait<pending>();
  // A compiler barrier: d must not be read before the wait.
#pragma unroll
  for (int e = 0; e < count; ++e) {
    if constexpr (std::is_same_v<Number, float>)
      asm volatile("" : "+f"(d[e])::"memory");
    else
      asm volatile("" : "+r"(d[e])::"memory");
  }
}

/// Starts d = A B + (more ? d : 0). Until it has ended, d, A's registers and B must not be accessed. One specialisation
/// per width, as each is an instruction of its own: wgmma_widths_sm90.cuh has those of later rungs.
template <int columns>
__device__ void wgmma(float (&d)[columns / 2], const FragmentA& a, uint64_t b, bool more) = delete;
template <>
__device__ inline void wgmma<128>(float (&d)[64], const FragmentA& a, uint64_t b, bool more) {
  // clang-format off
  asm volatile(
      "{ .reg .pred more; setp.ne.b32 more, %69, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, more, 1, 1, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(int(more)));
  // clang-format on
}
#endif

/// The reason why this device cannot run such a kernel; empty where it can.
inline std::string refuse_warpgroups(const Device& device) {
  const std::string what = "its products are those of warpgroups (wgmma), which a GPU of compute capability 9.0 has: ";
  if (device.kind != DeviceKind::cuda) return what + "the CPU device has none of Hopper's instructions";
  if (device.compute_capability != 90)
    return what + "this one has " + std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  return "";
}

}  // namespace ladder
