// What the probe of the tensor cores' accumulators (variants/common/gemm/accumulator_probe.cuh) finds on this GPU:
// for each instruction that a rung uses and each kind of sum, the largest error as a share of what docs/certificate.md
// allows. Ends with status 1 where one exceeds it. From the root of the project, where build/ is configured with CUDA:
//     cmake --build build --target probe_tensor_cores && build/probe_tensor_cores
// With LADDER_PROBE_WGMMA, compiled for 90a: the shapes of wgmma, too.
#include "../../variants/common/gemm/accumulator_probe.cuh"
#ifdef LADDER_PROBE_WGMMA
#include "../../variants/common/certified/assign_sm90.cuh"
#include "../../variants/common/gemm/wgmma_widths_sm90.cuh"
#endif

int main(int count, char** words) try {
  const int of_each = count > 1 ? std::atoi(words[1]) : 10000;
  std::printf("worst error, 1 = all that is allowed, of %d probes of each kind (wgmma: of a 25th of that):\n", of_each);
  std::string why;
  const auto print = [&why](const char* instruction, const ladder::ProbeRatios& ratios) {
    for (int kind = 0; kind < ladder::kinds_of_probes; ++kind)
      std::printf("%-18s %8.4f  %s\n", instruction, double(ratios[kind]), ladder::probe_kinds[kind]);
    if (why.empty()) why = ladder::refuse_ratios(ratios);
  };
  print("mma.m16n8k16", ladder::probe_accumulator(of_each));
#ifdef LADDER_PROBE_WGMMA
  const int of_wgmma = std::max(1, of_each / 25);
  print("wgmma.m64n64k16", ladder::probe_accumulator_sm90<64>(of_wgmma));
  print("wgmma.m64n128k16", ladder::probe_accumulator_sm90<128>(of_wgmma));
  print("wgmma.m64n168k16", ladder::probe_accumulator_sm90<168>(of_wgmma));
#endif
  std::printf("%s\n", why.empty() ? "the certificate holds as far as this shows" : why.c_str());
  return why.empty() ? 0 : 1;
} catch (const ladder::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
