#include "validation/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "validation_helper.hpp"

namespace ladder {
namespace {

TEST(Reference, AssignsByHand) {
  const std::vector<float> points{0, 0, 3, 4, 9, 9, 5, 5}, centroids{0, 0, 10, 10, 0, 0};
  std::vector<int32_t> label(4, -1);
  assign_reference(points.data(), 4, 2, centroids.data(), 3, label.data());
  EXPECT_EQ(label, (std::vector<int32_t>{0, 0, 1, 0})) << "the last point is as far from both: the lowest index";
  EXPECT_DOUBLE_EQ(inertia(points.data(), 4, 2, centroids.data(), 3, label.data()), 0 + 25 + 2 + 50);
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
    inertias.push_back(
        inertia(solved.points.data(), solved.n, solved.d, solved.after.data(), solved.k, solved.label.data()));
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

TEST(Reference, SumsOfManyBlocksAreThoseOfOneByOne) {
  // 5000 points in 3 clusters: one of them has several blocks of rows, another but a few, the third none.
  const Solved<float> solved(5000, 9, 3);
  std::vector<int32_t> label(5000);
  for (int i = 0; i < 5000; ++i) label[i] = i % 701 == 0 ? 2 : 0;
  const ClusterSums sums = cluster_sums(solved.points.data(), 9, members(label.data(), 5000, 3));
  std::vector<double> value(27), magnitude(27);
  for (int i = 0; i < 5000; ++i)
    for (int f = 0; f < 9; ++f) {
      value[label[i] * 9 + f] += solved.points[i * 9 + f];
      magnitude[label[i] * 9 + f] += std::fabs(solved.points[i * 9 + f]);
    }
  for (int e = 0; e < 27; ++e) {
    EXPECT_NEAR(sums.value[e], value[e], 1e-11);
    EXPECT_NEAR(sums.magnitude[e], magnitude[e], 1e-11);
  }
}

TEST(Reference, MembersAreInOrderWhateverThePieces) {
  for (const int n : {1, 16383, 16384, 16385, 100000}) {
    std::vector<int32_t> label(n);
    for (int i = 0; i < n; ++i) label[i] = int32_t(uint32_t(i) * 2654435761u >> 16) % 7;
    const Members clusters = members(label.data(), n, 7);
    for (int j = 0; j < 7; ++j)
      for (int at = clusters.begin[j]; at < clusters.begin[j + 1]; ++at) {
        ASSERT_EQ(label[clusters.rows[at]], j);
        if (at > clusters.begin[j]) {
          ASSERT_LT(clusters.rows[at - 1], clusters.rows[at]);
        }
      }
    EXPECT_EQ(clusters.begin[7], n);
    label[n / 2] = 7;
    label[n - 1] = n > 1 ? -3 : 7;
    try {
      members(label.data(), n, 7);
      FAIL() << "7 is no label";
    } catch (const Error& error) {
      EXPECT_TRUE(has(error.what(), "row " + std::to_string(n / 2) + " has label 7, not one of 0 to 6"));
    }
  }
}

TEST(Reference, CosineIsEuclideanOnDirections) {
  const int n = 2000, d = 11, k = 8;
  const std::vector<double> points = deviates<double>(n * d, 5, 0.5);
  std::vector<double> directions(points.size());
  for (int i = 0; i < n; ++i) as_seen(&points[i * d], d, Metric::cosine, &directions[i * d]);
  for (int f = 0; f < d; ++f) EXPECT_NEAR(directions[f] * points[0], points[f] * directions[0], 1e-14);
  const Problem<double> by_direction = problem_of(points, points, n, d, k, Metric::cosine);
  const LloydResult cosine = lloyd_reference(by_direction, {});
  EXPECT_GT(cosine.iterations, 3);
  for (int j = 0; j < k; ++j) {
    double square = 0;
    for (int f = 0; f < d; ++f) square += cosine.centroids[j * d + f] * cosine.centroids[j * d + f];
    EXPECT_NEAR(square, 1, 1e-14);
  }
  // With unit vectors the nearest by angle is the nearest in space; 1 - cos is half the squared distance.
  std::vector<int32_t> label(n);
  assign_reference(directions.data(), n, d, cosine.centroids.data(), k, label.data());
  EXPECT_EQ(label, cosine.label);
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    double product = 0;
    for (int f = 0; f < d; ++f) product += directions[i * d + f] * cosine.centroids[label[i] * d + f];
    sum += 1 - product;
  }
  EXPECT_NEAR(cosine.inertia.back(), sum, 1e-9 * sum);
  for (size_t i = 1; i < cosine.inertia.size(); ++i) EXPECT_LE(cosine.inertia[i], cosine.inertia[i - 1]);
  // Lengths make no difference.
  std::vector<double> longer = points;
  for (int i = 0; i < n; ++i)
    for (int f = 0; f < d; ++f) longer[i * d + f] *= 1 + i % 5;
  EXPECT_EQ(lloyd_reference(problem_of(longer, longer, n, d, k, Metric::cosine), {}).label, cosine.label);
  longer.assign(size_t(n) * d, 0);
  EXPECT_THROW(lloyd_reference(problem_of(longer, points, n, d, k, Metric::cosine), {}), Error);
}

}  // namespace
}  // namespace ladder
