#include "counting/rules.hpp"

#include <algorithm>
#include <bit>

namespace simt::counting {
namespace {

constexpr int sector_log2 = 5, word_log2 = 2, banks = 32;

/// A small set of numbers: two of each lane at most, or the four words of 16 bytes of each.
class Numbers {
 public:
  void add(uint64_t value) { values_[count_++] = value; }
  void sort() {
    if (!std::is_sorted(begin(), end())) std::sort(values_.begin(), values_.begin() + count_);
  }
  void sort_and_keep_different() {
    sort();
    count_ = int(std::unique(values_.begin(), values_.begin() + count_) - values_.begin());
  }
  const uint64_t* begin() const { return values_.data(); }
  const uint64_t* end() const { return values_.data() + count_; }
  int size() const { return count_; }

 private:
  std::array<uint64_t, 128> values_;
  int count_ = 0;
};

unsigned sectors_of_full_lanes(int lanes, int size_log2) {
  return ((unsigned(lanes) << size_log2) + (1u << sector_log2) - 1) >> sector_log2;
}

Cost global_access(int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask) {
  Numbers sectors;
  for_each_lane(mask, [&](int lane) {
    const uint64_t first = address[lane] >> sector_log2;
    const uint64_t last = (address[lane] + (1ull << size_log2) - 1) >> sector_log2;
    sectors.add(first);
    if (last != first) sectors.add(last);
  });
  sectors.sort_and_keep_different();
  return {unsigned(sectors.size()), sectors_of_full_lanes(std::popcount(mask), size_log2)};
}

/// Equal addresses wait for each other, sector by sector: a sector takes as long as its busiest address.
Cost global_atomic(int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask) {
  Numbers all;
  for_each_lane(mask, [&](int lane) { all.add(address[lane]); });
  all.sort();
  unsigned steps = 0, run = 0, busiest = 0;
  uint64_t sector = ~0ull, before = ~0ull;
  for (const uint64_t a : all) {
    run = a == before ? run + 1 : 1;
    before = a;
    if (a >> sector_log2 != sector) {
      steps += busiest;
      busiest = 0;
      sector = a >> sector_log2;
    }
    busiest = std::max(busiest, run);
  }
  return {steps + busiest, sectors_of_full_lanes(std::popcount(mask), size_log2)};
}

/// Each bank takes one lane after another, whatever the address within it.
Cost shared_atomic(const std::array<uint64_t, 32>& address, uint32_t mask) {
  std::array<unsigned, banks> lanes{};
  for_each_lane(mask, [&](int lane) { ++lanes[address[lane] >> word_log2 & (banks - 1)]; });
  return {*std::max_element(lanes.begin(), lanes.end()), 1};
}

/// 8 and 16 bytes go by halves and quarters of the warp, and twice as many lanes at once where every lane reads what
/// its neighbour reads, or the one after that.
int lanes_at_once(int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask) {
  if (size_log2 <= word_log2) return 32;
  bool pairs = true, every_other = true;
  for_each_lane(mask, [&](int lane) {
    if (mask >> (lane ^ 1) & 1) pairs &= address[lane] == address[lane ^ 1];
    if (mask >> (lane ^ 2) & 1) every_other &= address[lane] == address[lane ^ 2];
  });
  const int lanes = size_log2 == 3 ? 16 : 8;
  return pairs || every_other ? 2 * lanes : lanes;
}

/// A wavefront serves one word of each bank; lanes that want the same word share it.
Cost shared_access(int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask) {
  const int at_once = lanes_at_once(size_log2, address, mask);
  const int words_each = size_log2 > word_log2 ? 1 << (size_log2 - word_log2) : 1;
  Cost cost;
  for (int first = 0; first < 32; first += at_once) {
    const uint32_t part = at_once == 32 ? mask : mask & (((1u << at_once) - 1) << first);
    if (!part) continue;
    Numbers words;
    for_each_lane(part, [&](int lane) {
      const uint64_t word = address[lane] >> word_log2;
      for (int w = 0; w < words_each; ++w) words.add(word + uint64_t(w));
    });
    words.sort_and_keep_different();
    std::array<unsigned, banks> of_bank{};
    unsigned most = 0;
    for (const uint64_t word : words) most = std::max(most, ++of_bank[word & (banks - 1)]);
    cost.units += most;
    ++cost.ideal;
  }
  return cost;
}

Cost constant_access(const std::array<uint64_t, 32>& address, uint32_t mask) {
  Numbers words;
  for_each_lane(mask, [&](int lane) { words.add(address[lane] >> word_log2); });
  words.sort_and_keep_different();
  return {unsigned(words.size()), 1};
}

}  // namespace

uint64_t copied(uint64_t from, uint64_t to) {
  constexpr int address_bits = 48;  // of a process of x86-64; shared memory has fewer than 2^16 sectors
  return from | to >> sector_log2 << address_bits;
}

Cost cost_of(Kind kind, int size_log2, const std::array<uint64_t, 32>& address, uint32_t mask) {
  switch (kind) {
    case Kind::global_load:
    case Kind::global_store:
      return global_access(size_log2, address, mask);
    case Kind::global_atomic:
      return global_atomic(size_log2, address, mask);
    case Kind::shared_load:
    case Kind::shared_store:
      return shared_access(size_log2, address, mask);
    case Kind::shared_atomic:
      return shared_atomic(address, mask);
    case Kind::constant_load:
      return constant_access(address, mask);
    case Kind::code:
    case Kind::together:
    case Kind::zero_dividend:
    case Kind::grid_poll:
    case Kind::loop_entered:
    case Kind::shared_update:
    case Kind::shared_addition:
      break;
  }
  return {};
}

}  // namespace simt::counting
