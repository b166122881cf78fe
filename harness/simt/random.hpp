// Random numbers for the order of threads and blocks: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014).
#pragma once
#include <cstdint>

namespace simt {

class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return uint64_t(static_cast<unsigned __int128>(next()) * n >> 64); }

 private:
  uint64_t state_;
};

}  // namespace simt
