// Points, and a correct iteration on them, for tests of validation.
#pragma once
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/philox.hpp"
#include "validation/reference.hpp"
#include "validation/validate.hpp"

namespace ladder {

using Form = Arithmetic::Form;
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not say '" << part << "'";
}

/// points n x d and centroids k x d: vectors or arrays, which must outlive the problem.
template <class Points, class Centroids>
auto problem_of(const Points& points, const Centroids& centroids, int n, int d, int k,
                Metric metric = Metric::euclidean) {
  Problem<std::remove_cvref_t<decltype(*std::data(points))>> problem;
  problem.n = n, problem.d = d, problem.k = k;
  problem.metric = metric;
  problem.points = std::data(points);
  problem.centroids = std::data(centroids);
  return problem;
}

/// `count` standard normal deviates.
template <class T>
std::vector<T> deviates(size_t count, uint64_t seed = 17, double offset = 0) {
  std::vector<double> z(count);
  normals(seed, Stream::noise, 0, count, z.data());
  for (double& v : z) v += offset;
  return std::vector<T>(z.begin(), z.end());
}

/// Points around `offset` in every feature, the first k of them as centroids, and what a right iteration makes of them.
template <class T>
struct Solved {
  int n, d, k;
  std::vector<T> points, before, after;
  std::vector<int32_t> label;
  Metric metric;

  Solved(int n_, int d_, int k_, double offset = 0, Metric metric_ = Metric::euclidean)
      : n(n_), d(d_), k(k_), metric(metric_) {
    points = deviates<T>(size_t(n) * d, 17, offset);
    before.assign(points.begin(), points.begin() + k * d);
    label.resize(n);
    assign_reference(points.data(), n, d, before.data(), k, label.data(), metric);
    std::vector<double> means(before.begin(), before.end());
    update_reference(points.data(), n, d, label.data(), k, means.data(), metric);
    after.assign(means.begin(), means.end());
  }
  Problem<T> problem() const { return problem_of(points, before, n, d, k, metric); }
  LabelReport check_labels(const Arithmetic& arithmetic = {}, std::span<const int32_t> rows = {}) const {
    return ladder::check_labels(problem(), before.data(), label.data(), {arithmetic}, rows);
  }
  CentroidReport check_centroids(const Rules& rules = {}) const {
    return ladder::check_centroids(problem(), before.data(), after.data(), label.data(), rules);
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

}  // namespace ladder
