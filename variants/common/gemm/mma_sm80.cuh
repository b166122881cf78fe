// The tensor cores' product of a warp: D = A B + C, A 16 x 16 and B 16 x 8 halves, C and D 16 x 8 floats. On a GPU it
// is one instruction (mma.sync.m16n8k16, compute capability 8.0 and up); the CPU device computes it with the largest
// error that is assumed of a tensor core below (simt/tensor_core.h). v22_tensor_split introduces it.
//
// Fragments: lane l of the warp has g = l / 4 and q = l % 4. A register holds two neighbouring halves, the one with the
// lower index in its lower bits; r is a row, k the inner index, n a column:
//   A: r[0] = (r g,     k 2q and 2q + 1),  r[1] = (r g + 8, the same k),
//      r[2] = (r g,     k 2q + 8 and + 9), r[3] = (r g + 8, the same k)
//   B: r[0] = (k 2q and 2q + 1, n g),      r[1] = (k 2q + 8 and + 9, n g)
//   C, D: [0] = (r g, n 2q), [1] = (r g, n 2q + 1), [2] = (r g + 8, n 2q), [3] = (r g + 8, n 2q + 1)
// Source: PTX ISA, section "Matrix fragments for mma.m16n8k16 with floating point type".
#pragma once
#include <cuda_fp16.h>
#ifndef __CUDACC__
#include <simt/tensor_core.h>
#endif

#include "../../../harness/contract/launch.cuh"

namespace ladder {

constexpr int mma_rows = 16, mma_columns = 8, mma_depth = 16;

/// The smallest size that the exponent of a half can express. Smaller halves, and zeros, have the same exponent: a
/// tensor core that aligns products by their operands' exponents aligns them as if they were this large.
constexpr float min_nominal = 0x1p-14f;
__host__ __device__ inline float nominal(float half) {
  const float size = fabsf(half);
  return size < min_nominal ? min_nominal : size;
}

// ---- what is assumed of a tensor core's sums; accumulator_probe.cuh tests it on the device at hand

/// One mma differs from C + sum a_k b_k by at most this many units of 2^-23 (|C| + sum |a_k|' |b_k|'), where |x|' is
/// the nominal size of a half, max(|x|, min_nominal): two steps, each of which truncates nine addends and their sum.
constexpr double cut_units = 20;
constexpr int most_features = 1 << 16;  // so that the truncations of all steps together stay below a hundredth

/// Largest error of a product over d features, relative to |yh|' |zh|': the assumption, step after step.
__host__ __device__ inline double accumulation(int d) {
  const double all = cut_units * 0x1p-23 * ((d + mma_depth - 1) / mma_depth);
  return all / (1 - all);
}

struct FragmentA {
  uint32_t r[4];
};
struct FragmentB {
  uint32_t r[2];
};

/// d += A B. Called by all lanes of a warp, in a block of one dimension. library: nvcuda::wmma hides the fragment
/// layout, CuTe has it (SM80_16x8x16_F32F16F16F32_TN); own because the epilogues index fragments.
__device__ inline void mma(float (&d)[4], const FragmentA& a, const FragmentB& b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __trap();  // never reached: refuse_tensor_tiles
#elif defined(__CUDACC__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
#else
  simt::mma_m16n8k16(d, a.r, b.r);
#endif
}

// ---- tiles of halves in shared memory

constexpr int tile_depth = 32;               // halves of a row in a tile
constexpr int tile_chunks = tile_depth / 8;  // 16 bytes each
constexpr int tile_words = tile_depth / 2;   // 32 bits each, of a row

/// The place in a tile of the 16 bytes `chunk` of `row`, in words. Swizzled: the chunks of a row are permuted by an XOR
/// with its index, so that equal chunks of 8 rows, which ldmatrix reads at once, lie in different banks.
__device__ inline int smem_offset(int row, int chunk) {
  return (row * tile_chunks + (chunk ^ (row / 2 % tile_chunks))) * 4;
}

#ifdef __CUDACC__
/// Four matrices of 8 x 8 halves: each lane passes the address of a row of one of them (lanes 8 m .. 8 m + 7: of matrix
/// m), and receives two neighbouring halves of row l / 4 of each. library: CuTe has it (SM75_U32x4_LDSM_N); own because
/// CUTLASS is no dependency.
__device__ inline void load_matrices(uint32_t (&r)[4], const uint32_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(uint32_t(__cvta_generic_to_shared(row))));
}
#endif

/// A: 16 rows of the tile from `row` on, 16 halves from chunk `chunk` on.
__device__ inline FragmentA load_a(const uint32_t* tile, int row, int chunk) {
  const int lane = threadIdx.x % 32;
  FragmentA a;
#ifdef __CUDACC__
  load_matrices(a.r, tile + smem_offset(row + lane % 16, chunk + lane / 16));
#else
  for (int e = 0; e < 4; ++e) a.r[e] = tile[smem_offset(row + lane / 4 + e % 2 * 8, chunk + e / 2) + lane % 4];
#endif
  return a;
}

/// Two B side by side, whose columns are 16 rows of the tile from `row` on; 16 halves from chunk `chunk` on.
__device__ inline void load_b(FragmentB (&b)[2], const uint32_t* tile, int row, int chunk) {
  const int lane = threadIdx.x % 32;
#ifdef __CUDACC__
  uint32_t r[4];
  load_matrices(r, tile + smem_offset(row + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2));
  for (int e = 0; e < 4; ++e) b[e / 2].r[e % 2] = r[e];
#else
  for (int e = 0; e < 4; ++e)
    b[e / 2].r[e % 2] = tile[smem_offset(row + e / 2 * 8 + lane / 4, chunk + e % 2) + lane % 4];
#endif
}

}  // namespace ladder
