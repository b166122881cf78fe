// mma.sync.m16n8k16 with halves as operands and floats as sums: D = A B + D, A 16 x 16, B 16 x 8, D 16 x 8. Its sums
// have the largest error that the ladder's certificates allow a tensor core (variants/common/gemm/mma_sm80.cuh).
// Fragments are those of the PTX ISA, section "Matrix fragments for mma.m16n8k16 with floating point type".
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "half.h"
#include "synchronise.h"

namespace simt {

/// The size by which a tensor core aligns a half: at least the smallest that its exponent can express.
inline float nominal_size(float half) { return std::max(std::fabs(half), 0x1p-14f); }

/// The sum of a float and 8 products of halves, with the largest error that the certificate allows for: every addend is
/// truncated to a multiple of 2^-23 of the power of two of the largest one, and their sum to 24 bits. The power of two
/// of a product is that of its operands' nominal sizes; `size` has these products. Tensor cores truncate in this way,
/// with none (V100) to two (A100 and later) bits more (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
/// NVIDIA tensor cores", 2021).
inline float cut_sum(float c, const float* product, const float* size) {
  // Products of halves are floats without a rounding. As whole numbers, the bits of magnitudes are in their order.
  uint32_t most = std::bit_cast<uint32_t>(c) & 0x7fffffffu;
  for (int p = 0; p < 8; ++p) most = std::max(most, std::bit_cast<uint32_t>(size[p]));
  const int exponent = int(most >> 23);  // biased
  if (exponent == 255) {                 // infinite, or no number
    for (int p = 0; p < 8; ++p) c += product[p];
    return c;
  }
  const float units = std::bit_cast<float>(uint32_t(277 - exponent) << 23);  // 2^23 / the power of two
  int32_t sum = int32_t(c * units);
  for (int p = 0; p < 8; ++p) sum += int32_t(product[p] * units);
  const uint32_t magnitude = uint32_t(std::abs(sum));
  const int excess = std::max(0, 8 - std::countl_zero(magnitude));
  const float cut = float(magnitude >> excess << excess) * std::bit_cast<float>(uint32_t(exponent - 23) << 23);
  return sum < 0 ? -cut : cut;
}

/// The two halves of a register as floats.
inline void widen(uint32_t pair, float* out) {
  out[0] = __half2float(__ushort_as_half((unsigned short)(pair & 0xffffu)));
  out[1] = __half2float(__ushort_as_half((unsigned short)(pair >> 16)));
}

#ifdef __SANITIZE_THREAD__  // a module to be counted: the product is one instruction of a tensor core, and none of
                            // these
#define SIMT_EMULATED __attribute__((noinline))
#else
#define SIMT_EMULATED
#endif

SIMT_EMULATED inline void emulated_mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  constexpr int depth = 16;
  struct Lane {
    uint32_t a[4], b[2];
  };
  __shared__ Lane lanes[32][32];  // of each warp of a block
  Lane* const warp = lanes[threadIdx.x / 32];
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  std::copy(a, a + 4, warp[lane].a);
  std::copy(b, b + 2, warp[lane].b);
  __syncwarp();  // all lanes' fragments are stored
  float row[2][depth], column[2][depth];
  for (int k = 0; k < 4; ++k) {
    const Lane& from = warp[4 * g + k];
    for (int e = 0; e < 4; ++e) widen(from.a[e], &row[e % 2][e / 2 * 8 + 2 * k]);
    for (int n = 0; n < 2; ++n) {
      for (int e = 0; e < 2; ++e) widen(warp[4 * (2 * q + n) + k].b[e], &column[n][e * 8 + 2 * k]);
    }
  }
  __syncwarp();  // all have read them: the next product may overwrite them
  for (int e = 0; e < 4; ++e) {
    float product[depth], size[depth];
    for (int k = 0; k < depth; ++k) {
      product[k] = row[e / 2][k] * column[e % 2][k];
      size[k] = nominal_size(row[e / 2][k]) * nominal_size(column[e % 2][k]);
    }
    d[e] = cut_sum(cut_sum(d[e], product, size), product + 8, size + 8);
  }
}

/// d += A B, called by all lanes of a warp, in a block of one dimension.
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __SANITIZE_THREAD__
  simt_count_silence(1);
#endif
  emulated_mma_m16n8k16(d, a, b);
#ifdef __SANITIZE_THREAD__
  simt_count_silence(-1);
#endif
}

}  // namespace simt
