// Points near few directions: what projection and short rows are for. The same from every call with the same seed.
#pragma once
#include <random>
#include <vector>

namespace ladder::test {

/// Whose points these are.
struct LowRank {
  int rank = 6;         ///< directions, those of `along`
  double noise = 0.05;  ///< of every feature, beside what is along the directions
  double offset = 2;    ///< of every feature
  int groups = 1;       ///< along each direction, two deviations apart: loose, so that many iterations move some points
  unsigned along = 1;   ///< seed of the directions: points and centroids have the same ones
};

/// n x d, row by row.
template <class T>
std::vector<T> near_directions(int n, int d, unsigned seed, const LowRank& given = {}) {
  std::mt19937 random(seed), same(given.along);
  std::normal_distribution<double> one;
  std::vector<double> along(size_t(given.rank) * d), where(given.rank);
  for (double& value : along) value = one(same);
  one.reset();
  std::vector<T> points;
  points.reserve(size_t(n) * d);
  for (int i = 0; i < n; ++i) {
    for (double& value : where) value = one(random) + (given.groups > 1 ? 2 * double(random() % given.groups) : 0);
    for (int f = 0; f < d; ++f) {
      double value = given.noise * one(random) + given.offset;
      for (int r = 0; r < given.rank; ++r) value += where[r] * along[size_t(r) * d + f];
      points.push_back(T(value));
    }
  }
  return points;
}

}  // namespace ladder::test
