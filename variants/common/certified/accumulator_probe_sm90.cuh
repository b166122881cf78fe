// The probe of the tensor cores (probe.cuh) for the products of a warpgroup: another instruction may add up otherwise.
// v23_multicast introduces it.
#pragma once
#include "../gemm/wgmma_sm90.cuh"
#include "accumulator_probe.cuh"

namespace ladder {

#ifdef __CUDACC__
template <int columns>
constexpr size_t group_probe_bytes = step_bytes<columns> + sizeof(float) * warpgroup_rows* columns;

/// As probe_kernel(), a probe for each block of one warpgroup: 64 x columns sums after each link of its chain.
template <int columns>
__global__ void __launch_bounds__(warpgroup_threads) group_probe_kernel(unsigned* worst) {
  unsigned char* const b = dynamic_shared<unsigned char>();               // a step's B
  float* const sums = reinterpret_cast<float*>(b + step_bytes<columns>);  // warpgroup_rows x columns
  const int probe = blockIdx.x, thread = threadIdx.x;
  const auto two = [&](int link, int matrix, int line, int word) {
    return __halves2half2(probe_operand(probe, link, matrix, line, 2 * word),
                          probe_operand(probe, link, matrix, line, 2 * word + 1));
  };
  float d[columns / 2] = {}, largest = 0;
  for (int link = 0; link < probe_chain; ++link) {
    for (int e = thread; e < columns * mma_depth / 2; e += warpgroup_threads) {
      const int column = e / (mma_depth / 2), word = e % (mma_depth / 2);
      reinterpret_cast<__half2*>(b)[b_smem_offset<columns>(column, word)] = two(link, 1, column, word);
    }
    fence_async_proxy();
    __syncthreads();
    FragmentA a;
    for (int e = 0; e < 4; ++e) {
      const __half2 pair = two(link, 0, accumulator_row(thread, e % 2 * 2), thread % 4 + e / 2 * 4);
      a.r[e] = reinterpret_cast<const uint32_t&>(pair);
    }
    warpgroup_arrive();
    wgmma<columns>(d, a, descriptor<columns>(uint32_t(__cvta_generic_to_shared(b))), link > 0);
    warpgroup_commit();
    warpgroup_wait_for(d);
#pragma unroll
    for (int e = 0; e < columns / 2; ++e)
      sums[accumulator_row(thread, e) * columns + accumulator_column(thread, e)] = d[e];
    __syncthreads();
    for (int at = thread; at < warpgroup_rows * columns; at += warpgroup_threads) {
      DoubleDouble exact;
      double size = 0;
      for (int k = 0; k < (link + 1) * mma_depth; ++k) {
        const float row = __half2float(probe_operand(probe, k / mma_depth, 0, at / columns, k % mma_depth));
        const float column = __half2float(probe_operand(probe, k / mma_depth, 1, at % columns, k % mma_depth));
        exact = add(exact, {double(row) * double(column), 0});
        size += double(nominal(row)) * double(nominal(column));
      }
      const double error = fabs(add(exact, {-double(sums[at]), 0}).high);
      const double allowed = accumulation((link + 1) * mma_depth) * size;
      // Not `>`: an error that is no number is none that is allowed.
      largest = fmaxf(largest, error <= 1e6 * allowed ? float(error / allowed) : 1e6f);
    }
    __syncthreads();  // all have read the sums
  }
  atomicMax(&worst[probe % kinds_of_probes], __float_as_uint(largest));
}

/// As probe_accumulator().
template <int columns>
ProbeRatios probe_group_accumulator(int of_each) {
  unsigned* worst = nullptr;
  ProbeRatios ratios;
  check(cudaMalloc(&worst, sizeof ratios), "taking memory for the probe of the tensor cores");
  std::shared_ptr<void> given_back(worst, [](void* p) { cudaFree(p); });
  check(cudaMemset(worst, 0, sizeof ratios), "clearing the probe's results");
  launch(group_probe_kernel<columns>, of_each * kinds_of_probes, warpgroup_threads, group_probe_bytes<columns>, nullptr,
         worst);
  check(cudaMemcpy(ratios.data(), worst, sizeof ratios, cudaMemcpyDeviceToHost), "probing the tensor cores");
  return ratios;
}
#endif

/// Why the certificate does not hold for a warpgroup's products on the current device, which has them; empty where it
/// does.
inline std::string refuse_group_accumulator() {
#ifdef __CUDACC__
  return refuse_ratios(probe_group_accumulator<168>(40));  // 64 x 168 sums each: 3 times those of probe.cuh's 1000
#else
  return "";
#endif
}

}  // namespace ladder
