// Random draws with the same bits everywhere: on every machine, with every number of threads, in any order.
//
// Philox4x32-10 is a function from a counter (128 bits) and a key (64 bits) to four 32-bit words: element (i, f) of a
// data set asks for its own words, there is no state to hand on. Source: Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC'11.
//
// The normal deviates use nothing but IEEE + - * / sqrt and integers, each of which has exactly one right result; no
// log or cos of a mathematics library, whose last bit differs between versions. philox.cpp and generate.cpp must
// therefore be compiled with -ffp-contract=off (a * b + c stays two roundings) and never with -ffast-math.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace ladder {

using Words = std::array<uint32_t, 4>;

constexpr Words philox(Words counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * counter[0], b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// Independent streams of one seed: one per purpose, so that no two purposes share a draw.
enum class Stream : uint32_t {
  noise = 1,
  zeros,
  cluster,
  centre,
  factor,
  mixing,
  centroids,
  rows,
  bootstrap,
  kmeanspp,
  afkmc2,
  turns
};

/// Block `block` of row `row` of a stream: the words behind elements 4 * block .. 4 * block + 3 of that row.
constexpr Words draw(uint64_t seed, Stream stream, uint64_t row, uint32_t block) {
  return philox({block, uint32_t(row), uint32_t(row >> 32), uint32_t(stream)}, {uint32_t(seed), uint32_t(seed >> 32)});
}

constexpr uint64_t bits64(uint32_t high, uint32_t low) { return uint64_t(high) << 32 | low; }
/// In [0, 1), a multiple of 2^-24.
constexpr float uniform_float(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }
/// In [0, 1), a multiple of 2^-32.
constexpr double uniform(uint32_t bits) { return double(bits) * 0x1p-32; }
/// In [0, 1), a multiple of 2^-53.
constexpr double uniform_double(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

/// Numbers one after the other from one row of a stream, for what is drawn in order (a shuffle, a sample of rows).
class Sequence {
 public:
  constexpr Sequence(uint64_t seed, Stream stream, uint64_t row = 0) : seed_(seed), stream_(stream), row_(row) {}
  constexpr uint32_t next() {
    if (used_ == 4) {
      words_ = draw(seed_, stream_, row_, block_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Each of 0 .. bound - 1 with the same probability: a product's upper half, and another draw for the few lower
  /// halves that would favour some results. Source: Lemire, "Fast random integer generation in an interval", 2019.
  constexpr uint32_t below(uint32_t bound) {
    uint64_t product = uint64_t(next()) * bound;
    if (uint32_t(product) < bound)
      for (const uint32_t surplus = -bound % bound; uint32_t(product) < surplus;) product = uint64_t(next()) * bound;
    return uint32_t(product >> 32);
  }

 private:
  uint64_t seed_;
  Stream stream_;
  uint64_t row_;
  uint32_t block_ = 0;
  Words words_ = {};
  int used_ = 4;
};

/// A standard normal deviate from 32 random bits: the (bits + 1/2) / 2^32 quantile, so |z| < 6.34. Error below 1e-15,
/// by Wichura's algorithm AS 241 (PPND16), Applied Statistics 37, 1988.
double normal(uint32_t bits);

/// out[j] = the normal deviate of element j of row `row` of a stream, j = 0 .. count - 1.
void normals(uint64_t seed, Stream stream, uint64_t row, size_t count, double* out);

}  // namespace ladder
