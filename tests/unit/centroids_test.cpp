#include "validation/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "validation_helper.hpp"

namespace ladder {
namespace {

template <class T>
class CheckCentroids : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(CheckCentroids, Types);

TYPED_TEST(CheckCentroids, AcceptsTheReferencesOwn) {
  for (const double offset : {0.0, 1e4}) {
    const Solved<TypeParam> solved(5000, 7, 9, offset);
    const CentroidReport report = solved.check_centroids();
    EXPECT_TRUE(report.ok()) << report.first;
    EXPECT_EQ(report.values_checked, 63);
    EXPECT_EQ(report.empty_clusters, 0);
    EXPECT_LE(report.worst_error, 1);
  }
}

TYPED_TEST(CheckCentroids, CatchesOneWrongValue) {
  Solved<TypeParam> solved(5000, 7, 9);
  solved.after[3 * 7 + 5] += TypeParam(0.001);
  const CentroidReport report = solved.check_centroids();
  EXPECT_EQ(report.values_wrong, 1);
  EXPECT_GT(report.worst_error, 1);
  EXPECT_TRUE(has(report.first, "centroid 3 has "));
  EXPECT_TRUE(has(report.first, "in feature 5, where the mean of its "));
}

TYPED_TEST(CheckCentroids, CatchesAPointThatWasLeftOut) {
  Solved<TypeParam> solved(5000, 7, 9);
  std::vector<double> means(solved.before.begin(), solved.before.end());
  update_reference(solved.points.data(), 4999, 7, solved.label.data(), 9, means.data());
  solved.after.assign(means.begin(), means.end());
  EXPECT_EQ(solved.check_centroids().values_wrong, 7);
}

TYPED_TEST(CheckCentroids, TiesOfAnUnseenAssignmentMayGoEitherWay) {
  using T = TypeParam;
  // The point at 1 is as near to 0 as to 2.
  const std::vector<T> points = {-1, 0, 1, 2, 3}, centroids = {0, 2};
  const auto problem = problem_of(points, centroids, 5, 1, 2);
  const NearestMeans nearest = nearest_means(problem, centroids.data(), {});
  EXPECT_EQ(nearest.label, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  const auto wrong = [&](T first, T second) {
    const std::vector<T> after = {first, second};
    const auto judged = [&](std::span<const double> reach) {
      return check_centroids(problem, centroids.data(), after.data(), nearest.label.data(), {}, reach).values_wrong;
    };
    return std::pair(judged({}), judged(nearest.reach));
  };
  EXPECT_EQ(wrong(0, T(2.5)), (std::pair<int64_t, int64_t>(0, 0)));
  EXPECT_EQ(wrong(T(-0.5), 2), (std::pair<int64_t, int64_t>(2, 0)));
  EXPECT_EQ(wrong(T(-0.6), T(1.7)), (std::pair<int64_t, int64_t>(2, 2)));
  EXPECT_TRUE(
      nearest_means(problem_of(points, centroids, 5, 1, 2, Metric::cosine), centroids.data(), {}).reach.empty());
}

/// 100 points of 3 features in clusters 0, 1 and 3; centroid 2 stays where it was.
template <class T>
Solved<T> solved_without_cluster_2() {
  Solved<T> solved(100, 3, 4);
  for (auto& label : solved.label) label = label == 2 ? 1 : label;
  std::vector<double> means(solved.before.begin(), solved.before.end());
  update_reference(solved.points.data(), 100, 3, solved.label.data(), 4, means.data());
  solved.after.assign(means.begin(), means.end());
  return solved;
}

TYPED_TEST(CheckCentroids, CatchesAnEmptyClusterThatMoved) {
  auto solved = solved_without_cluster_2<TypeParam>();
  EXPECT_TRUE(solved.check_centroids().ok()) << solved.check_centroids().first;
  EXPECT_EQ(solved.check_centroids().empty_clusters, 1);
  const TypeParam kept = solved.after[7];
  for (const TypeParam moved : {TypeParam(0), std::nextafter(kept, TypeParam(100)), TypeParam(nan)}) {
    solved.after[7] = moved;
    const CentroidReport report = solved.check_centroids();
    EXPECT_EQ(report.values_wrong, 1);
    EXPECT_TRUE(has(report.first, "centroid 2 has "));
    EXPECT_TRUE(has(report.first, "it has no points"));
  }
}

TYPED_TEST(CheckCentroids, AnEmptyClustersMeanOfAnotherRunDiffersByItsSumsAlone) {
  auto solved = solved_without_cluster_2<TypeParam>();
  const auto problem = problem_of(solved.points, solved.before, 100, 3, 4);
  const std::vector<double> reach = kept_reach(problem, solved.label.data(), {});
  for (int e = 0; e < 12; ++e) EXPECT_EQ(reach[e] > 0, e / 3 == 2) << e;
  EXPECT_LT(reach[7], 200 * std::numeric_limits<TypeParam>::epsilon());
  const TypeParam kept = solved.after[7];
  const auto wrong = [&](double off) {
    solved.after[7] = TypeParam(kept + off);
    return check_centroids(problem, solved.before.data(), solved.after.data(), solved.label.data(), {}, reach)
        .values_wrong;
  };
  EXPECT_EQ(wrong(0.9 * reach[7]), 0);
  EXPECT_EQ(wrong(-0.9 * reach[7]), 0);
  EXPECT_EQ(wrong(4 * reach[7]), 1);
  EXPECT_EQ(wrong(nan), 1);
}

TYPED_TEST(CheckCentroids, CatchesPoisonNanAndCentroidsThatStayed) {
  Solved<TypeParam> solved(500, 3, 4);
  const auto right = solved.after;
  solved.after.assign(12, TypeParam(nan));
  EXPECT_EQ(solved.check_centroids().values_wrong, 12);
  EXPECT_TRUE(std::isinf(solved.check_centroids().worst_error));
  solved.after = solved.before;
  EXPECT_EQ(solved.check_centroids().values_wrong, 12);
  solved.after = right;
  solved.label[77] = -1;
  EXPECT_EQ(solved.check_centroids().values_wrong, 12);
  EXPECT_TRUE(has(solved.check_centroids().first, "row 77 has label -1"));
}

TEST(CheckCentroidsBound, FloatSumsPassOnlyWhereDeclared) {
  Solved<float> solved(200000, 1, 1, 100);
  float sum = 0;
  for (const float x : solved.points) sum += x;
  solved.after[0] = sum / 200000;
  EXPECT_FALSE(solved.check_centroids().ok()) << "float sums of 200000 values are worse than fp64 sums";
  EXPECT_TRUE(solved.check_centroids({{.sum_roundoff = 0x1p-24}}).ok());
}

TEST(CheckCentroidsBound, CentredPointsErrByARoundingOfTheirMean) {
  const float points[] = {0.0588013567f, 20}, before[] = {0, 20}, mean = (points[0] + points[1]) / 2;
  const int32_t label[] = {0, 1};
  const auto check = [&](float first, const Arithmetic& arithmetic) {
    const float after[] = {first, 20};
    return check_centroids(problem_of(points, before, 2, 1, 2), before, after, label, {arithmetic}).ok();
  };
  const float centred = (points[0] - mean) + mean;
  ASSERT_NE(centred, points[0]);
  EXPECT_TRUE(check(centred, {.sum_roundoff = 0, .centred = true}));
  EXPECT_FALSE(check(centred, {.sum_roundoff = 0}));
  EXPECT_FALSE(check(centred + 1e-4f, {.sum_roundoff = 0, .centred = true}));
}

TEST(CheckCentroidsBound, KeptRoundedPointsErrByTheirRoundingHoweverManyTheyAre) {
  constexpr int n = 1000;
  const Arithmetic halves{.form = Arithmetic::Form::expanded, .input_roundoff = 0x1p-11, .sum_roundoff = 0x1p-11};
  Solved<float> solved(n, 1, 1, 100);
  std::fill(solved.points.begin(), solved.points.end(), 1 + 0x1p-11f);  // half of a unit in a half's last place
  for (const auto& [off, right] : {std::pair(0.f, true), {0x1p-11f, true}, {0x1.2p-10f, false}, {-0x1.2p-10f, false}}) {
    solved.after[0] = 1 + 0x1p-11f + off;
    EXPECT_EQ(solved.check_centroids({halves}).ok(), right) << off;
  }
  solved.after[0] = 1 + 0x1p-10f;
  EXPECT_FALSE(solved.check_centroids({{.input_roundoff = 0x1p-11}}).ok()) << "rounded for distances alone";
}

TEST(CheckCentroidsBound, SumsThatCancelMayErrByTheirMagnitude) {
  // The mean is 0, the sum's terms are not: an error of a rounding of the terms is right, a thousandth is not.
  const float points[] = {1e6f, -1e6f}, before[] = {0};
  const int32_t label[] = {0, 0};
  for (const auto& [value, right] : {std::pair{1e-10f, true}, {1e-3f, false}})
    EXPECT_EQ(check_centroids(problem_of(points, before, 2, 1, 1), before, &value, label, {}).ok(), right);
}

TYPED_TEST(CheckCentroids, AnEmptyClusterMayMoveWhereTheCardSaysSo) {
  auto solved = solved_without_cluster_2<TypeParam>();
  solved.after[7] += 1;
  EXPECT_FALSE(solved.check_centroids().ok());
  const CentroidReport report = solved.check_centroids({.moves_empty = true});
  EXPECT_TRUE(report.ok()) << report.first;
  EXPECT_EQ(report.values_checked, 9);
  EXPECT_EQ(report.empty_clusters, 1);
  EXPECT_LE(report.worst_error, 1);
  solved.after[1] += 1;
  EXPECT_EQ(solved.check_centroids({.moves_empty = true}).values_wrong, 1) << "the others are held to their means";
}

// -------------------------------------------------------------------------------------------------------------- cosine

constexpr Metric cosine = Metric::cosine;

TYPED_TEST(CheckCentroids, CosineAcceptsTheReferencesOwnAndHonestArithmetic) {
  for (const double offset : {0.0, 10.0}) {
    Solved<TypeParam> solved(5000, 7, 9, offset, cosine);
    EXPECT_TRUE(solved.check_centroids().ok()) << solved.check_centroids().first;
    // Directions in T, their sums in double, the result's length in T.
    const int d = solved.d;
    const auto length = [d](const auto* row) {
      TypeParam sum = 0;
      for (int f = 0; f < d; ++f) sum += TypeParam(row[f]) * TypeParam(row[f]);
      return std::sqrt(sum);
    };
    std::vector<double> sum(size_t(solved.k) * d);
    for (int i = 0; i < solved.n; ++i) {
      const TypeParam* x = &solved.points[size_t(i) * d];
      const TypeParam norm = length(x);
      for (int f = 0; f < d; ++f) sum[size_t(solved.label[i]) * d + f] += double(x[f] / norm);
    }
    for (int j = 0; j < solved.k; ++j) {
      const TypeParam norm = length(&sum[size_t(j) * d]);
      for (int f = 0; f < d; ++f) solved.after[size_t(j) * d + f] = TypeParam(sum[size_t(j) * d + f]) / norm;
    }
    const CentroidReport report = solved.check_centroids();
    EXPECT_TRUE(report.ok()) << report.first;
    EXPECT_LE(report.worst_error, 1);
    EXPECT_EQ(report.undirected_clusters, 0);
  }
}

TYPED_TEST(CheckCentroids, CosineCatchesMeansThatAreNoDirections) {
  Solved<TypeParam> solved(5000, 7, 9, 1, cosine);
  const auto right = solved.after;
  for (auto& value : solved.after) value *= TypeParam(1.001);
  EXPECT_EQ(solved.check_centroids().values_wrong, 63) << "of unit length";
  std::vector<double> means(solved.before.begin(), solved.before.end());
  update_reference(solved.points.data(), 5000, 7, solved.label.data(), 9, means.data());
  for (int j = 0; j < 9; ++j) {
    std::vector<double> unit(7);
    as_seen(&means[size_t(j) * 7], 7, cosine, unit.data());
    std::copy(unit.begin(), unit.end(), solved.after.begin() + j * 7);
  }
  const CentroidReport report = solved.check_centroids();
  EXPECT_GT(report.values_wrong, 40) << "long points must not count more than short ones";
  EXPECT_TRUE(has(report.first, "where the direction of the mean of its "));
  solved.after = right;
  solved.after[5] += TypeParam(0.001);
  EXPECT_EQ(solved.check_centroids().values_wrong, 1);
}

TEST(CosineCentroids, StayWhereNoMeanTellsThemWhereToGo) {
  // Centroid 0's points cancel, centroid 1 has none, centroid 2 gets a mean.
  const std::vector<float> points{3, 4, -6, -8, 0, 2}, before{5, 12, 2, 0, 1, 1};
  const std::vector<int32_t> label{0, 0, 2};
  const auto problem = problem_of(points, before, 3, 2, 3, cosine);
  const auto check = [&](const std::vector<float>& after, const Rules& rules = {}) {
    return check_centroids(problem, before.data(), after.data(), label.data(), rules);
  };
  const CentroidReport stays = check({5, 12, 2, 0, 0, 1});
  EXPECT_TRUE(stays.ok()) << stays.first;
  EXPECT_EQ(stays.empty_clusters, 1);
  EXPECT_EQ(stays.undirected_clusters, 1);
  EXPECT_TRUE(check({5.0f / 13, 12.0f / 13, 1, 0, 0, 1}).ok()) << "by direction they have not moved";
  EXPECT_TRUE(check({0.6f, 0.8f, 2, 0, 0, 1}).ok()) << "any unit vector, where rounding errors decide";
  const CentroidReport zero = check({0, 0, 2, 0, 0, 1});
  EXPECT_EQ(zero.values_wrong, 2);
  EXPECT_TRUE(has(zero.first, "the directions of its 2 points cancel"));
  EXPECT_EQ(check({nan, nan, 2, 0, 0, 1}).values_wrong, 2);
  EXPECT_TRUE(has(check({5, 12, 2, 0.5f, 0, 1}).first, "centroid 1 has 0.5 in feature 1, where it should keep 0"));
  EXPECT_TRUE(check({5, 12, 2, 0.5f, 0, 1}, {.moves_empty = true}).ok());
  std::vector<double> means(before.begin(), before.end());
  update_reference(points.data(), 3, 2, label.data(), 3, means.data(), cosine);
  EXPECT_EQ(means, (std::vector<double>{5, 12, 2, 0, 0, 1}));
}

TEST(CosineCentroids, RefuseZeroRows) {
  const std::vector<float> points{1, 0, 0, 0}, before{1, 0};
  const std::vector<int32_t> label{0, 0};
  EXPECT_THROW(
      check_centroids(problem_of(points, before, 2, 2, 1, cosine), before.data(), before.data(), label.data(), {}),
      Error);
}

}  // namespace
}  // namespace ladder
