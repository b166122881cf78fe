#include "workloads/special_points.hpp"

#include <algorithm>

#include "base/npy.hpp"
#include "base/philox.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

/// Values i / 1024 in (0, 1], which fp16 holds.
template <class T>
std::vector<T> draw(size_t count, uint64_t seed) {
  Sequence random(seed, Stream::noise);
  std::vector<T> values(count);
  for (T& value : values) value = T(1 + random.below(1024)) / 1024;
  return values;
}

template <class T>
struct Arrays {
  std::vector<T> points, centroids;
};

template <class T>
Arrays<T> arrays_of(const SpecialPoints& s) {
  const auto n = size_t(s.n), k = size_t(s.k), d = size_t(s.d);
  Arrays<T> a{draw<T>(n * d, 1), {}};
  if (s.name.starts_with("special_equal_centroids")) {
    // Each of K / 2 centroids is there twice. The twins come in another order, so that other threads, tiles and chunks
    // have them; their distances are equal to the last bit, and the lower index is right.
    const size_t twins = k / 2;
    a.centroids.assign(a.points.begin(), a.points.begin() + std::ptrdiff_t(twins * d));
    for (size_t j = 0; j < twins; ++j)
      a.centroids.insert(a.centroids.end(), &a.points[j * 31 % twins * d], &a.points[j * 31 % twins * d] + d);
  } else if (s.name == "special_equal_points") {
    std::fill(a.points.begin(), a.points.end(), T(0.125));
    a.centroids.assign(k * d, T(0.125));
  } else {
    // Rows far apart, so that a part of the points alone does not leave the same centroids.
    for (size_t j = 0; j < k; ++j) {
      const size_t row = j * n / k;
      a.centroids.insert(a.centroids.end(), &a.points[row * d], &a.points[row * d] + d);
    }
  }
  if (s.name == "special_empty_clusters") {
    // No point is near these, by distance or by direction: they are empty, and stay where they are.
    for (const size_t j : {size_t(1), k - 1}) std::fill_n(a.centroids.begin() + std::ptrdiff_t(j * d), d, T(-1000));
  } else if (s.name == "special_large_values" || s.name == "special_small_values") {
    // Powers of two: every distance is scaled exactly, and neither squares nor their sums leave the range of a float.
    const T scale = s.name == "special_large_values" ? T(0x1p40) : T(0x1p-40);
    for (T& value : a.points) value *= scale;
    for (T& value : a.centroids) value *= scale;
  } else if (s.name == "special_outlier") {
    std::fill_n(a.points.end() - std::ptrdiff_t(d), d, T(4096));
  } else if (s.name == "special_far_from_origin") {
    // Squares of 1e8 take all the digits of a float: |x|^2 - 2 x c + |c|^2 has none left for the distance.
    for (T& value : a.points) value += T(10000);
    for (T& value : a.centroids) value += T(10000);
  }
  return a;
}

template <class T>
void write(const SpecialPoints& s, const fs::path& points, const fs::path& centroids) {
  const Arrays<T> a = arrays_of<T>(s);
  write_npy(points.string(), a.points.data(), {size_t(s.n), size_t(s.d)});
  write_npy(centroids.string(), a.centroids.data(), {size_t(s.k), size_t(s.d)});
}

}  // namespace

std::vector<SpecialPoints> all_special_points() {
  return {
      {"special_equal_centroids", "each centroid is there twice: the lower index is right", "f32", 225, 3, 150},
      {"special_equal_centroids_f64", "each centroid is there twice, in double", "f64", 97, 2, 64},
      {"special_equal_points", "all points and centroids are equal: every label is 0", "f32", 129, 3, 7},
      {"special_empty_clusters", "two clusters without points keep their centroids", "f32", 129, 3, 7},
      {"special_far_from_origin", "coordinates are 10,000 and a little: rounding hides the differences", "f32", 193, 5,
       8},
      {"special_large_values", "coordinates of about 2^40", "f32", 193, 5, 8},
      {"special_small_values", "coordinates of about 2^-40", "f32", 193, 5, 8},
      {"special_outlier", "one point is 4,096 away from all others", "f32", 193, 5, 8},
      {"special_one_feature", "D = 1", "f32", 257, 1, 5},
      {"special_one_cluster", "K = 1", "f32", 33, 2, 1},
      {"special_odd_features", "D = 37 and K = 13 divide into no vector, warp or tile", "f32", 131, 37, 13},
      {"special_odd_clusters", "K = 67: the last tile of centroids is not full", "f32", 97, 7, 67},
      {"special_as_many_clusters", "K = N: each point is a centroid", "f32", 37, 3, 37},
      {"special_rows_70000", "N = 70,000: more than 65,536 rows", "f32", 70000, 2, 4},
  };
}

Workload special_workload(const SpecialPoints& s, const fs::path& folder) {
  const fs::path points = folder / (s.name + ".npy"), centroids = folder / (s.name + ".centroids.npy");
  if (s.type == "f32")
    write<float>(s, points, centroids);
  else
    write<double>(s, points, centroids);
  Stop two_steps;
  two_steps.rule = Stop::Rule::fixed;
  two_steps.iterations = 2;
  Workload w = own_workload(points, s.k, centroids, s.type, two_steps, 1);
  w.title = s.kind;
  return w;
}

}  // namespace ladder
