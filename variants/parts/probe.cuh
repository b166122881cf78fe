// Does this device's tensor core cut its sums by no more than the certificate allows for? Products that show it, tried
// on the device at hand. v23_certified introduces it.
#pragma once
#include "certificate.cuh"
#include "exact.cuh"

namespace ladder {

constexpr int probe_kinds = 6;
constexpr int probe_chain = 4;  // mma one after another, by one warp

/// Numbers that look random, the same in every run and on every device.
__device__ inline uint32_t scrambled(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t h = a * 0x9e3779b9u ^ b * 0x85ebca6bu ^ c * 0xc2b2ae35u;
  for (int round = 0; round < 2; ++round) h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu;
  return h ^ h >> 16;
}

/// Operand `k` of a line (a row of A: side 0, a column of B: side 1) in link `link` of the chain. The kinds:
///   0 whatever a half can be, but for infinities and NaNs;
///   1 one large product, the others just below a unit in the last place of its float: all of them may be cut off;
///   2 products of alternating sign that nearly cancel, in a growing chain;
///   3 subnormal halves, times all kinds;
///   4 magnitudes from end to end of the range, of the same sign: a sum that only grows;
///   5 nearly equal values: as many carries as there can be.
__device__ inline __half probe_operand(int probe, int link, int side, int line, int k) {
  const uint32_t h = scrambled(uint32_t(probe), uint32_t(link * 64 + side * 32 + line), uint32_t(k));
  const auto half = [](uint32_t bits) { return __ushort_as_half((unsigned short)bits); };
  const auto power = [](int exponent, uint32_t fraction) {  // 2^exponent times 1 to 2
    return __ushort_as_half((unsigned short)(uint32_t(exponent + 15) << 10 | (fraction & 0x3ffu)));
  };
  const uint32_t sign = (h >> 30 & 1) << 15;
  switch (probe % probe_kinds) {
    case 0:
      return half(sign | h % 0x7c00u);
    case 1:
      return k == 0 && link == 0 ? power(0, 0) : power(side == 0 ? -12 : -13, 0x3ff - h % 4);
    case 2:
      return half(__half_as_ushort(power(side == 0 ? k / 2 % 4 : 2, h >> (side == 0 ? 20 : 12) & 7)) |
                  (side == 0 && k % 2 == 1 ? 0x8000u : 0));
    case 3:
      return half(sign | h % (side == 0 ? 0x400u : 0x7c00u));
    case 4:
      return power(int(h >> 8 & 0xffffu) % 28 - 14, h);
    default:
      return half(__half_as_ushort(power(0, 0x3f8 + h % 8)) | (probe / probe_kinds % 2 == 1 ? sign : 0));
  }
}

/// The largest error of any element of any probe, in units of 2^-23 (|C| + sum |a b|), over what the assumption has
/// for a chain that long; as the bits of a float, which are in the order of what they stand for.
__global__ void probe_kernel(unsigned* worst, int probes) {
  const int probe = int(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (probe >= probes) return;  // a whole warp at a time
  const int g = lane / 4, q = lane % 4;
  float d[4] = {};
  DoubleDouble exact[4];
  double size[4] = {};
  for (int link = 0; link < probe_chain; ++link) {
    const auto two = [&](int side, int line, int k) {
      return uint32_t(__half_as_ushort(probe_operand(probe, link, side, line, k))) |
             uint32_t(__half_as_ushort(probe_operand(probe, link, side, line, k + 1))) << 16;
    };
    FragmentA a;
    FragmentB b;
    for (int e = 0; e < 4; ++e) a.r[e] = two(0, g + e % 2 * 8, 2 * q + e / 2 * 8);
    for (int e = 0; e < 2; ++e) b.r[e] = two(1, g, 2 * q + e * 8);
    mma(d, a, b);
    for (int e = 0; e < 4; ++e) {
      for (int k = 0; k < mma_depth; ++k) {
        const double product = double(__half2float(probe_operand(probe, link, 0, g + e / 2 * 8, k))) *
                               double(__half2float(probe_operand(probe, link, 1, 2 * q + e % 2, k)));
        exact[e] = add(exact[e], {product, 0});
        size[e] += fabs(product);
      }
      const DoubleDouble error = add(exact[e], {-double(d[e]), 0});
      const double allowed = accumulation((link + 1) * mma_depth) * size[e];
      // Not `>`: an error that is no number is none that is allowed.
      float ratio = fabs(error.high) <= 1e6 * allowed ? float(fabs(error.high) / (allowed > 0 ? allowed : 1)) : 1e6f;
      atomicMax(worst, __float_as_uint(ratio));
    }
  }
}

/// What so many probes find on the current device: 1 is all that the certificate allows for.
inline float probe_accumulator(int probes) {
  unsigned* worst = nullptr;
  check(cudaMalloc(&worst, sizeof *worst), "taking memory for the probe of the tensor cores");
  std::shared_ptr<void> given_back(worst, [](void* p) { cudaFree(p); });
  check(cudaMemset(worst, 0, sizeof *worst), "clearing the probe's result");
  launch(probe_kernel, blocks(probes, 8), 256, 0, nullptr, worst, probes);
  float ratio = 0;
  check(cudaMemcpy(&ratio, worst, sizeof ratio, cudaMemcpyDeviceToHost), "probing the tensor cores");
  return ratio;
}

/// Why the certificate does not hold on the current device; empty where it does.
inline std::string refuse_accumulator(const Device& device) {
  // Of each kind 1000; of the CPU device's stand-in, which is known and slow, one.
  const float ratio = probe_accumulator(device.kind == DeviceKind::cuda ? 1000 * probe_kinds : probe_kinds);
  if (ratio <= 1) return "";
  return "this device's tensor cores cut sums by up to " + std::to_string(ratio) +
         " times what the certificate allows for: labels would not be certain";
}

}  // namespace ladder
