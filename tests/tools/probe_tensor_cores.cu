// What the probe of the tensor cores' accumulators (variants/common/gemm/accumulator_probe.cuh) finds on this GPU:
// for each kind of sum, the largest error as a share of what docs/certificate.md allows. Ends with status 1 where one
// exceeds it. From the root of the project, where build/ is configured with CUDA:
//     cmake --build build --target probe_tensor_cores && build/probe_tensor_cores
#include "../../variants/common/gemm/accumulator_probe.cuh"

int main(int count, char** words) try {
  const int of_each = count > 1 ? std::atoi(words[1]) : 10000;
  const ladder::ProbeRatios ratios = ladder::probe_accumulator(of_each);
  std::printf("worst error, 1 = all that is allowed, of %d probes of each kind:\n", of_each);
  for (int kind = 0; kind < ladder::kinds_of_probes; ++kind) {
    std::printf("%8.4f  %s\n", double(ratios[kind]), ladder::probe_kinds[kind]);
  }
  const std::string why = ladder::refuse_ratios(ratios);
  std::printf("%s\n", why.empty() ? "the certificate holds as far as this shows" : why.c_str());
  return why.empty() ? 0 : 1;
} catch (const ladder::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
