#include "validation/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/npy.hpp"
#include "base/philox.hpp"
#include "validation/bounds.hpp"
#include "validation_helper.hpp"

namespace ladder {
namespace {

template <class Points, class Centroids, class Label>
LabelReport check(const Points& points, int n, int d, const Centroids& centroids, int k, const Label& label,
                  const Arithmetic& arithmetic, Metric metric = Metric::euclidean) {
  return check_labels(problem_of(points, centroids, n, d, k, metric), std::data(centroids), std::data(label),
                      {arithmetic});
}

TEST(CheckLabels, AcceptsTheReferencesOwn) {
  const Solved<float> solved(1000, 33, 31);
  for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
    const LabelReport report = solved.check_labels({.form = form});
    EXPECT_TRUE(report.ok()) << report.first;
    EXPECT_EQ(report.rows_checked, 1000);
    EXPECT_EQ(report.ties, 0);
    EXPECT_EQ(report.labels_differ, 0);
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
  EXPECT_EQ(report.labels_differ, 3);
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
  const LabelReport tie = check(x, 1, 1, near, 2, second, {});
  EXPECT_TRUE(tie.ok()) << tie.first;
  EXPECT_EQ(tie.ties, 1);
  EXPECT_EQ(tie.labels_differ, 1);
  EXPECT_NEAR(tie.worst_regret, 0x1p-22, 1e-12);
  EXPECT_EQ(check(x, 1, 1, far, 2, second, {}).labels_wrong, 1);
  // Arithmetic that declares less accuracy may err more; the exact minimum may not err at all.
  EXPECT_EQ(check(x, 1, 1, far, 2, second, {.distance_roundoff = 0x1p-11}).ties, 1);
  EXPECT_EQ(check(x, 1, 1, near, 2, second, {.form = Form::exact}).labels_wrong, 1);
  EXPECT_EQ(check(x, 1, 1, near, 2, second, {.distance_roundoff = 0x1p-53}).labels_wrong, 1);
}

TEST(CheckLabels, DoublesHaveABoundOfTheirOwn) {
  const double x[] = {0}, near[] = {1, 1 + 0x1p-52}, far[] = {1, 1 + 0x1p-40};
  const int32_t second[] = {1};
  EXPECT_EQ(check(x, 1, 1, near, 2, second, {}).ties, 1);
  EXPECT_EQ(check(x, 1, 1, far, 2, second, {}).labels_wrong, 1);
}

TEST(CheckLabels, ExactMeansExactEvenWhereDoublesTie) {
  // (1 + 2^-60)^2 rounds to 1 in double; a hundred bits tell it from 1.
  const double x[] = {0, 0}, centroids[] = {1, 0x1p-30, 1, 0};
  const int32_t second[] = {1}, first[] = {0};
  EXPECT_TRUE(check(x, 1, 2, centroids, 2, second, {.form = Form::exact}).ok());
  const double same[] = {1, 0.5, 0.5, 1};
  EXPECT_TRUE(check(x, 1, 2, same, 2, first, {.form = Form::exact}).ok());
  const LabelReport report = check(x, 1, 2, same, 2, second, {.form = Form::exact});
  EXPECT_EQ(report.labels_wrong, 1) << "an exact tie goes to the lowest index";
  EXPECT_TRUE(has(report.first, "not the lowest index of the exact minimum"));
  EXPECT_EQ(check(x, 1, 2, same, 2, second, {}).ties, 1) << "a rounded distance may come out either way";
}

TEST(CheckLabels, EqualCentroidsGoToTheLowestIndex) {
  const float x[] = {0.1f}, centroids[] = {5, 0, 1, -0.0f};
  const int32_t lowest[] = {1}, highest[] = {3};
  for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
    EXPECT_TRUE(check(x, 1, 1, centroids, 4, lowest, {.form = form}).ok());
    const LabelReport report = check(x, 1, 1, centroids, 4, highest, {.form = form});
    EXPECT_EQ(report.labels_wrong, 1);
    EXPECT_TRUE(has(report.first, "centroid 1 has the same coordinates and a lower index"));
  }
}

TEST(CheckLabels, AllPointsAndCentroidsEqual) {
  const std::vector<float> points(40, 3.5f), centroids(8, 3.5f);
  std::vector<int32_t> label(20);
  EXPECT_TRUE(check(points, 20, 2, centroids, 4, label, {}).ok());
  label[7] = 3;
  EXPECT_EQ(check(points, 20, 2, centroids, 4, label, {}).labels_wrong, 1);
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
  EXPECT_TRUE(has(report.first, "where rounding (difference form) explains at most"));
}

TEST(CheckLabels, UnderflowIsAllowedAndOverflowIsNot) {
  // Squares of 1e-30 vanish in float: both distances are 0 and the first label wins.
  const float tiny[] = {0}, tiny_centroids[] = {2e-30f, 1e-30f};
  const int32_t first[] = {0}, second[] = {1};
  EXPECT_EQ(check(tiny, 1, 1, tiny_centroids, 2, first, {}).ties, 1);
  // Squares of 1e25 are infinite in float: a label chosen among infinities is wrong where it is not the nearest.
  const float huge[] = {0}, huge_centroids[] = {2e25f, 1e25f};
  EXPECT_EQ(check(huge, 1, 1, huge_centroids, 2, first, {}).labels_wrong, 1);
  EXPECT_TRUE(check(huge, 1, 1, huge_centroids, 2, second, {}).ok());
  const double beyond[] = {0}, beyond_centroids[] = {1e200};
  EXPECT_THROW(check(beyond, 1, 1, beyond_centroids, 1, first, {}), Error);
  const double far[] = {1e200}, far_centroids[] = {1e200, 1.0000000000000002e200};
  EXPECT_THROW(check(far, 1, 1, far_centroids, 2, second, {.form = Form::expanded}), Error);
}

TEST(CheckLabels, NoLabelIsRightForACentroidThatIsNoNumber) {
  for (const float bad : {nan, inf}) {
    Solved<float> solved(10, 3, 4);
    solved.before[7] = bad;
    const LabelReport report = solved.check_labels();
    EXPECT_EQ(report.labels_wrong, 10);
    EXPECT_TRUE(has(report.first, " in feature 1: no label can be right (memory read before it was written"));
  }
}

TEST(CheckLabels, RefusesABoundThatSaysNothing) {
  const Solved<float> solved(10, 1500, 2);
  EXPECT_THROW(solved.check_labels({.distance_roundoff = 0x1p-11}), Error);
}

// --------------------------------------------------------------------------------------------------- rounded operands

/// The nearest number of `bits` significant bits, ties to even; or one of its two neighbours among them, drawn, or the
/// one further from zero: roundings as they come and at their worst.
enum class Rounding { nearest, away, towards };
double rounded(double value, int bits, Rounding how) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, bits - 1 - std::ilogb(value)), scaled = value * scale;
  // The two that are not the nearest stay within half a unit: the most that rounding to the nearest can do.
  if (how == Rounding::nearest) return std::nearbyint(scaled) / scale;
  return (scaled + (how == Rounding::away ? 0.5 : -0.5) * std::copysign(1.0, scaled)) / scale;
}

struct LowPrecision {
  Form form;
  int bits;  ///< significant bits of an operand: 11 is half, 8 is bfloat16; the unit roundoff is 2^-bits
  int n, d, k;
  double offset = 0;
  Arithmetic arithmetic() const { return {.form = form, .input_roundoff = std::ldexp(1.0, -bits)}; }
};

/// The labels that float sums over rounded operands give. `rounding(operand)` rounds a point's or a centroid's value.
template <class T, class Round>
std::vector<int32_t> rounded_labels(const Solved<T>& solved, const LowPrecision& low, bool rounded_norms,
                                    const Round& rounding) {
  std::vector<int32_t> label(solved.n);
  const int d = solved.d;
  std::vector<float> x(d), c(size_t(solved.k) * d);
  for (size_t e = 0; e < c.size(); ++e) c[e] = float(rounding(double(solved.before[e]), int(e) / d));
  for (int i = 0; i < solved.n; ++i) {
    const T* point = &solved.points[size_t(i) * d];
    for (int f = 0; f < d; ++f) x[f] = float(rounding(double(point[f]), -1));
    float least = inf;
    for (int j = 0; j < solved.k; ++j) {
      float distance = 0, product = 0, norm = 0;
      for (int f = 0; f < d; ++f) {
        const float centroid = c[size_t(j) * d + f], difference = x[f] - centroid;
        const float in_norm = rounded_norms ? centroid : float(solved.before[size_t(j) * d + f]);
        distance += difference * difference;
        product += x[f] * centroid;
        norm += in_norm * in_norm;
      }
      if (low.form == Form::expanded) distance = norm - 2 * product;
      if (distance < least) least = distance, label[i] = j;
    }
  }
  return label;
}

const LowPrecision low_precisions[] = {{Form::expanded, 11, 2000, 408, 50},   {Form::expanded, 8, 2000, 100, 50},
                                       {Form::expanded, 11, 500, 1024, 20},   {Form::expanded, 8, 500, 1024, 20},
                                       {Form::difference, 11, 2000, 408, 50}, {Form::difference, 8, 2000, 100, 50},
                                       {Form::difference, 11, 500, 1024, 20}};

TEST(RoundedOperands, RandomLabelsAreRejected) {
  for (const LowPrecision& low : low_precisions) {
    Solved<float> solved(low.n, low.d, low.k);
    Sequence random(3, Stream::rows);
    int64_t differ = 0;
    for (int i = 0; i < solved.n; ++i) {
      const auto label = int32_t(random.below(uint32_t(low.k)));
      differ += label != solved.label[i];
      solved.label[i] = label;
    }
    const LabelReport report = solved.check_labels(low.arithmetic());
    EXPECT_EQ(report.labels_differ, differ);
    EXPECT_GT(report.labels_wrong, 0.93 * double(differ)) << name_of(low.form) << " " << low.bits << " D " << low.d;
    EXPECT_EQ(report.labels_wrong + report.ties, differ);
  }
}

TEST(RoundedOperands, WhatTheyGiveIsRight) {
  int64_t differ = 0;
  for (const LowPrecision& low : low_precisions)
    for (const double offset : {0.0, 4.0})
      for (const bool rounded_norms : {false, true}) {
        Solved<float> solved(std::min(low.n, 600), low.d, low.k, offset);
        solved.label = rounded_labels(solved, low, rounded_norms,
                                      [&](double v, int) { return rounded(v, low.bits, Rounding::nearest); });
        const LabelReport report = solved.check_labels(low.arithmetic());
        EXPECT_TRUE(report.ok()) << report.first;
        EXPECT_EQ(report.ties, report.labels_differ);
        differ += report.labels_differ;
      }
  EXPECT_GT(differ, 20) << "the test is to be hard";
}

TEST(RoundedOperands, WhatTheyGiveAtWorstIsRight) {
  // Every rounding in the direction that favours some centroids and hurts the others; the second of two near centroids
  // wins wherever the arithmetic lets it.
  int64_t differ = 0;
  for (const LowPrecision& low : low_precisions)
    for (const bool rounded_norms : {false, true})
      for (const double offset : {0.0, 4.0}) {
        Solved<float> solved(300, low.d, 16, offset);
        for (const auto& [even, odd, point] : {std::tuple{Rounding::away, Rounding::towards, Rounding::away},
                                               {Rounding::towards, Rounding::away, Rounding::towards},
                                               {Rounding::away, Rounding::towards, Rounding::towards}}) {
          solved.label =
              rounded_labels(solved, low, rounded_norms, [&, even = even, odd = odd, point = point](double v, int j) {
                return rounded(v, low.bits, j < 0 ? point : j % 2 ? odd : even);
              });
          const LabelReport report = solved.check_labels(low.arithmetic());
          EXPECT_TRUE(report.ok()) << report.first;
          differ += report.labels_differ;
        }
      }
  EXPECT_GT(differ, 1000) << "the test is to be hard";
}

TEST(RoundedOperands, TheBoundIsNotMuchWiderThanTheWorst) {
  // One feature, x = c = 1 + 2^-11 rounded to 1 by half, other centroids at increasing distance: what is accepted ends
  // within a few units of what half can confuse.
  const float x[] = {1};
  const int32_t second[] = {1};
  const Arithmetic halves{.input_roundoff = 0x1p-11};
  const float near[] = {1, 1 + 0x1p-10f}, far[] = {1, 1 + 0x1p-8f};
  EXPECT_EQ(check(x, 1, 1, near, 2, second, halves).ties, 1);
  EXPECT_EQ(check(x, 1, 1, near, 2, second, {}).labels_wrong, 1);
  EXPECT_EQ(check(x, 1, 1, far, 2, second, halves).labels_wrong, 1);
}

TEST(RoundedOperands, TheAccumulatorsRoundoffIsAnotherMatter) {
  const Solved<float> solved(10, 1500, 2);
  EXPECT_TRUE(solved.check_labels({.form = Form::expanded, .input_roundoff = 0x1p-11}).ok());
  try {
    solved.check_labels({.form = Form::expanded, .distance_roundoff = 0x1p-11});
    FAIL() << "there is no such bound";
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "that of operands rounded once as input_roundoff"));
  }
}

TEST(CentredPoints, LabelsMayErrByWhatTheMeanRoundsOff) {
  // A float near the mean of 1000 is a multiple of 2^-14: less 1000, the point lies as near to one as to the other.
  const float x[] = {1.4e-4f, 2000};
  const int32_t second[] = {1, 2};
  const float near[] = {0, 3e-4f, 2000}, far[] = {0, 0.01f, 2000};
  EXPECT_EQ(check(x, 2, 1, near, 3, second, {.centred = true}).ties, 1);
  EXPECT_EQ(check(x, 2, 1, near, 3, second, {}).labels_wrong, 1);
  EXPECT_EQ(check(x, 2, 1, far, 3, second, {.centred = true}).labels_wrong, 1);
  EXPECT_EQ(check(x, 2, 1, near, 3, second, {.form = Form::exact, .centred = true}).labels_wrong, 1);
}

// -------------------------------------------------------------------------------------------------------------- cosine

constexpr Metric cosine = Metric::cosine;

/// Labels by directions and products in the arithmetic of T.
template <class T>
std::vector<int32_t> cosine_labels(const Solved<T>& solved, Form form) {
  const int d = solved.d;
  const auto direction = [d](const T* row) {
    std::vector<T> unit(row, row + d);
    T sum = 0;
    for (const T v : unit) sum += v * v;
    const T length = std::sqrt(sum);
    for (T& v : unit) v /= length;
    return unit;
  };
  std::vector<int32_t> label(solved.n);
  for (int i = 0; i < solved.n; ++i) {
    const std::vector<T> x = direction(&solved.points[size_t(i) * d]);
    T least = std::numeric_limits<T>::infinity();
    for (int j = 0; j < solved.k; ++j) {
      const std::vector<T> c = direction(&solved.before[size_t(j) * d]);
      T distance = form == Form::expanded ? T(1) : T(0);
      for (int f = 0; f < d; ++f)
        form == Form::expanded ? distance -= x[f] * c[f] : distance += (x[f] - c[f]) * (x[f] - c[f]);
      if (distance < least) least = distance, label[i] = j;
    }
  }
  return label;
}

TEST(CosineLabels, CountDirectionsAlone) {
  // The nearest in space is the first, the nearest in direction the second.
  const float x[] = {1, 1}, centroids[] = {1, 0, 50, 60};
  const int32_t first[] = {0}, second[] = {1};
  EXPECT_TRUE(check(x, 1, 2, centroids, 2, first, {}).ok());
  EXPECT_TRUE(check(x, 1, 2, centroids, 2, second, {}, cosine).ok());
  const LabelReport report = check(x, 1, 2, centroids, 2, first, {}, cosine);
  EXPECT_EQ(report.labels_wrong, 1);
  EXPECT_TRUE(has(report.first, "row 0 has label 0, but 1 is right: 1 - cos 0.00410679353")) << report.first;
  EXPECT_TRUE(has(report.first, " instead of 0.292893219"));
}

TEST(CosineLabels, AcceptTheReferencesAndHonestArithmetic) {
  for (const double offset : {0.0, 10.0}) {
    Solved<float> solved(1000, 20, 50, offset, cosine);
    for (const Form form : {Form::difference, Form::expanded, Form::exact}) {
      const LabelReport own = solved.check_labels({.form = form});
      EXPECT_TRUE(own.ok()) << own.first;
      EXPECT_EQ(own.labels_differ, 0);
    }
    for (const Form form : {Form::difference, Form::expanded}) {
      solved.label = cosine_labels(solved, form);
      const LabelReport report = solved.check_labels({.form = form});
      EXPECT_TRUE(report.ok()) << report.first;
    }
  }
  Solved<double> doubles(1000, 20, 50, 10, cosine);
  doubles.label = cosine_labels(doubles, Form::expanded);
  EXPECT_TRUE(doubles.check_labels({.form = Form::expanded}).ok());
}

TEST(CosineLabels, CatchEuclideanOnesAndRandomOnes) {
  const Solved<float> by_direction(2000, 20, 50, 0, cosine);
  Solved<float> solved(2000, 20, 50);
  solved.metric = cosine;
  for (const Form form : {Form::difference, Form::expanded, Form::exact})
    EXPECT_GT(solved.check_labels({.form = form}).labels_wrong, 100);
  for (int i = 0; i < solved.n; ++i) solved.label[i] = (by_direction.label[i] + 1 + i % 49) % 50;
  EXPECT_GT(solved.check_labels({.form = Form::expanded, .input_roundoff = 0x1p-11}).labels_wrong, 1950);
}

TEST(CosineLabels, ExactMeansExactEvenWhereDoublesTie) {
  // Two directions 2^-20 and 2^-20 (1 + 2^-40) away: directions in doubles are too coarse to tell.
  const double x[] = {1, 0}, near[] = {1, 0x1p-20 * (1 + 0x1p-40), 1, 0x1p-20};
  const int32_t first[] = {0}, second[] = {1};
  EXPECT_TRUE(check(x, 1, 2, near, 2, second, {.form = Form::exact}, cosine).ok());
  EXPECT_EQ(check(x, 1, 2, near, 2, first, {.form = Form::exact}, cosine).labels_wrong, 1);
  // Parallel centroids tie exactly: the lowest index.
  const double parallel[] = {-1, 3, 3, 9, 1, 3};
  EXPECT_TRUE(check(x, 1, 2, parallel, 3, second, {.form = Form::exact}, cosine).ok());
  const int32_t third[] = {2};
  EXPECT_EQ(check(x, 1, 2, parallel, 3, third, {.form = Form::exact}, cosine).labels_wrong, 1);
  EXPECT_TRUE(check(x, 1, 2, parallel, 3, third, {}, cosine).ok()) << "a rounded distance may come out either way";
}

TEST(CosineLabels, LengthsOverTheWholeRangeOfDoubles) {
  const double x[] = {3e300, 1e300, 1e-300, 3e-300}, centroids[] = {1e-200, 3e-200, 3e200, 1e200};
  const int32_t right[] = {1, 0}, wrong[] = {0, 1};
  EXPECT_TRUE(check(x, 2, 2, centroids, 2, right, {}, cosine).ok());
  EXPECT_EQ(check(x, 2, 2, centroids, 2, wrong, {}, cosine).labels_wrong, 2);
}

TEST(CosineLabels, ZeroRowsHaveNoDirection) {
  const float points[] = {1, 2, 0, -0.0f, 0, 0}, centroids[] = {1, 0}, zero[] = {1, 0, 0, 0};
  const int32_t label[] = {0, 0, 0};
  EXPECT_EQ(find_zero_row(points, 3, 2), 1);
  EXPECT_EQ(find_zero_row(points, 1, 2), -1);
  try {
    check(points, 3, 2, centroids, 1, label, {}, cosine);
    FAIL() << "a zero row has no cosine";
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "row 1 is the zero vector"));
  }
  EXPECT_TRUE(check(points, 3, 2, centroids, 1, label, {}).ok());
  const LabelReport report = check(points, 1, 2, zero, 2, label, {}, cosine);
  EXPECT_EQ(report.labels_wrong, 1);
  EXPECT_TRUE(has(report.first, "centroid 1 is the zero vector, which has no direction: no label can be right"));
}

// ---------------------------------------------------------------------------------------------------------------- rows

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

TEST(SampleRows, AreThoseOfFloydsMethod) {
  for (const auto& [n, count, seed] : {std::tuple(1000, 999, 1), std::tuple(100000, 7000, 2), std::tuple(129, 1, 3)}) {
    Sequence random(uint64_t(seed), Stream::rows);
    std::set<int32_t> chosen;
    for (int last = n - count; last < n; ++last)
      if (!chosen.insert(int32_t(random.below(uint32_t(last) + 1))).second) chosen.insert(last);
    EXPECT_EQ(sample_rows(n, count, uint64_t(seed)), std::vector<int32_t>(chosen.begin(), chosen.end()));
  }
}

}  // namespace
}  // namespace ladder
