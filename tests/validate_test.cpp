#include "judge/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "catalogue/generate.hpp"
#include "judge/reference.hpp"

namespace ladder {
namespace {

using Form = Arithmetic::Form;
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not say '" << part << "'";
}

/// Points around `offset` in every feature, the first k of them as centroids, and what a right iteration makes of them.
template <class T>
struct Solved {
  int n, d, k;
  std::vector<T> points, before, after;
  std::vector<int32_t> label;

  Solved(int n_, int d_, int k_, double offset = 0) : n(n_), d(d_), k(k_) {
    std::vector<double> z(size_t(n) * d);
    normals(17, Stream::noise, 0, z.size(), z.data());
    for (const double v : z) points.push_back(T(offset + v));
    before.assign(points.begin(), points.begin() + k * d);
    label.resize(n);
    assign_reference(points.data(), n, d, before.data(), k, label.data());
    std::vector<double> means(before.begin(), before.end());
    update_reference(points.data(), n, d, label.data(), k, means.data());
    after.assign(means.begin(), means.end());
  }
  LabelReport check_labels(const Arithmetic& arithmetic = {}, std::span<const int32_t> rows = {}) const {
    return ladder::check_labels(points.data(), n, d, before.data(), k, label.data(), arithmetic, rows);
  }
  CentroidReport check_centroids(const Arithmetic& arithmetic = {}) const {
    return ladder::check_centroids(points.data(), n, d, before.data(), after.data(), k, label.data(), arithmetic);
  }
};

/// The labels that arithmetic of type T itself gives, in difference or in expanded form.
template <class T>
std::vector<int32_t> labels_in(const std::vector<T>& points, const std::vector<T>& centroids, int n, int d, int k,
                               Form form) {
  std::vector<int32_t> label(n);
  for (int i = 0; i < n; ++i) {
    T least = std::numeric_limits<T>::infinity();
    for (int j = 0; j < k; ++j) {
      T distance = 0, x2 = 0, c2 = 0, xc = 0;
      for (int f = 0; f < d; ++f) {
        const T x = points[size_t(i) * d + f], c = centroids[size_t(j) * d + f];
        distance += (x - c) * (x - c);
        x2 += x * x;
        c2 += c * c;
        xc += x * c;
      }
      if (form == Form::expanded) distance = x2 + c2 - 2 * xc;
      if (distance < least) least = distance, label[i] = j;
    }
  }
  return label;
}

// ------------------------------------------------------------------------------------------------------- the reference

TEST(Reference, AssignsByHand) {
  const std::vector<float> points{0, 0, 3, 4, 9, 9, 5, 5}, centroids{0, 0, 10, 10, 0, 0};
  std::vector<int32_t> label(4, -1);
  assign_reference(points.data(), 4, 2, centroids.data(), 3, label.data());
  EXPECT_EQ(label, (std::vector<int32_t>{0, 0, 1, 0})) << "the last point is as far from both: the lowest index";
  EXPECT_DOUBLE_EQ(inertia(points.data(), 4, 2, centroids.data(), label.data()), 0 + 25 + 2 + 50);
}

TEST(Reference, AwkwardSizesAgreeWithOneByOne) {
  for (const int k : {1, 7, 8, 9, 33})
    for (const int d : {1, 2, 3, 33})
      for (const int n : {1, 3, 64, 65, 130}) {
        if (k > n) continue;
        const Solved<float> solved(n, d, k);
        for (int i = 0; i < n; ++i) {
          int best = 0;
          for (int j = 1; j < k; ++j)
            if (squared_distance(&solved.points[size_t(i) * d], &solved.before[size_t(j) * d], d) <
                squared_distance(&solved.points[size_t(i) * d], &solved.before[size_t(best) * d], d))
              best = j;
          ASSERT_EQ(solved.label[i], best) << "n " << n << " k " << k << " d " << d << " row " << i;
        }
      }
}

TEST(Reference, PanelsGiveTheSameBitsAsOneByOne) {
  const Solved<double> solved(10, 37, 9);
  const CentroidPanels panels(solved.before.data(), 9, 37);
  ASSERT_EQ(panels.panels(), 2);
  std::vector<double> distance(10 * 8);
  panels.distances(solved.points.data(), 10, 1, distance.data());
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(distance[i * 8], squared_distance(&solved.points[i * 37], &solved.before[8 * 37], 37));
    EXPECT_TRUE(std::isinf(distance[i * 8 + 1]));
  }
}

TEST(Reference, UpdatesByHandAndKeepsEmptyClusters) {
  const std::vector<float> points{1, 10, 2, 20, 6, 60};
  const std::vector<int32_t> label{2, 0, 2};
  std::vector<double> centroids{-1, -1, 7, 8, -1, -1};
  update_reference(points.data(), 3, 2, label.data(), 3, centroids.data());
  EXPECT_EQ(centroids, (std::vector<double>{2, 20, 7, 8, 3.5, 35}));
  const std::vector<int32_t> out_of_range{0, 3, 0};
  EXPECT_THROW(update_reference(points.data(), 3, 2, out_of_range.data(), 3, centroids.data()), Error);
}

TEST(Reference, TheSameBitsWithAnyNumberOfThreads) {
  std::vector<std::vector<double>> centroids;
  std::vector<double> inertias;
  for (const char* threads : {"1", "2", "5"}) {
    ::setenv("LADDER_THREADS", threads, 1);
    const Solved<double> solved(10000, 5, 3);
    ::unsetenv("LADDER_THREADS");
    centroids.push_back(solved.after);
    inertias.push_back(inertia(solved.points.data(), solved.n, solved.d, solved.after.data(), solved.label.data()));
  }
  EXPECT_EQ(centroids[0], centroids[1]);
  EXPECT_EQ(centroids[0], centroids[2]);
  EXPECT_EQ(inertias[0], inertias[1]);
  EXPECT_EQ(inertias[0], inertias[2]);
}

TEST(Reference, SolvesByHand) {
  const std::vector<double> points{0, 1, 10, 11, 12}, initial{0, 1};
  Problem<double> problem;
  problem.n = 5, problem.k = 2, problem.d = 1;
  problem.points = points.data();
  problem.centroids = initial.data();
  const LloydResult solved = lloyd_reference(problem, {.rule = Stop::Rule::exact});
  // {0 | 1 10 11 12}: means 0, 8.5; {0 1 | 10 11 12}: means 0.5, 11; then nothing changes.
  EXPECT_EQ(solved.label, (std::vector<int32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(solved.centroids, (std::vector<double>{0.5, 11}));
  EXPECT_EQ(solved.iterations, 3);
  EXPECT_EQ(solved.reassigned, (std::vector<int64_t>{5, 1, 0}));
  EXPECT_EQ(solved.inertia, (std::vector<double>{0 + 0 + 81 + 100 + 121, 0 + 1 + 2.25 + 6.25 + 12.25, 2.5}));

  const LloydResult one = lloyd_reference(problem, {.rule = Stop::Rule::fixed, .iterations = 1});
  EXPECT_EQ(one.iterations, 1);
  EXPECT_EQ(one.label, (std::vector<int32_t>{0, 1, 1, 1, 1})) << "labels belong to the centroids before the update";
  EXPECT_EQ(one.centroids, (std::vector<double>{0, 8.5}));
  EXPECT_EQ(lloyd_reference(problem, {.rule = Stop::Rule::reassigned, .fraction = 0.2}).iterations, 2);
  problem.points = nullptr;
  EXPECT_THROW(lloyd_reference(problem, {}), Error);
}

// ---------------------------------------------------------------------------------------------------------------
// labels

TEST(CheckLabels, AcceptsTheReferencesOwn) {
  const Solved<float> solved(1000, 33, 31);
  for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
    const LabelReport report = solved.check_labels({.form = form});
    EXPECT_TRUE(report.ok()) << report.first;
    EXPECT_EQ(report.rows_checked, 1000);
    EXPECT_EQ(report.ties, 0);
    EXPECT_EQ(report.worst_regret, 0);
  }
  const Solved<double> doubles(1000, 33, 31);
  EXPECT_TRUE(doubles.check_labels().ok());
}

TEST(CheckLabels, CatchesOneWrongLabel) {
  Solved<float> solved(1000, 5, 10);
  solved.label[613] = (solved.label[613] + 1) % 10;
  for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
    const LabelReport report = solved.check_labels({.form = form});
    EXPECT_EQ(report.labels_wrong, 1);
    EXPECT_EQ(report.ties, 0);
    EXPECT_GT(report.worst_regret, 1e-3);
    EXPECT_TRUE(has(report.first, "row 613 has label " + std::to_string(solved.label[613])));
    EXPECT_TRUE(has(report.first, " is right: squared distance "));
  }
}

TEST(CheckLabels, CatchesAnOffByOneInTheLastTile) {
  // A kernel that forgets the last centroid: points nearest to it take the next best.
  Solved<float> solved(1000, 5, 33);
  const int64_t affected = std::count(solved.label.begin(), solved.label.end(), 32);
  ASSERT_GT(affected, 0);
  assign_reference(solved.points.data(), solved.n, solved.d, solved.before.data(), 32, solved.label.data());
  EXPECT_EQ(solved.check_labels().labels_wrong, affected);
}

TEST(CheckLabels, CatchesStalePoisonAndOtherNonsense) {
  Solved<float> solved(100, 5, 10);
  solved.label[99] = int32_t(0xa5a5a5a5);
  solved.label[42] = 10;
  solved.label[43] = -1;
  const LabelReport report = solved.check_labels();
  EXPECT_EQ(report.labels_wrong, 3);
  EXPECT_TRUE(has(report.first, "row 42 has label 10, but labels are 0 to 9"));
}

TEST(CheckLabels, CatchesLabelsOfEarlierCentroids) {
  Solved<float> solved(2000, 3, 20);
  std::swap(solved.before, solved.after);
  EXPECT_GT(solved.check_labels().labels_wrong, 50);
}

TEST(CheckLabels, LooksAtTheGivenRowsOnly) {
  Solved<float> solved(1000, 5, 10);
  solved.label[500] = -7;
  const std::vector<int32_t> without{0, 499, 501, 999}, with{3, 500};
  EXPECT_TRUE(solved.check_labels({}, without).ok());
  EXPECT_EQ(solved.check_labels({}, without).rows_checked, 4);
  EXPECT_EQ(solved.check_labels({}, with).labels_wrong, 1);
}

TEST(CheckLabels, ATieWithinTheBoundIsATieAndBeyondItIsWrong) {
  // d = 1, x = 0: the distances are the squares of the centroids, u = 2^-24 allows 2 gamma(3) = 3.6e-7 more.
  const float x[] = {0}, near[] = {1, 1 + 0x1p-23f}, far[] = {1, 1 + 0x1p-22f};
  const int32_t second[] = {1};
  const LabelReport tie = check_labels(x, 1, 1, near, 2, second, {});
  EXPECT_TRUE(tie.ok()) << tie.first;
  EXPECT_EQ(tie.ties, 1);
  EXPECT_NEAR(tie.worst_regret, 0x1p-22, 1e-12);
  EXPECT_EQ(check_labels(x, 1, 1, far, 2, second, {}).labels_wrong, 1);
  // Arithmetic that declares less accuracy may err more; the exact minimum may not err at all.
  EXPECT_EQ(check_labels(x, 1, 1, far, 2, second, {.distance_roundoff = 0x1p-11}).ties, 1);
  EXPECT_EQ(check_labels(x, 1, 1, near, 2, second, {.form = Form::exact}).labels_wrong, 1);
  EXPECT_EQ(check_labels(x, 1, 1, near, 2, second, {.distance_roundoff = 0x1p-53}).labels_wrong, 1);
}

TEST(CheckLabels, DoublesHaveABoundOfTheirOwn) {
  const double x[] = {0}, near[] = {1, 1 + 0x1p-52}, far[] = {1, 1 + 0x1p-40};
  const int32_t second[] = {1};
  EXPECT_EQ(check_labels(x, 1, 1, near, 2, second, {}).ties, 1);
  EXPECT_EQ(check_labels(x, 1, 1, far, 2, second, {}).labels_wrong, 1);
}

TEST(CheckLabels, ExactMeansExactEvenWhereDoublesTie) {
  // (1 + 2^-60)^2 rounds to 1 in double; a hundred bits tell it from 1.
  const double x[] = {0, 0}, centroids[] = {1, 0x1p-30, 1, 0};
  const int32_t second[] = {1}, first[] = {0};
  EXPECT_TRUE(check_labels(x, 1, 2, centroids, 2, second, {.form = Form::exact}).ok());
  const double same[] = {1, 0.5, 0.5, 1};
  EXPECT_TRUE(check_labels(x, 1, 2, same, 2, first, {.form = Form::exact}).ok());
  const LabelReport report = check_labels(x, 1, 2, same, 2, second, {.form = Form::exact});
  EXPECT_EQ(report.labels_wrong, 1) << "an exact tie goes to the lowest index";
  EXPECT_TRUE(has(report.first, "not the lowest index of the exact minimum"));
  EXPECT_EQ(check_labels(x, 1, 2, same, 2, second, {}).ties, 1) << "a rounded distance may come out either way";
}

TEST(CheckLabels, EqualCentroidsGoToTheLowestIndex) {
  const float x[] = {0.1f}, centroids[] = {5, 0, 1, -0.0f};
  const int32_t lowest[] = {1}, highest[] = {3};
  for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
    EXPECT_TRUE(check_labels(x, 1, 1, centroids, 4, lowest, {.form = form}).ok());
    const LabelReport report = check_labels(x, 1, 1, centroids, 4, highest, {.form = form});
    EXPECT_EQ(report.labels_wrong, 1);
    EXPECT_TRUE(has(report.first, "centroid 1 has the same coordinates and a lower index"));
  }
}

TEST(CheckLabels, AllPointsAndCentroidsEqual) {
  const std::vector<float> points(40, 3.5f), centroids(8, 3.5f);
  std::vector<int32_t> label(20);
  EXPECT_TRUE(check_labels(points.data(), 20, 2, centroids.data(), 4, label.data(), {}).ok());
  label[7] = 3;
  EXPECT_EQ(check_labels(points.data(), 20, 2, centroids.data(), 4, label.data(), {}).labels_wrong, 1);
}

TEST(CheckLabels, HonestArithmeticStaysWithinItsBound) {
  for (const double offset : {0.0, 10.0, 1000.0}) {
    Solved<float> solved(1000, 20, 50, offset);
    for (const Form form : {Form::difference, Form::expanded}) {
      solved.label = labels_in(solved.points, solved.before, solved.n, solved.d, solved.k, form);
      const LabelReport report = solved.check_labels({.form = form});
      EXPECT_TRUE(report.ok()) << report.first;
    }
  }
}

TEST(CheckLabels, CancellationFarFromTheOriginIsNoDifferenceForm) {
  // Expanded in float at 1000 the norms are 1e6 times the distances: within its own bound, far beyond that of
  // differences.
  Solved<float> solved(1000, 3, 50, 3000);
  solved.label = labels_in(solved.points, solved.before, solved.n, solved.d, solved.k, Form::expanded);
  EXPECT_TRUE(solved.check_labels({.form = Form::expanded}).ok());
  const LabelReport report = solved.check_labels({.form = Form::difference});
  EXPECT_GT(report.labels_wrong, 10);
  EXPECT_TRUE(has(report.first, "where difference form allows"));
}

TEST(CheckLabels, UnderflowIsAllowedAndOverflowIsNot) {
  // Squares of 1e-30 vanish in float: both distances are 0 and the first label wins.
  const float tiny[] = {0}, tiny_centroids[] = {2e-30f, 1e-30f};
  const int32_t first[] = {0}, second[] = {1};
  EXPECT_EQ(check_labels(tiny, 1, 1, tiny_centroids, 2, first, {}).ties, 1);
  // Squares of 1e25 are infinite in float: a label chosen among infinities is wrong where it is not the nearest.
  const float huge[] = {0}, huge_centroids[] = {2e25f, 1e25f};
  EXPECT_EQ(check_labels(huge, 1, 1, huge_centroids, 2, first, {}).labels_wrong, 1);
  EXPECT_TRUE(check_labels(huge, 1, 1, huge_centroids, 2, second, {}).ok());
  const double beyond[] = {0}, beyond_centroids[] = {1e200};
  EXPECT_THROW(check_labels(beyond, 1, 1, beyond_centroids, 1, first, {}), Error);
  const double far[] = {1e200}, far_centroids[] = {1e200, 1.0000000000000002e200};
  EXPECT_THROW(check_labels(far, 1, 1, far_centroids, 2, second, {.form = Form::expanded}), Error);
}

TEST(CheckLabels, NoLabelIsRightForACentroidThatIsNoNumber) {
  for (const float bad : {nan, inf}) {
    Solved<float> solved(10, 3, 4);
    solved.before[7] = bad;
    const LabelReport report = solved.check_labels();
    EXPECT_EQ(report.labels_wrong, 10);
    EXPECT_TRUE(has(report.first, "in feature 1: no label can be right"));
  }
}

TEST(CheckLabels, RefusesABoundThatSaysNothing) {
  const Solved<float> solved(10, 1500, 2);
  EXPECT_THROW(solved.check_labels({.distance_roundoff = 0x1p-11}), Error);
}

TEST(SampleRows, DistinctSortedAndEvenlySpread) {
  const auto rows = sample_rows(1000000, 1000, 5);
  ASSERT_EQ(rows.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), 1000u);
  EXPECT_GE(rows.front(), 0);
  EXPECT_LT(rows.back(), 1000000);
  const auto low = std::count_if(rows.begin(), rows.end(), [](int32_t row) { return row < 500000; });
  EXPECT_NEAR(double(low), 500, 79);  // 5 standard deviations
  EXPECT_EQ(rows, sample_rows(1000000, 1000, 5));
  EXPECT_NE(rows, sample_rows(1000000, 1000, 6));
  EXPECT_EQ(sample_rows(4, 9, 0), (std::vector<int32_t>{0, 1, 2, 3}));
  std::set<int32_t> seen;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for (const int32_t row : sample_rows(10, 9, seed)) seen.insert(row);
  EXPECT_EQ(seen.size(), 10u);
}

// ------------------------------------------------------------------------------------------------------------
// centroids

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

TYPED_TEST(CheckCentroids, CatchesAnEmptyClusterThatMoved) {
  Solved<TypeParam> solved(100, 3, 4);
  for (auto& label : solved.label) label = label == 2 ? 1 : label;
  std::vector<double> means(solved.before.begin(), solved.before.end());
  update_reference(solved.points.data(), 100, 3, solved.label.data(), 4, means.data());
  solved.after.assign(means.begin(), means.end());
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
  EXPECT_TRUE(solved.check_centroids({.sum_roundoff = 0x1p-24}).ok());
}

TEST(CheckCentroidsBound, SumsThatCancelMayErrByTheirMagnitude) {
  // The mean is 0, the sum's terms are not: an error of a rounding of the terms is right, a thousandth is not.
  const float points[] = {1e6f, -1e6f}, before[] = {0};
  const int32_t label[] = {0, 0};
  for (const auto& [value, right] : {std::pair{1e-10f, true}, {1e-3f, false}})
    EXPECT_EQ(check_centroids(points, 2, 1, before, &value, 1, label, {}).ok(), right);
}

}  // namespace
}  // namespace ladder
