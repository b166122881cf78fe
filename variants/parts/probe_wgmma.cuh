// The probe of the tensor cores (probe.cuh) for the products of a warpgroup: another instruction may add up otherwise.
// v24_wgmma introduces it.
#pragma once
#include "probe.cuh"
#include "wgmma.cuh"

namespace ladder {

#ifdef __CUDACC__
template <int columns>
constexpr size_t group_probe_bytes = step_bytes<columns> + sizeof(float) * group_rows* columns;

/// As probe_kernel(), a probe for each block of one warpgroup: 64 x columns sums after each link of its chain.
template <int columns>
__global__ void __launch_bounds__(group_threads) group_probe_kernel(unsigned* worst) {
  unsigned char* const b = dynamic_shared<unsigned char>();               // a step's B
  float* const sums = reinterpret_cast<float*>(b + step_bytes<columns>);  // group_rows x columns
  const int probe = blockIdx.x, thread = threadIdx.x;
  const auto two = [&](int link, int side, int line, int word) {
    return __halves2half2(probe_operand(probe, link, side, line, 2 * word),
                          probe_operand(probe, link, side, line, 2 * word + 1));
  };
  float d[columns / 2] = {}, largest = 0;
  for (int link = 0; link < probe_chain; ++link) {
    for (int e = thread; e < columns * mma_depth / 2; e += group_threads) {
      const int column = e / (mma_depth / 2), word = e % (mma_depth / 2);
      reinterpret_cast<__half2*>(b)[centroid_place<columns>(column, word)] = two(link, 1, column, word);
    }
    share_with_copies();
    __syncthreads();
    FragmentA a;
    for (int e = 0; e < 4; ++e) {
      const __half2 pair = two(link, 0, held_row(thread, e % 2 * 2), thread % 4 + e / 2 * 4);
      a.r[e] = reinterpret_cast<const uint32_t&>(pair);
    }
    fence_products();
    multiply_group<columns>(d, a, descriptor<columns>(uint32_t(__cvta_generic_to_shared(b))), link > 0);
    close_products();
    finish_products(d);
#pragma unroll
    for (int e = 0; e < columns / 2; ++e) sums[held_row(thread, e) * columns + held_column(thread, e)] = d[e];
    __syncthreads();
    for (int at = thread; at < group_rows * columns; at += group_threads) {
      DoubleDouble exact;
      double size = 0;
      for (int k = 0; k < (link + 1) * mma_depth; ++k) {
        const auto operand = [&](int side, int line) {
          return double(__half2float(probe_operand(probe, k / mma_depth, side, line, k % mma_depth)));
        };
        const double product = operand(0, at / columns) * operand(1, at % columns);
        exact = add(exact, {product, 0});
        size += fabs(product);
      }
      const double error = fabs(add(exact, {-double(sums[at]), 0}).high);
      const double allowed = accumulation((link + 1) * mma_depth) * size;
      // Not `>`: an error that is no number is none that is allowed.
      largest = fmaxf(largest, error <= 1e6 * allowed ? float(error / (allowed > 0 ? allowed : 1)) : 1e6f);
    }
    __syncthreads();  // all have read the sums
  }
  atomicMax(worst, __float_as_uint(largest));
}

/// As probe_accumulator().
template <int columns>
float probe_group_accumulator(int probes) {
  unsigned* worst = nullptr;
  check(cudaMalloc(&worst, sizeof *worst), "taking memory for the probe of the tensor cores");
  std::shared_ptr<void> given_back(worst, [](void* p) { cudaFree(p); });
  check(cudaMemset(worst, 0, sizeof *worst), "clearing the probe's result");
  launch(group_probe_kernel<columns>, probes, group_threads, group_probe_bytes<columns>, nullptr, worst);
  float ratio = 0;
  check(cudaMemcpy(&ratio, worst, sizeof ratio, cudaMemcpyDeviceToHost), "probing the tensor cores");
  return ratio;
}
#else
/// The CPU device has no such products.
template <int columns>
float probe_group_accumulator(int) {
  return std::numeric_limits<float>::infinity();
}
#endif

/// Why the certificate does not hold for a warpgroup's products on the current device; empty where it does.
inline std::string refuse_group_accumulator() {
  // 64 x 168 sums for each: as many as probe.cuh tries with 1000 of each kind take 10.
  const float ratio = probe_group_accumulator<168>(40 * probe_kinds);
  if (ratio <= 1) return "";
  return "this device's tensor cores cut sums of a warpgroup by up to " + std::to_string(ratio) +
         " times what the certificate allows for: labels would not be certain";
}

}  // namespace ladder
