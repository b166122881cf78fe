// Points that pass through the device chunk by chunk: labels, centroids and counts of all iterations are those of the
// run that has them all on the device, to the last bit, and the device memory stays within the budget.
#include <gtest/gtest.h>

#include "rung.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

const std::string base = "v32_reproducible_sums";
const std::vector<std::string> chunked = {"v32a_chunks", "v32b_double_buffer", "v32c_mapped_file",
                                          "v32d_resident_chunks", "v32e_chunks_on_several"};

/// Values in [-1, 1) with 20 binary digits, and a group of points for each cluster; the last centroid is the first once
/// more, and gets no point.
template <class T>
std::vector<T> groups(int n, int k, int d, unsigned seed) {
  std::vector<T> points(size_t(n) * d);
  uint64_t state = seed;
  for (size_t e = 0; e < points.size(); ++e) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    points[e] = T(double(int64_t(state >> 44) - (1 << 19)) * 0x1p-19 + double(e / d % k * 7 % 5));
  }
  if (k > 1) std::copy_n(points.begin(), d, points.begin() + size_t(k - 1) * d);
  return points;
}

struct Solved {
  std::vector<int32_t> labels;
  std::vector<double> centroids;
  std::vector<int64_t> reassigned;
  bool operator==(const Solved&) const = default;
};

template <class T>
Solved solve(Rung<T>& rung, const Stop& stop) {
  DirectDriver<T>& run = *rung;
  run.choose_stop(stop);
  run.restart(0);
  run.solve();
  const auto labels = rung.labels();
  const auto centroids = run.centroids();
  return {labels, {centroids.begin(), centroids.end()}, run.state().reassigned};
}

template <class T>
void expect_equal(const std::vector<T>& points, int k, int d, const std::vector<int>& chunk_rows, const Stop& stop) {
  Rung<T> whole(base, 0, points, k, d);
  if (!whole.refused.empty()) GTEST_SKIP() << whole.refused;
  const Solved expected = solve(whole, stop);
  for (const std::string& id : chunked) {
    for (const int rows : chunk_rows) {
      SCOPED_TRACE(id + ", chunks of " + std::to_string(rows) + " rows");
      Rung<T> rung(id, 0, points, k, d, {{"chunk_rows", rows}});
      ASSERT_EQ(rung.refused, "");
      EXPECT_TRUE(solve(rung, stop) == expected);
      if (rows == 96) {
        EXPECT_TRUE(solve(rung, stop) == expected) << "the second time";
      }
    }
  }
}

TEST(Chunks, AreThoseOfAllPoints) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  const Stop steps{.rule = Stop::Rule::fixed, .iterations = 3};
  expect_equal(groups<float>(131, 9, 5, 1), 9, 5, {0, 33}, steps);  // 33 does not divide 131
  expect_equal(groups<double>(131, 9, 5, 2), 9, 5, {96}, steps);
  expect_equal(groups<float>(5, 2, 3, 3), 2, 3, {1}, steps);
  expect_equal(groups<float>(1, 1, 2, 4), 1, 2, {1}, steps);
  auto far = groups<float>(131, 9, 5, 8);
  for (int f = 0; f < 5; ++f) far[size_t(40) * 5 + f] *= 4096, far[size_t(120) * 5 + f] *= 1e-6f;
  expect_equal(far, 9, 5, {33}, steps);
}

TEST(Chunks, WithAnOutlierRowInTheLastOne) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  auto points = groups<float>(131, 9, 5, 8);
  for (const float far : {0x1p20f, 0x1p90f}) {
    for (int f = 0; f < 5; ++f) points[130 * 5 + f] = far;
    expect_equal(points, 9, 5, {33, 96}, {.rule = Stop::Rule::fixed, .iterations = 2});
  }
}

TEST(Chunks, StayWithinTheBudget) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  constexpr int n = on_gpu ? 60001 : 301, k = 100, d = 256, mib = on_gpu ? 64 : 1;  // most of 1 MiB for the sums
  constexpr size_t all = size_t(n) * d * sizeof(float);
  const auto points = groups<float>(n, k, d, 5);
  const Stop steps{.rule = Stop::Rule::fixed, .iterations = 1};
  Rung<float> whole(base, 0, points, k, d);
  if (!whole.refused.empty()) GTEST_SKIP() << whole.refused;
  const Solved expected = solve(whole, steps);
  for (const std::string& id : chunked) {
    SCOPED_TRACE(id);
    Rung<float> rung(id, 0, points, k, d, {{"budget_mib", mib}});
    ASSERT_EQ(rung.refused, "");
    EXPECT_TRUE(solve(rung, steps) == expected);
    (*rung).look_at_memory();
    const int64_t counted = n * sizeof(int32_t);  // taken by the harness before it began to look
    EXPECT_GT((*rung).peak_bytes(), (int64_t(mib) << 20) / 2);
    EXPECT_LE((*rung).peak_bytes() + counted, int64_t(mib) << 20);
    const int64_t streamed = rung.counters().at("bytes streamed").back();
    if (id != "v32d_resident_chunks") {
      EXPECT_GE(streamed, int64_t(all));
      EXPECT_LT(streamed, int64_t(all + all / 4));
    } else {
      EXPECT_GT(streamed, 0) << "points that fit say nothing";
      EXPECT_LT(streamed, int64_t(all)) << "nothing stayed";
    }
  }
}

TEST(Chunks, RefuseABudgetWithoutRoom) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<float> points(300'000, 1.0f);  // their labels take 1.2 MB, twice
  for (const std::string& id : chunked) {
    Rung<float> rung(id, 0, points, 1, 1, {{"budget_mib", 2}});
    if (rung.refused.find("compute capability") != std::string::npos) GTEST_SKIP() << rung.refused;
    EXPECT_NE(rung.refused.find(on_gpu ? "the budget is 2 MiB: set budget_mib to 64 or more"
                                       : "the budget is 2 MiB: set budget_mib to 4 or more"),
              std::string::npos)
        << id << ": " << rung.refused;
  }
}

TEST(Chunks, ForgetPointsOfAnEarlierUpload) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  const auto first = groups<float>(131, 9, 5, 6);
  auto second = groups<float>(131, 9, 5, 7);
  for (float& value : second) value *= 64;  // beyond the first ones' frame and range
  const Stop steps{.rule = Stop::Rule::fixed, .iterations = 2};
  const auto after_both = [&](const std::string& id) -> Solved {
    Rung<float> rung(id, 0, first, 9, 5, {{"chunk_rows", 96}});
    if (!rung.refused.empty()) return {};
    solve(rung, steps);
    rung.upload(second);
    return solve(rung, steps);
  };
  for (const std::string id : {"v32b_double_buffer", "v32d_resident_chunks"})
    EXPECT_TRUE(after_both(id) == after_both(base)) << id;
}

}  // namespace
