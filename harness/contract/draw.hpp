// Random numbers of `initialise`, the same on host and device. validation/initialise.hpp defines which number picks
// which row.
#pragma once
#include "../base/philox.hpp"

namespace ladder {

/// The two numbers in [0, 1) of step m of row t: u and a.
struct DrawnPair {
  double u, a;
};
constexpr DrawnPair drawn_pair(uint64_t seed, Stream stream, int t, int m) {
  const Words words = draw(seed, stream, uint64_t(t), uint32_t(m));
  return {uniform_double(bits64(words[0], words[1])), uniform_double(bits64(words[2], words[3]))};
}

}  // namespace ladder
