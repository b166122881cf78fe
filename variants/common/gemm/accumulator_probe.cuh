// A test of the assumption of mma_sm80.cuh on the device at hand: chains of products chosen to provoke large errors,
// compared with exact sums. Run before the first assignment that relies on it; a device is refused where a sum is off
// by more. v23_half_product introduces it.
#pragma once
#include <array>
#include <cstdio>

#include "../device/double_double.cuh"
#include "../device/hash.cuh"
#include "mma_sm80.cuh"

namespace ladder {

constexpr int probe_chain = 4;  // products added up one after another

/// The kinds of operands, in the order of probe_operand()'s cases.
constexpr std::array probe_kinds = {
    "any halves",                                           // without infinities and NaNs
    "a large product and tiny ones",                        // just below a unit in the last place of its float
    "products that nearly cancel",                          // in pairs, of several sizes
    "subnormal halves times any",                           // aligned as if they were 2^-14
    "products of one sign and of all sizes",                // a sum that only grows
    "nearly equal products",                                // the most carries
    "zeros times large halves, and tiny products",          // only the exponent of a zero is large
    "subnormal halves times large ones, and tiny products"  // likewise
};
constexpr int kinds_of_probes = int(probe_kinds.size());

/// A hash: pseudo-random numbers, the same in every run and on every device.
__device__ inline uint32_t probe_hash(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t h = hash32(a * 0x9e3779b9u ^ b * 0x85ebca6bu ^ c * 0xc2b2ae35u);
  return h ^ h >> 16;
}

/// Operand `k` of a line (a row of A: matrix 0, a column of B: matrix 1) in link `link` of the chain.
__device__ inline __half probe_operand(int probe, int link, int matrix, int line, int k) {
  const uint32_t h = probe_hash(uint32_t(probe), uint32_t(link * 64 + matrix * 32 + line), uint32_t(k));
  const int side = matrix ^ (probe / kinds_of_probes / 2 % 2);  // either operand may be the special one
  const auto half = [](uint32_t bits) { return __ushort_as_half((unsigned short)bits); };
  const auto power = [](int exponent, uint32_t fraction) {  // 2^exponent times 1 to 2
    return __ushort_as_half((unsigned short)(uint32_t(exponent + 15) << 10 | (fraction & 0x3ffu)));
  };
  const uint32_t sign = (h >> 30 & 1) << 15;
  switch (probe % kinds_of_probes) {
    case 0:
      return half(sign | h % 0x7c00u);
    case 1:
      return k == 0 && link == 0 ? power(0, 0) : power(side == 0 ? -12 : -13, 0x3ff - h % 4);
    case 2:
      return half(__half_as_ushort(power(side == 0 ? k / 2 % 4 * 4 : 2, 0x3f8 + h % 8)) |
                  (side == 0 && k % 2 == 1 ? 0x8000u : 0));
    case 3:
      return half(sign | h % (side == 0 ? 0x400u : 0x7c00u));
    case 4:
      return power(int(h >> 8 & 0xffffu) % 28 - 14, h);
    case 5:
      return half(__half_as_ushort(power(0, 0x3f8 + h % 8)) | (probe / kinds_of_probes % 2 == 1 ? sign : 0));
    default:  // one in each half of the products: every known tensor core adds at least 8 at a time
      if (k % 8 == 0) return side == 1 ? power(15, 0) : half(probe % kinds_of_probes == 6 ? 0 : 1 + h % 15);
      return power(side == 0 ? -12 - int(h >> 8 & 3) : -12, 0x3ff - h % 4);
  }
}

/// The error of `sum`, the products of a row of A and a column of B added up to link `link`, divided by the allowed
/// error for a chain that long.
__device__ inline float probe_ratio(int probe, int link, int row, int column, float sum) {
  DoubleDouble exact;
  double size = 0;
  for (int k = 0; k < (link + 1) * mma_depth; ++k) {
    const float a = __half2float(probe_operand(probe, k / mma_depth, 0, row, k % mma_depth));
    const float b = __half2float(probe_operand(probe, k / mma_depth, 1, column, k % mma_depth));
    exact = add(exact, {double(a) * double(b), 0});
    size += double(nominal(a)) * double(nominal(b));
  }
  const double error = fabs(add(exact, {-double(sum), 0}).high);
  const double allowed = accumulation((link + 1) * mma_depth) * size;
  return error <= 1e6 * allowed ? float(error / allowed) : 1e6f;  // written so that a NaN counts as not allowed
}

/// worst[kind]: the largest ratio of any element, as the bits of a float (non-negative floats and their bits have the
/// same order).
static __global__ void probe_kernel(unsigned* worst, int probes) {
  const int probe = int(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (probe >= probes) return;  // a whole warp at a time
  const int g = lane / 4, q = lane % 4;
  float d[4] = {};
  for (int link = 0; link < probe_chain; ++link) {
    const auto two = [&](int matrix, int line, int k) {
      return uint32_t(__half_as_ushort(probe_operand(probe, link, matrix, line, k))) |
             uint32_t(__half_as_ushort(probe_operand(probe, link, matrix, line, k + 1))) << 16;
    };
    FragmentA a;
    FragmentB b;
    for (int e = 0; e < 4; ++e) a.r[e] = two(0, g + e % 2 * 8, 2 * q + e / 2 * 8);
    for (int e = 0; e < 2; ++e) b.r[e] = two(1, g, 2 * q + e * 8);
    mma(d, a, b);
    for (int e = 0; e < 4; ++e) {
      const float ratio = probe_ratio(probe, link, g + e / 2 * 8, 2 * q + e % 2, d[e]);
      atomicMax(&worst[probe % kinds_of_probes], __float_as_uint(ratio));
    }
  }
}

/// By kind; 1 is the whole allowed error.
using ProbeRatios = std::array<float, kinds_of_probes>;

/// The results of `probes_per_kind` probes of each kind; run(worst, probes) launches them.
template <class Launch>
ProbeRatios run_probes(int probes_per_kind, const Launch& run) {
  unsigned* worst = nullptr;
  ProbeRatios ratios;
  check(cudaMalloc(&worst, sizeof ratios), "taking memory for the probe of the tensor cores");
  std::shared_ptr<void> given_back(worst, [](void* p) { cudaFree(p); });
  check(cudaMemset(worst, 0, sizeof ratios), "clearing the probe's results");
  run(worst, probes_per_kind * kinds_of_probes);
  check(cudaMemcpy(ratios.data(), worst, sizeof ratios, cudaMemcpyDeviceToHost), "probing the tensor cores");
  return ratios;
}

/// mma.sync on the current device.
inline ProbeRatios probe_accumulator(int probes_per_kind) {
  return run_probes(probes_per_kind, [](unsigned* worst, int probes) {
    launch(probe_kernel, blocks(probes, 8), 256, 0, nullptr, worst, probes);
  });
}
/// The reason why the certificate does not hold with these results; empty where it does.
inline std::string refuse_ratios(const ProbeRatios& ratios) {
  std::string found;
  for (int kind = 0; kind < kinds_of_probes; ++kind) {
    if (ratios[kind] <= 1) continue;
    char times[32];
    std::snprintf(times, sizeof times, "%s%.2f times for ", found.empty() ? "" : "; ", double(ratios[kind]));
    found += times + std::string(probe_kinds[kind]);
  }
  if (found.empty()) return "";
  return "this device's tensor cores cut sums by more than the certificate allows for, and labels would not be "
         "certain: " +
         found;
}

/// The reason why the certificate does not hold on the current device; empty where it does.
inline std::string refuse_accumulator(const Device& device) {
  // The CPU device's emulation is deterministic, and slow.
  return refuse_ratios(probe_accumulator(device.kind == DeviceKind::cuda ? 1000 : 1));
}
}  // namespace ladder
