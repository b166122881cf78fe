// Rows that are compared with all centroids: a few of them or many, by one block or by several, with ties anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../../../variants/common/certified/refine.cuh"
#include "../../../variants/common/device/exact_order.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

/// Whole numbers from 0 to `most`: distances are exact, and many are the same where `most` is small.
template <class T = float>
std::vector<T> whole_numbers(size_t count, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = T(random() % unsigned(most + 1));
  return values;
}

/// For each row the nearest centroid, of equally near ones the first.
template <class T>
std::vector<int> nearest_of(const std::vector<T>& points, const std::vector<T>& centroids, int d) {
  std::vector<int> nearest(points.size() / d);
  for (size_t i = 0; i < nearest.size(); ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < centroids.size() / d; ++j) {
      double distance = 0;
      for (int f = 0; f < d; ++f) distance += std::pow(double(points[i * d + f]) - double(centroids[j * d + f]), 2);
      if (distance < least) least = distance, nearest[i] = int(j);
    }
  }
  return nearest;
}

/// The labels of the last `scans` of the points, -1 for the others, looked for twice by a grid of `blocks` blocks.
template <class T>
std::vector<int> scanned(const std::vector<T>& points, const std::vector<T>& centroids, int d, int brute_force,
                         int blocks) {
  const int n = int(points.size()) / d, k = int(centroids.size()) / d;
  OnDevice<T> x(points), c(centroids);
  std::vector<UndecidedPair> list(n);
  for (int i = 0; i < n; ++i) list[i] = {i, 0, 0};
  OnDevice<UndecidedPair> undecided_pairs(list);
  OnDevice<RefineCounters> refine_counters(std::vector<RefineCounters>{{0, brute_force, 0}});
  OnDevice<PartialNearest> found(size_t(blocks) * brute_force_rows);
  OnDevice<int> ended(blocks), label(std::vector<int>(n, -1));
  std::vector<int> first;
  for (int launched = 0; launched < 2; ++launched) {
    Refinement refinement;
    refinement.undecided_pairs = undecided_pairs;
    refinement.blocks = blocks;
    refinement.parts = {found, ended};
    refine_rows<T>(x, c, label, refinement, refine_counters, n, k, d, nullptr);
    if (launched == 0) first = label.values();
  }
  EXPECT_EQ(first, label.values()) << "the second launch";
  for (const int left : ended.values()) EXPECT_EQ(left, 0) << "nothing remains for the next launch to count";
  return first;
}

struct Case {
  int brute_force, k, d, blocks;
};

TEST(Refinement, RowsFindTheNearestOfAllCentroids) {
  const std::vector<Case> cases{
      {1, 1, 1, 4},                                        // as little as can be
      {1, 500, 20, 40},                                    // one row, all centroids shared out
      {3, 40, 70, 64},                                     // more blocks than tiles; more features than a step has
      {20, 900, 11, 12}, {8, 33, 64, 2}, {9, 64, 129, 5},  // two groups, the second hardly begun
      {100, 90, 5, 3},                                     // more rows than the grid has
  };
  for (const auto& [brute_force, k, d, blocks] : cases) {
    for (const int most : {2, 1000}) {  // ties everywhere, or hardly any
      const auto points = whole_numbers(size_t(brute_force + 5) * d, most, 1),
                 c = whole_numbers(size_t(k) * d, most, 2);
      auto right = nearest_of(points, c, d);
      std::fill(right.begin(), right.begin() + 5, -1);
      EXPECT_EQ(scanned(points, c, d, brute_force, blocks), right)
          << brute_force << " rows, " << k << " centroids, " << d << " features, " << blocks << " blocks";
    }
  }
}

/// Groups of rows, tiles of centroids and steps of features that are whole, or lack one, or have one more.
template <class T>
void look_at_all_ends() {
  constexpr int scanned_rows[] = {7, 8, 17};
  constexpr int grids[] = {1, 3, 13};  // one part, parts of one tile and of two, more than there are tiles
  int turn = 0;                        // each number of rows meets each grid, in turn with the others
  for (const int k : {1, 31, 33, 64, 97}) {
    for (const int d : {31, 32, 33, 64, 65, 129}) {
      for (int e = 0; e < 2; ++e, ++turn) {
        const int brute_force = scanned_rows[turn % 3], blocks = grids[turn / 3 % 3];
        const auto points = whole_numbers<T>(size_t(brute_force) * d, 3, 1), c = whole_numbers<T>(size_t(k) * d, 3, 2);
        EXPECT_EQ(scanned(points, c, d, brute_force, blocks), nearest_of(points, c, d))
            << brute_force << " rows, " << k << " centroids, " << d << " features, " << blocks << " blocks";
      }
    }
  }
}
TEST(Refinement, GroupsTilesAndStepsEndAnywhere) { look_at_all_ends<float>(); }
TEST(Refinement, GroupsTilesAndStepsOfDoublesEndAnywhere) { look_at_all_ends<double>(); }

TEST(Refinement, CentroidsThatDoubleCannotTellApartAreToldApartWhereverTheyAre) {
  constexpr int k = 200, d = 3;
  const std::vector<float> point{0, 0, 0};
  std::vector<float> centroids(k * d, 7);
  const auto put = [&](int j, std::vector<float> z) { std::copy(z.begin(), z.end(), centroids.begin() + j * d); };
  put(190, {3, 0, 0}), put(70, {3, 0x1p-40f, 0}), put(5, {3, 0x1p-39f, 0}), put(65, {3, 0x1p-39f, 0});
  for (const int blocks : {1, 3, 16}) {
    EXPECT_EQ(scanned(point, centroids, d, 1, blocks), std::vector<int>{190}) << blocks;
    put(64, {0, -3, 0}), put(131, {0, 0, 3});
    EXPECT_EQ(scanned(point, centroids, d, 1, blocks), std::vector<int>{64}) << "of three, the lowest; " << blocks;
    put(64, {7, 7, 7}), put(131, {7, 7, 7});
  }
}

/// sign[0] by a lane, sign[1] by a warp, sign[2] in double.
template <class T>
__global__ void order_kernel(const T* x, const T* a, const T* b, int d, int* sign) {
  const int by_warp = exact_order<32>(x, a, b, d), in_double = sign_in_double<32>(x, a, b, d);
  if (threadIdx.x == 0) sign[0] = exact_order<1>(x, a, b, d), sign[1] = by_warp, sign[2] = in_double;
}

/// A point and two centroids that are as near, but for one unit of the first feature, whose unit is the least:
/// 2^-apart. Others are whole numbers in units up to 2^apart. Of two neighbours, one centroid is as far in the first as
/// the other is in the second.
template <class T>
void expect_orders(int apart, bool in_double) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) { return from + int(random() % unsigned(to - from + 1)); };
  for (const int d : {1, 3, 31, 33, 71}) {
    for (const int farther : {-1, 0, 1}) {
      SCOPED_TRACE(std::to_string(d) + " features, a is farther by " + std::to_string(farther));
      std::vector<T> x(d), a(d), b(d);
      const T least = std::ldexp(T(1), -apart);
      x[0] = 5 * least, a[0] = T(5 + 9 + farther) * least, b[0] = T(5 - 9) * least;
      for (int f = 1; f < d; f += 2) {
        const T unit = std::ldexp(T(1), draw(-apart, apart));
        const int near = draw(1, 1000), far = draw(1001, 2000);
        for (int e = f; e < f + 2; ++e) {
          const int at = draw(-1000, 1000), side = draw(0, 1) ? 1 : -1;
          x[e] = T(at) * unit, a[e] = T(at + (e == f ? near : far)) * unit,
          b[e] = T(at + side * (e == f ? far : near)) * unit;
        }
      }
      OnDevice<T> on_x(x), on_a(a), on_b(b);
      OnDevice<int> sign(3);
      launch(order_kernel<T>, 1, 32, 0, nullptr, on_x, on_a, on_b, d, sign);
      const std::vector<int> found = sign.values();
      EXPECT_EQ(found[0], farther);
      EXPECT_EQ(found[1], farther);
      if (!in_double && d <= 3) continue;  // the sum of a pair may lose no bit
      EXPECT_EQ(found[2], in_double ? farther : 2);
    }
  }
}
TEST(ExactOrder, OfSmallWholeNumbersInDouble) {
  expect_orders<float>(0, true);
  expect_orders<double>(2, true);
}
TEST(ExactOrder, InWholeNumbersWhereDoubleLosesBits) {
  expect_orders<float>(60, false);
  expect_orders<double>(180, false);
  expect_orders<double>(390, false);  // squares and products underflow
}

TEST(Refinement, CentroidsAreSharedOutAsFarAsThereAreBlocksAndTiles) {
  EXPECT_EQ(brute_force_parts(1, 5000, 528), 157) << "a tile each";
  EXPECT_EQ(brute_force_parts(23, 5000, 528), 22);
  EXPECT_EQ(brute_force_parts(300, 5000, 528), 1);
  EXPECT_EQ(brute_force_parts(600, 5000, 528), 1) << "more groups than blocks";
  EXPECT_EQ(brute_force_parts(1, 5, 528), 1);
}

}  // namespace
