// Atomics that shared memory has no instruction for: the turns that the warps of a block take.
#include <gtest/gtest.h>

#include <random>

#include "simt/counting/updates.hpp"

namespace simt::counting {
namespace {

constexpr uint32_t every_lane = ~0u;
const Place addition(0, reinterpret_cast<void*>(10), Kind::shared_addition, 3);
const Place load = addition.with_kind(Kind::shared_load);

template <class Address>
std::array<uint64_t, 32> addresses(Address of_lane) {
  std::array<uint64_t, 32> all;
  for (uint64_t lane = 0; lane < 32; ++lane) all[lane] = of_lane(lane);
  return all;
}

/// Of warps that add at once, each to the same addresses.
template <class Address>
KernelCounts of_warps(size_t warps, Address of_lane, uint32_t mask = every_lane) {
  Updates updates;
  KernelCounts counts;
  for (size_t w = 0; w < warps; ++w) updates.add(w, addition, mask, addresses(of_lane));
  updates.count(counts);
  return counts;
}

TEST(Updates, LanesInBanksOfTheirOwnSucceedAtOnce) {
  KernelCounts counts = of_warps(1, [](uint64_t lane) { return 8 * lane; });
  EXPECT_EQ(counts.at(addition).requests, 1u);
  EXPECT_EQ(counts.at(addition).lanes, 32u);
  EXPECT_EQ(counts.at(load).requests, 1u);
  EXPECT_EQ(counts.at(load).units, 2u) << "8 bytes go by halves of the warp";
}

TEST(Updates, OneLaneOfAHalfSucceedsInEachPairOfBanks) {
  KernelCounts counts = of_warps(1, [](uint64_t lane) { return 128 * lane; });
  EXPECT_EQ(counts.at(addition).requests, 16u) << "both halves in each turn";
  EXPECT_EQ(counts.at(addition).lanes, 2u * 16 * 17 / 2);
  EXPECT_EQ(counts.at(addition).ideal, 1u) << "one addition of the warp";
  EXPECT_EQ(counts.at(load).units, 2u * 16 * 17 / 2) << "a pass for each lane that is left";
}

TEST(Updates, LanesOfBothHalvesWaitForTheSameWord) {
  EXPECT_EQ(of_warps(1, [](uint64_t) { return 64; }).at(addition).requests, 32u);
  EXPECT_EQ(of_warps(1, [](uint64_t lane) { return 8 * (lane % 16); }).at(addition).requests, 2u);
  EXPECT_EQ(of_warps(
                1, [](uint64_t) { return 64; }, 0x10001)
                .at(addition)
                .requests,
            2u);
}

TEST(Updates, WarpsWaitForTheSameWordAndForNoOther) {
  EXPECT_EQ(of_warps(
                3, [](uint64_t) { return 64; }, 1)
                .at(addition)
                .requests,
            3u + 2 + 1);
  Updates updates;
  KernelCounts counts;
  for (size_t w = 0; w < 3; ++w) {
    const uint64_t begin = 4096 * w;
    updates.add(w, addition, every_lane, addresses([&](uint64_t lane) { return begin + 8 * lane; }));
  }
  updates.count(counts);
  EXPECT_EQ(counts.at(addition).requests, 3u);
  updates.count(counts);
  EXPECT_EQ(counts.at(addition).requests, 3u) << "what was counted is forgotten";
}

/// Rows of five doubles of 5,000 clusters, whose warps seldom meet: sum_shared_kernel<float, 1> on kmcuda, of which
/// results/nvidia-h200/profile.json has 13,355,500 turns, 9,375 of them not of doubles, for 3,825,000 additions of a
/// warp, 181,643,000 DADD for 122,400,000 of a lane, and 27,240,000 bank conflicts.
/// Here all labels are as frequent, so that a few lanes less meet.
TEST(Updates, AWarpTakesAsManyTurnsAsOnAGpu) {
  constexpr size_t warps = 8, rounds = 300, features = 5, clusters = 5000;
  std::mt19937 random(1);
  Updates updates;
  KernelCounts counts;
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t w = 0; w < warps; ++w) {
      const auto row = addresses([&](uint64_t) { return 8 * features * (random() % clusters); });
      for (size_t f = 0; f < features; ++f)
        updates.add(w, addition, every_lane, addresses([&](uint64_t lane) { return row[lane] + 8 * f; }));
    }
  }
  updates.count(counts);
  const double additions = warps * rounds * features;
  EXPECT_NEAR(double(counts.at(addition).requests) / additions, 3.481, 0.02 * 3.481);
  EXPECT_NEAR(double(counts.at(addition).lanes) / (32 * additions), 1.476, 0.02 * 1.476);
  EXPECT_NEAR(double(counts.at(load).units - counts.at(load).ideal) / additions, 7.122, 0.03 * 7.122);
}

TEST(Updates, WordsOfFourBytesGoByTheWholeWarp) {
  const Place narrow = addition.with_size(2);
  Updates updates;
  KernelCounts counts;
  updates.add(0, narrow, every_lane, addresses([](uint64_t lane) { return 4 * lane; }));
  updates.add(0, narrow, every_lane, addresses([](uint64_t lane) { return 128 * (lane % 2); }));
  updates.count(counts);
  EXPECT_EQ(counts.at(narrow).requests, 1u + 32);
}

}  // namespace
}  // namespace simt::counting
