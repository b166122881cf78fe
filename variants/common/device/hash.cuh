// A hash that spreads small integers, for pseudo-random choices that are the same on every device.
#pragma once
#include "../../../harness/contract/launch.cuh"

namespace ladder {

/// A 32-bit hash: two rounds of xor-shift and multiply. Source: C. Wellons, hash-prospector (lowbias32), 2018.
__host__ __device__ inline uint32_t hash32(uint32_t h) {
  for (int round = 0; round < 2; ++round) h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu;
  return h;
}

}  // namespace ladder
