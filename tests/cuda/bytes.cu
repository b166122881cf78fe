// Products of bytes by warpgroups on a GPU of compute capability 9.0: candidates are those that the host finds from the
// same bytes. Built where there is a GPU: cmake --build build --target cuda_test
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "../../variants/common/integers/byte_filter.cuh"
#include "../simt/on_device.cuh"

namespace {
using namespace ladder;

constexpr int n = 700, k = 333;  // neither fills its tiles

class ByteProducts : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
    if (device.major != 9 || device.minor != 0) GTEST_SKIP() << device.name << " has no products of warpgroups";
    multiprocessors = device.multiProcessorCount;
  }
  int multiprocessors = 0;
};

std::vector<float> normal_rows(int count, int d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(count) * d);
  for (float& value : values) value = std::clamp(normal(random) / 5, -0.99f, 0.99f);
  return values;
}

TEST_P(ByteProducts, CandidatesAreThoseOfTheHost) {
  const int d = GetParam(), steps = plan_bytes(d).steps;
  const int64_t padded = ByteMainloop::padded_rows(n), columns = ByteMainloop::padded_columns(k);
  const OnDevice<float> x(normal_rows(n, d, 1)), c(normal_rows(k, d, 2)), centre(d);
  const OnDevice<int> exponent(std::vector<int>{-1});
  const OnDevice<uint4> words(padded * steps * step_words / 4);
  const OnDevice<BytePoint> point(padded);
  const OnDevice<double> square(n);
  const OnDevice<float> on_threshold(n);
  const OnDevice<unsigned char> on_tiles(columns / byte_columns * ByteMainloop::tile_bytes(steps));
  ByteOperands o{{steps, 0, words, point, square, on_threshold, on_tiles}, {}, n, k, d, multiprocessors};
  const Frame<float> frame{centre, exponent};
  quantize<float>(x, frame, PutBytePoint{o.rows}, nullptr, n, padded, d, nullptr);
  quantize<float>(c, frame, PutByteCentroid{o.rows}, nullptr, k, columns, d, nullptr);

  // What byte_excess() says of each pair, with a threshold of 0.
  auto rows = words.values();
  auto tiles = on_tiles.values();
  const auto points = point.values();
  const auto excess = [&](int i, int j, float threshold) {
    const uint32_t* const tile = words_of_tile(tiles.data(), j / byte_columns, steps);
    int product = 0;
    for (int word = 0; word < steps * step_words; ++word) {
      const uint32_t a = reinterpret_cast<const uint32_t*>(rows.data())[a_fragment_offset(i, word, steps)];
      const uint32_t b = tile[b_smem_offset<byte_columns>(j % byte_columns, word)];
      for (int e = 0; e < 32; e += 8) product += int(int8_t(a >> e)) * int(int8_t(b >> e));
    }
    const ByteCentroid z = facts_of_tile(tiles.data(), j / byte_columns, steps)[j % byte_columns];
    return byte_excess(product, points[i], threshold, z);
  };
  std::vector<float> row(k), threshold(n);
  std::vector<int> guesses(n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < k; ++j) row[j] = excess(i, j, 0);
    guesses[i] = int(std::max_element(row.begin(), row.end()) - row.begin());
    std::vector<float> sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    threshold[i] =
        i % 50 == 7 ? float(all_bytes_reach) : sorted[i % 18] + (i % 18 == 0 ? 1 : 0);  // 0, 2 to 18 reach it
  }

  const OnDevice<int> guess(guesses), list(size_t(n) * most_candidates), found(n), candidate_rows(n), overflow(n),
      label(n);
  const OnDevice<FilterCounters> counters(1);
  check(cudaMemset(counters, 0, sizeof(FilterCounters)), "clearing the counts");
  o.lists = {{guess, list, found}, candidate_rows, overflow, counters, label};
  check(cudaMemcpy(on_threshold, threshold.data(), n * sizeof(float), cudaMemcpyHostToDevice), "uploading thresholds");
  filter_by_bytes(nullptr, o);
  check(cudaDeviceSynchronize(), "filtering");
  const auto counts = counters.values()[0];
  const auto listed = candidate_rows.values(), overflows = overflow.values(), lists = list.values();
  const auto numbers = found.values(), labels = label.values();
  const std::set<int> compared(listed.begin(), listed.begin() + counts.candidate_rows);
  const std::set<int> overflown(overflows.begin(), overflows.begin() + counts.overflow);
  for (int i = 0; i < n; ++i) {
    std::set<int> expected;
    for (int j = 0; j < k; ++j) {
      if (j != guesses[i] && !std::signbit(excess(i, j, threshold[i]))) expected.insert(j);
    }
    const int count = int(expected.size());
    EXPECT_EQ(overflown.count(i), count > most_candidates) << i;
    EXPECT_EQ(compared.count(i), count > 0 && count <= most_candidates) << i;
    if (count == 0) EXPECT_EQ(labels[i], guesses[i]) << i;
    if (count == 0 || count > most_candidates) continue;
    ASSERT_EQ(numbers[i], count) << i;
    const auto begin = lists.begin() + int64_t(i) * most_candidates;
    EXPECT_EQ(std::set<int>(begin, begin + count), expected) << i;
  }
}

// In registers: 2, 4, 7 and 8 stages, the last ones with 13 and 15 steps; streamed: 2 and 3 k-blocks.
INSTANTIATE_TEST_SUITE_P(Shapes, ByteProducts, testing::Values(33, 200, 408, 480, 500, 700));
}  // namespace
