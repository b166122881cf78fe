#include "judge/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "base/parallel.hpp"

namespace ladder {
namespace {

constexpr int width = CentroidPanels::width;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Four points against one panel: 4 x 8 sums that live in registers while the features go by.
constexpr int tile = 4;

// Compiled for three generations of x86 and chosen when the program is loaded: vectors of 2, 4 or 8 doubles. Every sum
// belongs to one candidate and runs over the features in order, so all three give the same bits (this file is compiled
// with -ffp-contract=off). Sanitizers run before such a choice can be made.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
void panel_distances(const double* points, int count, int d, const double* panel, double* out) {
  int i = 0;
  for (; i + tile <= count; i += tile) {
    double sum[tile][width] = {};
    for (int f = 0; f < d; ++f)
      for (int t = 0; t < tile; ++t) {
        const double x = points[size_t(i + t) * d + f];
        for (int j = 0; j < width; ++j) {
          const double difference = x - panel[size_t(f) * width + j];
          sum[t][j] += difference * difference;
        }
      }
    for (int t = 0; t < tile; ++t)
      for (int j = 0; j < width; ++j) out[(i + t) * width + j] = sum[t][j];
  }
  for (; i < count; ++i) {
    double sum[width] = {};
    for (int f = 0; f < d; ++f)
      for (int j = 0; j < width; ++j) {
        const double difference = points[size_t(i) * d + f] - panel[size_t(f) * width + j];
        sum[j] += difference * difference;
      }
    for (int j = 0; j < width; ++j) out[i * width + j] = sum[j];
  }
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------
// distances

template <class C>
CentroidPanels::CentroidPanels(const C* centroids, int k, int d)
    : k_(k), d_(d), panels_(int(pieces(k, width))), values_(size_t(panels_) * d * width, infinity) {
  for (int j = 0; j < k; ++j)
    for (int f = 0; f < d; ++f)
      values_[(size_t(j / width) * d + f) * width + j % width] = double(centroids[size_t(j) * d + f]);
}
template CentroidPanels::CentroidPanels(const float*, int, int);
template CentroidPanels::CentroidPanels(const double*, int, int);

void CentroidPanels::distances(const double* points, int count, int panel, double* out) const {
  panel_distances(points, count, d_, &values_[size_t(panel) * d_ * width], out);
}

void CentroidPanels::nearest(const double* points, int count, Nearest* out) const {
  std::fill(out, out + count, Nearest{0, infinity});
  std::vector<double> distance(size_t(count) * width);
  for (int panel = 0; panel < panels_; ++panel) {
    distances(points, count, panel, distance.data());
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < width; ++j)
        if (distance[size_t(i) * width + j] < out[i].distance)
          out[i] = {panel * width + j, distance[size_t(i) * width + j]};
  }
}

template <class T, class C>
void assign_reference(const T* points, int n, int d, const C* centroids, int k, int32_t* label) {
  const CentroidPanels panels(centroids, k, d);
  constexpr size_t rows_at_once = 64;  // their doubles stay in cache while all panels go by
  parallel_pieces(size_t(n), rows_at_once, [&](size_t, size_t begin, size_t end) {
    const std::vector<double> x(points + begin * d, points + end * d);
    CentroidPanels::Nearest best[rows_at_once];
    panels.nearest(x.data(), int(end - begin), best);
    for (size_t i = begin; i < end; ++i) label[i] = best[i - begin].label;
  });
}
template void assign_reference(const float*, int, int, const float*, int, int32_t*);
template void assign_reference(const float*, int, int, const double*, int, int32_t*);
template void assign_reference(const double*, int, int, const double*, int, int32_t*);

// ----------------------------------------------------------------------------------------------------------------
// means

Members members(const int32_t* label, int n, int k) {
  Members result{std::vector<int32_t>(n), std::vector<int>(size_t(k) + 1)};
  for (int i = 0; i < n; ++i) {
    if (label[i] < 0 || label[i] >= k)
      throw Error("row " + std::to_string(i) + " has label " + std::to_string(label[i]) + ", not one of 0 to " +
                  std::to_string(k - 1));
    ++result.begin[label[i] + 1];
  }
  for (int j = 0; j < k; ++j) result.begin[j + 1] += result.begin[j];
  std::vector<int> next(result.begin.begin(), result.begin.end() - 1);
  for (int i = 0; i < n; ++i) result.rows[next[label[i]]++] = i;
  return result;
}

template <class T>
Sums sums_of(const T* points, int d, const Members& clusters, bool with_magnitude) {
  // A cluster's rows are summed in blocks of 1024, and the blocks in their order: enough tasks for all cores even for
  // one cluster, and no array of k x d sums per thread.
  constexpr int block_rows = 1024;
  struct Block {
    int cluster, begin, end;
  };
  const int k = int(clusters.begin.size()) - 1;
  std::vector<Block> blocks;
  for (int j = 0; j < k; ++j)
    for (int begin = clusters.begin[j], end; begin < clusters.begin[j + 1]; begin = end) {
      end = std::min(begin + block_rows, clusters.begin[j + 1]);
      blocks.push_back({j, begin, end});
    }

  std::vector<double> value(blocks.size() * d), magnitude(with_magnitude ? blocks.size() * d : 0);
  parallel_for(0, blocks.size(), [&](size_t b) {
    double* sum = &value[b * d];
    double* magnitude_sum = with_magnitude ? &magnitude[b * d] : nullptr;
    for (int i = blocks[b].begin; i < blocks[b].end; ++i) {
      const T* x = points + size_t(clusters.rows[i]) * d;
      for (int f = 0; f < d; ++f) sum[f] += double(x[f]);
      if (with_magnitude)
        for (int f = 0; f < d; ++f) magnitude_sum[f] += std::fabs(double(x[f]));
    }
  });

  Sums sums{std::vector<double>(size_t(k) * d), std::vector<double>(with_magnitude ? size_t(k) * d : 0)};
  for (size_t b = 0; b < blocks.size(); ++b)
    for (int f = 0; f < d; ++f) {
      const size_t at = size_t(blocks[b].cluster) * d + f;
      sums.value[at] += value[b * d + f];
      if (with_magnitude) sums.magnitude[at] += magnitude[b * d + f];
    }
  return sums;
}
template Sums sums_of(const float*, int, const Members&, bool);
template Sums sums_of(const double*, int, const Members&, bool);

template <class T>
void update_reference(const T* points, int n, int d, const int32_t* label, int k, double* centroids) {
  const Members clusters = members(label, n, k);
  const Sums sums = sums_of(points, d, clusters, false);
  for (int j = 0; j < k; ++j)
    if (const int count = clusters.begin[j + 1] - clusters.begin[j]; count > 0)
      for (int f = 0; f < d; ++f) centroids[size_t(j) * d + f] = sums.value[size_t(j) * d + f] / count;
}
template void update_reference(const float*, int, int, const int32_t*, int, double*);
template void update_reference(const double*, int, int, const int32_t*, int, double*);

template <class T, class C>
double inertia(const T* points, int n, int d, const C* centroids, const int32_t* label) {
  constexpr size_t grain = 4096;
  std::vector<double> part(pieces(size_t(n), grain));
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      part[piece] += squared_distance(points + i * d, centroids + size_t(label[i]) * d, d);
  });
  double sum = 0;
  for (const double p : part) sum += p;
  return sum;
}
template double inertia(const float*, int, int, const float*, const int32_t*);
template double inertia(const float*, int, int, const double*, const int32_t*);
template double inertia(const double*, int, int, const double*, const int32_t*);

// ------------------------------------------------------------------------------------------------------- the whole
// solve

template <class T>
LloydResult lloyd_reference(const Problem<T>& problem, const Stop& stop) {
  if (!problem.points)
    throw Error("the reference solves dense points and was given none: expand the sparse rows first");
  const auto [n, k, d] = std::tuple(problem.n, problem.k, problem.d);
  LloydResult result;
  result.label.assign(n, -1);
  result.centroids.assign(problem.centroids, problem.centroids + size_t(k) * d);
  std::vector<int32_t> label(n);
  do {
    assign_reference(problem.points, n, d, result.centroids.data(), k, label.data());
    int64_t changed = 0;
    for (int i = 0; i < n; ++i) changed += label[i] != result.label[i];
    result.label = label;
    result.reassigned.push_back(changed);
    result.inertia.push_back(inertia(problem.points, n, d, result.centroids.data(), label.data()));
    update_reference(problem.points, n, d, label.data(), k, result.centroids.data());
  } while (!stop.reached(++result.iterations, result.reassigned.back(), n));
  return result;
}
template LloydResult lloyd_reference(const Problem<float>&, const Stop&);
template LloydResult lloyd_reference(const Problem<double>&, const Stop&);

}  // namespace ladder
