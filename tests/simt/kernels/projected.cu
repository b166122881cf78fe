// Bounds from a few directions: the parts that v40_rank_selection is made of, tried by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "../../../variants/common/device/counting_sort.cuh"
#include "../../../variants/common/gemm/narrow_mainloop_sm80.cuh"
#include "../../../variants/common/gemm/narrow_mainloop_sm90.cuh"
#include "../../../variants/common/pruning/distance_bounds.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

std::vector<float> normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> one;
  std::vector<float> values(count);
  for (float& value : values) value = one(random);
  return values;
}

/// `rows` rows of d features near `rank` directions; what is beside them is `noise` of what is along each.
std::vector<float> near_directions(int rows, int d, int rank, float noise, unsigned seed) {
  const auto along = normal(size_t(rank) * d, 1), where = normal(size_t(rows) * rank, seed);
  auto values = normal(size_t(rows) * d, seed + 1);
  for (int i = 0; i < rows; ++i)
    for (int f = 0; f < d; ++f) {
      float& value = values[size_t(i) * d + f];
      value *= noise;
      for (int r = 0; r < rank; ++r) value += where[i * rank + r] * along[size_t(r) * d + f] / std::sqrt(float(d));
    }
  return values;
}

// ---------------------------------------------------------------------------------------------------------- directions

/// What find_directions leaves of n x d points seen from 0.
struct Found {
  std::vector<double> at;  // d x sought
  double defect;
};

Found directions_of(const std::vector<float>& points, int d) {
  const int n = int(points.size()) / d;
  OnDevice<float> x(points), centre(d), sample(points.size()), covariance(size_t(d) * d);
  OnDevice<int> top(std::vector<int>{9});  // all coordinates are below 2^10
  OnDevice<double> at(size_t(d) * max_directions), vectors(size_t(d) * max_directions),
      products(max_directions * max_directions), defect(1);
  const Frame<float> view{centre, top};
  const Subspace subspace{sample, covariance, vectors, products, n};
  find_directions<float>(nullptr, x, view, subspace, {at, defect}, n, d);
  return {at.values(), defect.values()[0]};
}

TEST(Directions, AreThoseInWhichPointsDifferAndOrthonormal) {
  constexpr int d = 40, rank = 5;
  const auto points = near_directions(100, d, rank, 0.01f, 3);
  const Found found = directions_of(points, d);
  double farthest = 0;  // from orthonormal
  for (int a = 0; a < max_directions; ++a)
    for (int b = 0; b < max_directions; ++b) {
      double product = 0;
      for (int f = 0; f < d; ++f) product += found.at[f * max_directions + a] * found.at[f * max_directions + b];
      farthest = std::max(farthest, std::fabs(product - (a == b && product != 0)));
    }
  EXPECT_LE(farthest, found.defect);
  EXPECT_LT(found.defect, 1e-6);
  double whole = 0, seen = 0;
  for (size_t i = 0; i < points.size() / d; ++i) {
    for (int f = 0; f < d; ++f) whole += std::pow(points[i * d + f], 2);
    for (int k = 0; k < rank; ++k) {
      double coordinate = 0;
      for (int f = 0; f < d; ++f) coordinate += points[i * d + f] * found.at[f * max_directions + k];
      seen += coordinate * coordinate;
    }
  }
  EXPECT_GT(seen, 0.99 * whole) << "the first five directions hold nearly all";
}

TEST(Directions, OfFewerThanAreSoughtTheOthersAreZero) {
  const auto line = near_directions(100, 20, 1, 0, 4);
  const Found found = directions_of(line, 20);
  EXPECT_LT(found.defect, 1e-6);
  int zeros = 0;
  for (int k = 0; k < max_directions; ++k) {
    double square = 0;
    for (int f = 0; f < 20; ++f) square += std::pow(found.at[f * max_directions + k], 2);
    zeros += square == 0;
  }
  EXPECT_GE(zeros, max_directions - 20);
  EXPECT_LT(zeros, max_directions) << "the line itself is one";
  const Found none = directions_of(std::vector<float>(100 * 20, 0), 20);
  EXPECT_EQ(std::count(none.at.begin(), none.at.end(), 0.0), 20 * max_directions)
      << "points that are all the same have none";
}

TEST(Directions, TheDefectIsMeasured) {
  std::vector<double> products(max_directions * max_directions, 0);
  for (int k = 0; k < 40; ++k) products[k * max_directions + k] = 1;
  products[3 * max_directions + 5] = products[5 * max_directions + 3] = 0.25;
  products[7 * max_directions + 7] = 1.5;
  OnDevice<double> given(products), defect(1);
  measure_defect(nullptr, given, defect);
  EXPECT_GE(defect.values()[0], std::sqrt(2 * 0.25 * 0.25 + 0.25));
  EXPECT_LT(defect.values()[0], std::sqrt(2 * 0.25 * 0.25 + 0.25) + 1e-9);
}

// -------------------------------------------------------------------------------------------------------------- bounds

constexpr int width = 32, n = NarrowMainloopSm80<width>::rows, k = NarrowMainloopSm80<width>::columns, d = 40;

__global__ void products_kernel(const uint4* x, const uint32_t* thresholds, const uint4* c, float* products) {
  const NarrowMainloopSm80<width> tile;
  tile.multiply([](int row) { return row; }, x, thresholds, c, k,
                [&](int first, NarrowMainloopSm80<width>::Products& product) {
                  for (int f = 0; f < tile.column_fragments; ++f)
                    for (int e = 0; e < 2; ++e)
                      for (int r = 0; r < tile.own_rows; ++r)
                        products[tile.row(r) * k + first + tile.column(f, e)] = product[r / 2][f][r % 2 * 2 + e];
                });
}

/// Short rows of halves, row by row.
using Halves = std::vector<unsigned short>;

struct Case {
  std::vector<float> points, centroids;
  float middle = 0;          // the view's centre
  double stretch = 1;        // of the directions: 1 leaves them orthonormal
  bool knows_defect = true;  // does the bound?
  int coarser = 0;           // by how many powers of two the unit is coarser than need be
  bool quantile = false;     // does the unit leave outlier rows out?
  double lowered = 0;        // by how much every threshold is lowered, in parts of its constant
};

/// Orthonormal directions, the first of which are those of near_directions: what an iteration would find, sooner.
std::vector<double> basis() {
  const int count = width - bound_columns;
  const auto along = normal(size_t(count) * d, 1);
  std::vector<double> at(size_t(d) * max_directions, 0);
  for (int k = 0; k < count; ++k) {
    std::vector<double> own(along.begin() + k * d, along.begin() + (k + 1) * d);
    for (int pass = 0; pass < 2; ++pass)
      for (int before = 0; before < k; ++before) {
        double product = 0;
        for (int f = 0; f < d; ++f) product += own[f] * at[f * max_directions + before];
        for (int f = 0; f < d; ++f) own[f] -= product * at[f * max_directions + before];
      }
    double square = 0;
    for (const double value : own) square += value * value;
    for (int f = 0; f < d; ++f) at[f * max_directions + k] = own[f] / std::sqrt(square);
  }
  return at;
}

/// What a product has of a threshold.
double shift_of(uint32_t threshold) {
  float halves[2];
  simt::widen(threshold, halves);
  return 4096 * (double(halves[0]) + double(halves[1]));
}

/// A threshold that is lower by this much.
uint32_t lower_by(uint32_t threshold, double by) {
  const double wanted = shift_of(threshold) / 4096 - by / 4096;
  const __half high = __double2half(wanted), low = __double2half(wanted - double(__half2float(high)));
  return uint32_t(__half_as_ushort(low)) << 16 | __half_as_ushort(high);
}

/// Calls `spoil(points, centroids)` with the short rows before they are multiplied.
template <class Spoil>
int missed(const Case& given, const Spoil& spoil) {
  OnDevice<float> x(given.points), c(given.centroids), centre(std::vector<float>(d, given.middle));
  OnDevice<int> top(std::vector<int>{-2000});
  OnDevice<int> counts(exponent_count);
  const Frame<float> view{centre, top, counts};
  if (given.quantile) {
    launch(count_exponents_kernel<32, float>, 4, 256, 0, nullptr, x, view, n, d);
    launch(choose_exponent_kernel, 1, warp_lanes, 0, nullptr, counts, top, n);
  } else {
    launch(max_exponent_kernel<float>, 4, 256, 0, nullptr, x, view, int64_t(n) * d, d);
  }
  const int scale = top.values()[0] + given.coarser;
  check(cudaMemcpy(top, &scale, sizeof scale, cudaMemcpyHostToDevice), "uploading");
  std::vector<double> at = basis();
  for (double& value : at) value *= given.stretch;
  // P P^T is stretch^2 times the identity.
  const double defect = std::fabs(given.stretch * given.stretch - 1) * std::sqrt(width - bound_columns) + 1e-9;
  OnDevice<double> used(at), square(n), centroid_square(k);
  OnDevice<double> told(std::vector<double>{given.knows_defect && given.stretch != 0 ? defect : 0});
  const Directions directions{used, told};
  OnDevice<uint4> rows(std::vector<uint4>(n * width / 8, {~0u, ~0u, ~0u, ~0u})), columns(k * width / 8);
  project_points<float>(width, nullptr, x, view, directions, {.count = n}, {rows, square, n}, d);
  project_centroids<float>(width, ShortRowLayout::rows, nullptr, c, view, directions, {.count = k},
                           {columns, centroid_square, k}, d);
  Halves left(n * width), right(k * width);
  check(cudaMemcpy(left.data(), rows, left.size() * 2, cudaMemcpyDeviceToHost), "downloading");
  check(cudaMemcpy(right.data(), columns, right.size() * 2, cudaMemcpyDeviceToHost), "downloading");
  for (int i = 1; i <= n; ++i)
    EXPECT_EQ(left[i * width - 2] | left[i * width - 1], 0) << "point " << i - 1 << " has a threshold before its guess";
  spoil(left, right);
  check(cudaMemcpy(rows, left.data(), left.size() * 2, cudaMemcpyHostToDevice), "uploading");
  check(cudaMemcpy(columns, right.data(), right.size() * 2, cudaMemcpyHostToDevice), "uploading");

  // Each row's threshold is of the distance to its (i / 2)-th nearest centroid: that many products must not be below 0.
  // And all distances must be where their short rows have them.
  std::vector<std::vector<std::pair<long double, int>>> near(n);
  std::vector<uint32_t> threshold_of(n);
  const auto squares = square.values();
  const int unit = 2 * (-1 - std::max(top.values()[0], -1000) + short_exponent(d));  // an exponent
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < k; ++j) {
      long double distance = 0;
      for (int f = 0; f < d; ++f) {
        const long double off = static_cast<long double>(given.points[i * d + f]) - given.centroids[j * d + f];
        distance += off * off;
      }
      near[i].push_back({distance, j});
    }
    std::sort(near[i].begin(), near[i].end());
    threshold_of[i] = threshold(squares[i], std::ldexp(double(near[i][i / 2].first), unit), width);
    if (given.lowered > 0) threshold_of[i] = lower_by(threshold_of[i], given.lowered * threshold_constant(width));
  }
  OnDevice<uint32_t> thresholds(threshold_of);
  OnDevice<float> found(n * k);
  launch(products_kernel, 1, NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::bytes, nullptr, rows,
         thresholds, columns, found);
  const auto product = found.values();
  const auto centroid_squares = centroid_square.values();
  const auto* const left_rows = reinterpret_cast<const uint4*>(left.data());
  const auto* const right_rows = reinterpret_cast<const uint4*>(right.data());
  int below = 0;
  for (int i = 0; i < n; ++i) {
    for (int at = 0; at <= i / 2; ++at) below += !(product[i * k + near[i][at].second] >= 0);
    for (const auto& [distance, j] : near[i]) {
      const Interval known = distance_interval<width>(
          left_rows + i * width / 8, squares[i], [&](int e) { return right_rows[j * width / 8 + e]; },
          centroid_squares[j]);
      const long double here = std::ldexp(distance, unit);
      below += !(known.low <= here && here <= known.high);
    }
  }
  return below;
}

int missed(const Case& given) {
  return missed(given, [](Halves&, Halves&) {});
}

Case low_rank() { return {near_directions(n, d, 6, 0.1f, 10), near_directions(k, d, 6, 0.1f, 20)}; }
/// As many directions as features: all is in the rest, or nearly.
Case flat() { return {normal(n * d, 11), normal(k * d, 12)}; }

// A length of sqrt(d) is not above the longest in their unit; in one that is half as large it would be.
TEST(Projected, UnitsAreAsFineAsLengthsAllow) {
  for (int d = 1; d <= 5000; ++d) {
    ASSERT_LE(std::ldexp(std::sqrt(double(d)), short_exponent(d)), std::ldexp(1, longest)) << d;
    ASSERT_GT(std::ldexp(std::sqrt(double(d)), short_exponent(d) + 1), std::ldexp(1, longest)) << d;
  }
}

TEST(Projected, ThresholdsAreNeverBelowWhatIsAskedForAndHardlyAbove) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> any(0, 1);
  const double constant = accumulation(width) * 2048.001 / (1 - 1.002 * accumulation(width));
  const auto expect = [&](double square, double distance) {
    const double score = (square - distance) / 2, asked = constant - score + 2 * accumulation(width) * std::fabs(score);
    const double shift = shift_of(threshold(square, distance, width));
    ASSERT_GE(shift, std::min(asked, 1.5 * 0x1p27 + 1)) << square << ", " << distance;
    ASSERT_LE(shift, asked + 0x1p-20 * (square + distance) + 0x1p-8) << square << ", " << distance;
  };
  for (int e = -60; e <= 29; ++e)
    for (int time = 0; time < 100; ++time) {
      const double square = 0x1p24 * any(random), distance = std::ldexp(1 + any(random), e);
      ASSERT_NO_FATAL_FAILURE(expect(square, distance));
      ASSERT_NO_FATAL_FAILURE(expect(square, square * (1 + std::ldexp(any(random) - 0.5, std::min(e, 0)))));
      ASSERT_NO_FATAL_FAILURE(expect(0, distance));
    }
  constexpr double beyond = std::numeric_limits<double>::infinity();
  for (const double square : {0.0, 0x1p24, beyond})
    for (const double distance : {0x1p30, 1e300, beyond, double(NAN)})
      EXPECT_EQ(shift_of(threshold(square, distance, width)), 0x1p12 * all_reach) << square << ", " << distance;
}

TEST(Projected, AThresholdOfAllLetsTheFarthestReachIt) {
  // The longest point, and centroids on the other side of the middle, up to far away.
  constexpr int features = 4;
  std::vector<double> at(features * max_directions, 0);
  for (int f = 0; f < features; ++f) at[f * max_directions + f] = 1;
  OnDevice<double> used(at), told(std::vector<double>{1e-9}), square(n);
  std::vector<float> point(n * features, 1 - 0x1p-24f), centroid(k * features);
  for (int j = 0; j < k; ++j)
    for (int f = 0; f < features; ++f) centroid[j * features + f] = -4.2f * float(j) / k;
  OnDevice<float> x(point), c(centroid), centre(features), found(n * k);
  OnDevice<int> top(std::vector<int>{-1});
  OnDevice<uint4> rows(n * width / 8), columns(k * width / 8);
  const Frame<float> view{centre, top};
  project_points<float>(width, nullptr, x, view, {used, told}, {.count = n}, {rows, square, n}, features);
  project_centroids<float>(width, ShortRowLayout::rows, nullptr, c, view, {used, told}, {.count = k},
                           {columns, nullptr, k}, features);
  const std::vector<uint32_t> all(n, threshold(square.values()[0], 1e300, width));
  OnDevice<uint32_t> thresholds(all);
  launch(products_kernel, 1, NarrowMainloopSm80<width>::block, NarrowMainloopSm80<width>::bytes, nullptr, rows,
         thresholds, columns, found);
  const auto product = found.values();
  EXPECT_GT(*std::min_element(product.begin(), product.end()), 0);
  EXPECT_LT(*std::min_element(product.begin(), product.end()), 0x1p26) << "the farthest is not there";
}

TEST(Projected, TilesOfCentroidsHoldTheSameRows) {
  using Tile = NarrowMainloopSm90<width>;
  const int64_t padded = Tile::padded_columns(k);
  const Case given = low_rank();
  OnDevice<float> c(given.centroids), centre(d);
  OnDevice<int> top(std::vector<int>{0});
  OnDevice<double> used(basis()), told(std::vector<double>{1e-9});
  OnDevice<uint4> rows(padded * width / 8), tiles(padded * width / 8);
  const auto write = [&](ShortRowLayout layout, uint4* to) {
    project_centroids<float>(width, layout, nullptr, c, Frame<float>{centre, top}, {used, told}, {.count = k},
                             {to, nullptr, padded}, d);
  };
  write(ShortRowLayout::rows, rows);
  write(ShortRowLayout::tiles, tiles);
  Halves row(padded * width), tile(row.size());
  check(cudaMemcpy(row.data(), rows, row.size() * 2, cudaMemcpyDeviceToHost), "downloading");
  check(cudaMemcpy(tile.data(), tiles, tile.size() * 2, cudaMemcpyDeviceToHost), "downloading");
  for (int64_t j = 0; j < padded; ++j)
    for (int f = 0; f < width; ++f)
      ASSERT_EQ(tile[Tile::place(j, f)], row[j * width + f]) << "centroid " << j << ", half " << f;
}

TEST(Projected, BoundsHold) {
  EXPECT_EQ(missed(low_rank()), 0);
  EXPECT_EQ(missed(flat()), 0);
  EXPECT_EQ(missed({near_directions(n, d, 1, 0, 1), near_directions(k, d, 1, 0, 2)}), 0) << "one direction";
  EXPECT_EQ(missed({std::vector<float>(n * d, 3), std::vector<float>(k * d, 3), 3}), 0) << "nothing but zeros";
  EXPECT_EQ(missed({std::vector<float>(n * d, 3), std::vector<float>(k * d, 5), 3}), 0) << "points without a unit";
  for (const float scale : {0x1p-140f, 0x1p100f}) {
    Case scaled = low_rank();
    for (auto* values : {&scaled.points, &scaled.centroids})
      for (float& value : *values) value *= scale;
    EXPECT_EQ(missed(scaled), 0) << scale;
  }
  Case offset = low_rank();
  for (auto* values : {&offset.points, &offset.centroids})
    for (float& value : *values) value += 1e6f;
  EXPECT_EQ(missed(offset), 0) << "seen from 0";
  offset.middle = 1e6f;
  EXPECT_EQ(missed(offset), 0) << "seen from their middle";
  Case spread = low_rank();
  for (size_t e = 0; e < spread.centroids.size(); ++e) spread.centroids[e] *= std::ldexp(1.0f, int(e / d) % 40 - 20);
  EXPECT_EQ(missed(spread), 0) << "centroids from the middle to far away";
  spread.points[7] = 1e30f;
  EXPECT_EQ(missed(spread), 0) << "a far point";
}

TEST(Projected, AnOutlierRowReachesAllCentroidsAndTheOthersKeepTheirUnit) {
  for (const float far : {100.0f, 1e4f, 1e30f}) {
    Case with = low_rank();
    for (int f = 0; f < d; ++f) with.points[7 * d + f] *= far;
    with.quantile = true;
    EXPECT_EQ(missed(with), 0) << far;
  }
}

// In a unit that is coarse for all rows, what the tensor core may truncate is more than their scores. (Half of the
// constant loses nothing here: the proof counts the nominal sizes of one step in all later ones, too.)
TEST(Projected, TheThresholdNeedsItsConstant) {
  Case coarse{near_directions(n, d, 1, 0, 1), near_directions(k, d, 1, 0, 2)};
  for (coarse.coarser = 12; coarse.coarser <= 16; coarse.coarser += 4) {
    coarse.lowered = 0;
    EXPECT_EQ(missed(coarse), 0) << coarse.coarser;
    coarse.lowered = 1;
    EXPECT_GT(missed(coarse), 0) << coarse.coarser;
  }
}

TEST(Projected, DirectionsNeedNotBeOrthonormal) {
  Case bad = low_rank();
  for (const double stretch : {0.9, 1.1, 0.0, 1.5, 30.0, 1e6, 1e200, double(INFINITY), double(NAN)}) {
    bad.stretch = stretch;
    EXPECT_EQ(missed(bad), 0) << stretch;
  }
  Case without_rest{near_directions(n, d, 3, 0, 5), near_directions(k, d, 3, 0, 6)};
  without_rest.stretch = 1.2;
  EXPECT_EQ(missed(without_rest), 0);
  without_rest.knows_defect = false;
  EXPECT_GT(missed(without_rest), 0) << "a bound that ignores the defect is none";
}

TEST(Projected, EachTermOfTheBoundIsNeeded) {
  const auto clear = [](Halves& rows, int column) {
    for (size_t at = column; at < rows.size(); at += width) rows[at] = 0;
  };
  constexpr int lost = width - bound_columns;
  EXPECT_GT(missed(low_rank(), [&](Halves& points, Halves&) { clear(points, lost + 2); }), 0) << "the rests";
  // Without rests, and with values that roundings move all the same way, what is lost counts.
  Case whole{near_directions(n, d, 3, 0, 5), near_directions(k, d, 3, 0, 6)};
  for (int j = 0; j < k; ++j)  // pairs that differ by little
    for (int f = 0; f < d && j % 2 == 1; ++f)
      whole.centroids[j * d + f] = whole.centroids[(j - 1) * d + f] * (1 + 0x1p-12f);
  EXPECT_EQ(missed(whole), 0);
  EXPECT_GT(missed(whole, [&](Halves& points,
                              Halves&) { clear(points, lost), clear(points, lost + 1), clear(points, lost + 2); }),
            0)
      << "what halves lose";
  for (const int column : {width - 2, width - 1})
    EXPECT_GT(missed(whole, [&](Halves&, Halves& centroids) { clear(centroids, column); }), 0)
        << "a half of the threshold, in column " << column;
}

// ---------------------------------------------------------------------------------------------------------------- unit

/// The exponent that the scale is for, of one-feature points.
int chosen_exponent(const std::vector<double>& points) {
  OnDevice<double> x(points), centre(1);
  OnDevice<int> top(1), counts(exponent_count);
  const Frame<double> view{centre, top, counts};
  launch(count_exponents_kernel<4, double>, 2, 256, 0, nullptr, x, view, int64_t(points.size()), 1);
  launch(choose_exponent_kernel, 1, warp_lanes, 0, nullptr, counts, top, int(points.size()));
  return top.values()[0];
}

TEST(CommonUnit, LeavesOutFewRowsThatAreMuchLonger) {
  std::vector<double> points(9000, 1.5);
  ASSERT_EQ(most_outliers(9000), 3);
  EXPECT_EQ(chosen_exponent(points), 0);
  points[17] = 0, points[18] = 0x1p-1074;
  points[20] = -0x1.8p3;
  EXPECT_EQ(chosen_exponent(points), spare_exponents) << "a little longer";
  points[20] = 0x1p1023, points[21] = -0x1p200, points[8999] = 0x1p9;
  EXPECT_EQ(chosen_exponent(points), spare_exponents) << "three rows";
  points[22] = 0x1p40;
  EXPECT_EQ(chosen_exponent(points), 9 + spare_exponents) << "a fourth one";
  EXPECT_EQ(chosen_exponent({0x1p1023, 0x1p1023}), 1023);
  EXPECT_EQ(chosen_exponent({0x1p-1074, 0x1p300}), 300) << "of few rows none";
  EXPECT_EQ(chosen_exponent({0, 0, 0}), lowest_exponent);
}

TEST(CommonUnit, FarPointsHardlyMoveTheCentre) {
  for (const int rows : {1, 7, 8, 100, 5000}) {
    std::vector<float> points(rows, 2);
    const Device device;
    Resources s(device);
    OnDevice<float> centre(1);
    OnDevice<int> top(1);
    if (rows >= 8) points[0] = 1e30f, points[rows / 2] = -1e30f;
    OnDevice<float> x(points);
    fit_centre<float>(s, x, {centre, top}, rows, 1);
    EXPECT_EQ(centre.values()[0], 2) << rows;
  }
}

// --------------------------------------------------------------------------------------------------------------- pilot

/// `coarser`: by how many powers of two the unit is coarser than need be.
int chosen_width(const std::vector<float>& points, int features, int clusters, int coarser = 0) {
  const int count = int(points.size()) / features;
  const Device device;
  Resources s(device);
  OnDevice<float> x(points), centre(features);
  OnDevice<int> top(std::vector<int>{-2000});
  const Frame<float> view{centre, top};
  launch(max_exponent_kernel<float>, 4, 256, 0, nullptr, x, view, int64_t(points.size()), features);
  const int scale = top.values()[0] + coarser;
  check(cudaMemcpy(top, &scale, sizeof scale, cudaMemcpyHostToDevice), "uploading");
  const Directions directions = allocate_directions(s, features);
  find_directions<float>(nullptr, x, view, allocate_subspace(s, count, features), directions, count, features);
  return choose_width<float>(nullptr, x, view, directions, allocate_pilot(s), count, count, clusters, features);
}

TEST(Pilot, TakesFewDirectionsWherePointsLieInFewAndNoneWhereTheyFillAll) {
  constexpr int features = 64, points = 60, clusters = 5000;
  EXPECT_EQ(chosen_width(near_directions(points, features, 4, 0.001f, 1), features, clusters), 32);
  EXPECT_EQ(chosen_width(near_directions(points, features, 40, 0.001f, 1), features, clusters), 48);
  EXPECT_EQ(chosen_width(normal(size_t(points) * features, 2), features, clusters), 0);
  EXPECT_EQ(chosen_width(near_directions(points, features, 4, 0.001f, 1), features, clusters, 20), 0)
      << "thresholds take more than all distances";
  EXPECT_FALSE(worth_a_pilot(100, 408)) << "one look at each point costs more than 100 centroids";
  EXPECT_TRUE(worth_a_pilot(5000, 408));
}

// --------------------------------------------------------------------------------------------------------------- order

__global__ void count_kernel(const int* number, RowOrder order, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) count_row(order, number[i]);
}
__global__ void put_kernel(const int* number, RowOrder order, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) scatter(order, i, number[i]);
}

TEST(RowOrder, HasEachRowOnceByItsNumberTimeAfterTime) {
  for (const auto& [rows, numbers] : std::vector<std::pair<int, int>>{{1, 1}, {700, 40}, {3000, 2500}, {5, 1025}}) {
    OnDevice<int> count(numbers), place(numbers), row(rows);
    const RowOrder order{count, place, row};
    for (const unsigned seed : {1u, 2u}) {
      std::mt19937 random(seed);
      std::vector<int> number(rows);
      for (int& one : number) one = int(random() % unsigned(numbers));
      OnDevice<int> given(number);
      launch(count_kernel, 1, 256, 0, nullptr, given, order, rows);
      launch(prefix_sum_kernel, 1, prefix_sum_block, 0, nullptr, order, numbers);
      launch(put_kernel, 1, 256, 0, nullptr, given, order, rows);
      auto found = row.values();
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [&](int a, int b) { return number[a] < number[b]; }));
      std::sort(found.begin(), found.end());
      for (int i = 0; i < rows; ++i) ASSERT_EQ(found[i], i);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------- candidates

TEST(Candidates, TheNearestIsFoundAndOfEquallyNearOnesTheLowest) {
  // One point at 0; centroids at distances 5, 3, 3 (other signs), 4, and one that is nearer than any double tells.
  const std::vector<float> point{0, 0}, centroids{5, 0, 3, 0, -3, 0, 4, 0, 3, 0x1p-60f};
  const auto nearest = [&](int guess, std::vector<int> others) {
    const int found = int(others.size());
    others.resize(most_candidates);
    OnDevice<float> x(point), c(centroids);
    OnDevice<int> list(others), guesses(std::vector<int>{guess}), counts(std::vector<int>{found}), rows(1), label(1);
    OnDevice<int> one(std::vector<int>{1});
    launch(compare_kernel<float, StoreLabel>, 1, 256, 0, nullptr, x, c, Candidates{guesses, list, counts}, rows, one,
           StoreLabel{label}, 2);
    return label.values()[0];
  };
  EXPECT_EQ(nearest(0, {3}), 3);
  EXPECT_EQ(nearest(0, {2, 3, 1}), 1) << "a tie goes to the lower index";
  EXPECT_EQ(nearest(2, {1}), 1);
  EXPECT_EQ(nearest(4, {2}), 2) << "doubles take the two for equally near";
  EXPECT_EQ(nearest(4, {0, 1, 2, 3}), 1);
  EXPECT_EQ(nearest(1, {}), 1);
  for (int found = 1; found <= most_candidates; ++found) {
    for (int place = 0; place < found; ++place) {
      std::vector<int> others(size_t(found), 3);
      others[size_t(place)] = 2;
      EXPECT_EQ(nearest(0, others), 2) << "in place " << place << " of " << found;
    }
  }
}

}  // namespace
