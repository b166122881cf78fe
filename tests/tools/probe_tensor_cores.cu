// What the certificate's probe (variants/common/certified/accumulator_probe.cuh) finds on this GPU: by kind of sums,
// the worst error over what docs/certificate.md allows for. Says so, and ends with 1, where that is not enough. From
// the root of the project:
//     nvcc -std=c++20 --expt-relaxed-constexpr -arch=native -o /tmp/probe tests/tools/probe_tensor_cores.cu &&
//     /tmp/probe
#include "../../variants/common/certified/accumulator_probe.cuh"

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
