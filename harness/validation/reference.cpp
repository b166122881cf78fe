#include "validation/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/npy.hpp"
#include "base/parallel.hpp"

namespace ladder {
namespace {

constexpr int width = CentroidPanels::width;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Rows of points that go against one panel at once: their sums live in registers while the features go by.
constexpr int tile = 4;

/// What one panel is asked for.
enum class Term { squared_difference, product };

/// The sums over the features of `rows` points with one panel, in vectors of `lanes` doubles. Vector types, since
/// compilers turn the plain loops that they stand for into shuffles.
template <Term term, int rows, int lanes>
[[gnu::always_inline]] inline void tile_sums(const double* points, int d, const double* panel, double* out) {
  typedef double Lanes __attribute__((vector_size(lanes * sizeof(double)), aligned(alignof(double)), may_alias));
  constexpr int parts = width / lanes;
  Lanes sum[rows][parts] = {};
  for (int f = 0; f < d; ++f)
    for (int part = 0; part < parts; ++part) {
      const Lanes candidates = *reinterpret_cast<const Lanes*>(panel + size_t(f) * width + part * lanes);
      for (int t = 0; t < rows; ++t) {
        const double x = points[size_t(t) * d + f];
        if constexpr (term == Term::product) {
          sum[t][part] += x * candidates;
        } else {
          const Lanes difference = x - candidates;
          sum[t][part] += difference * difference;
        }
      }
    }
  for (int t = 0; t < rows; ++t)
    for (int part = 0; part < parts; ++part) *reinterpret_cast<Lanes*>(out + t * width + part * lanes) = sum[t][part];
}
template <Term term, int lanes>
[[gnu::always_inline]] inline void sums_by(const double* points, int count, int d, const double* panel, double* out) {
  int i = 0;
  for (; i + tile <= count; i += tile) tile_sums<term, tile, lanes>(points + size_t(i) * d, d, panel, out + i * width);
  for (; i < count; ++i) tile_sums<term, 1, lanes>(points + size_t(i) * d, d, panel, out + i * width);
}
template <int lanes>
[[gnu::always_inline]] inline void panel_sums_by(Term term, const double* points, int count, int d, const double* panel,
                                                 double* out) {
  if (term == Term::product)
    sums_by<Term::product, lanes>(points, count, d, panel, out);
  else
    sums_by<Term::squared_difference, lanes>(points, count, d, panel, out);
}

// Vectors of 2, 4 or 8 doubles: the processor's own where the build knows it, else chosen when the program is loaded
// (sanitizers run before such a choice can be made). Every sum belongs to one candidate and runs over the features in
// order, so all give the same bits (this file is compiled with -ffp-contract=off).
#if defined(__AVX512F__)
constexpr int native_lanes = 8;
#elif defined(__AVX__)
constexpr int native_lanes = 4;
#else
constexpr int native_lanes = 2;
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target("arch=x86-64-v4"))) void panel_sums(Term term, const double* points, int count, int d,
                                                          const double* panel, double* out) {
  panel_sums_by<8>(term, points, count, d, panel, out);
}
__attribute__((target("arch=x86-64-v3"))) void panel_sums(Term term, const double* points, int count, int d,
                                                          const double* panel, double* out) {
  panel_sums_by<4>(term, points, count, d, panel, out);
}
__attribute__((target("default")))
#endif
#endif
void panel_sums(Term term, const double* points, int count, int d, const double* panel, double* out) {
  panel_sums_by<native_lanes>(term, points, count, d, panel, out);
}

/// value += x, magnitude += |x| for `count` rows, one after the other, in one pass over the sums.
template <int count, class T>
void add_rows(const T* const* x, int d, double* __restrict value, double* __restrict magnitude) {
  for (int f = 0; f < d; ++f) {
    double sum = value[f], size = magnitude[f];
    for (int i = 0; i < count; ++i) {
      sum += double(x[i][f]);
      size += std::fabs(double(x[i][f]));
    }
    value[f] = sum;
    magnitude[f] = size;
  }
}

/// Asks for a row that will be read soon: the rows of a cluster are scattered, and no processor guesses where.
template <class T>
void fetch_row(const T* x, int d) {
  constexpr int line = 64 / sizeof(T);
  for (int f = 0; f < d; f += line) __builtin_prefetch(x + f);
}

/// A squared distance as eight sums that do not wait for each other, added up in pairs.
template <class T, class C>
double distance_in_lanes(const T* x, const C* c, int d) {
  constexpr int lanes = 8;
  if (d < lanes) return squared_distance(x, c, d);
  double sum[lanes] = {};
  int f = 0;
  for (; f + lanes <= d; f += lanes)
    for (int lane = 0; lane < lanes; ++lane) {
      const double difference = double(x[f + lane]) - double(c[f + lane]);
      sum[lane] += difference * difference;
    }
  for (int lane = 0; f < d; ++f, ++lane) {
    const double difference = double(x[f]) - double(c[f]);
    sum[lane] += difference * difference;
  }
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return sum[0];
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------------
// rows and distances

template <class T>
bool as_seen(const T* row, int d, Metric metric, double* out) {
  if (metric == Metric::euclidean) {
    std::copy_n(row, d, out);
    return true;
  }
  double largest = 0;
  for (int f = 0; f < d; ++f) largest = std::max(largest, std::fabs(double(row[f])));
  if (largest == 0) {
    std::fill_n(out, d, 0.0);
    return false;
  }
  // By a power of two, exactly, to about 1: no square of a value that matters is out of range.
  const int exponent = std::ilogb(largest);
  double sum = 0;
  for (int f = 0; f < d; ++f) {
    out[f] = std::scalbn(double(row[f]), -exponent);
    sum += out[f] * out[f];
  }
  const double length = std::sqrt(sum);
  for (int f = 0; f < d; ++f) out[f] /= length;
  return true;
}
template bool as_seen(const float*, int, Metric, double*);
template bool as_seen(const double*, int, Metric, double*);

template <class T>
void refuse_zero_rows(const Problem<T>& problem) {
  if (problem.metric != Metric::cosine) return;
  if (const int64_t row = find_zero_row(problem.points, problem.n, problem.d); row >= 0) refuse_zero_row(row);
}
template void refuse_zero_rows(const Problem<float>&);
template void refuse_zero_rows(const Problem<double>&);

template <class C>
CentroidPanels::CentroidPanels(const C* centroids, int k, int d, Metric metric)
    : k_(k), d_(d), panels_(int(pieces(k, width))), values_(size_t(panels_) * d * width, infinity) {
  const size_t grain = std::max<size_t>(1, pass_grain / (size_t(d) * width));
  parallel_pieces(size_t(panels_), grain, [&](size_t, size_t begin, size_t end) {
    std::vector<double> row(d);
    for (int j = int(begin) * width; j < std::min(k, int(end) * width); ++j) {
      as_seen(centroids + size_t(j) * d, d, metric, row.data());
      for (int f = 0; f < d; ++f) values_[(size_t(j / width) * d + f) * width + j % width] = row[f];
    }
  });
}
template CentroidPanels::CentroidPanels(const float*, int, int, Metric);
template CentroidPanels::CentroidPanels(const double*, int, int, Metric);

void CentroidPanels::distances(const double* points, int count, int panel, double* out) const {
  panel_sums(Term::squared_difference, points, count, d_, &values_[size_t(panel) * d_ * width], out);
}
void CentroidPanels::products(const double* points, int count, int panel, double* out) const {
  panel_sums(Term::product, points, count, d_, &values_[size_t(panel) * d_ * width], out);
}

void CentroidPanels::nearest(const double* points, int count, Nearest* out) const {
  std::fill(out, out + count, Nearest{0, infinity, infinity});
  std::vector<double> distance(size_t(count) * width);
  for (int panel = 0; panel < panels_; ++panel) {
    distances(points, count, panel, distance.data());
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < width; ++j) {
        const double current = distance[size_t(i) * width + j];
        if (current < out[i].distance)
          out[i] = {panel * width + j, current, out[i].distance};
        else if (current < out[i].second)
          out[i].second = current;
      }
  }
}

template <class T, class C>
void assign_reference(const T* points, int n, int d, const C* centroids, int k, int32_t* label, Metric metric) {
  const CentroidPanels panels(centroids, k, d, metric);
  constexpr size_t rows_at_once = 64;  // their doubles stay in cache while all panels go by
  parallel_pieces(size_t(n), rows_at_once, [&](size_t, size_t begin, size_t end) {
    std::vector<double> x((end - begin) * d);
    for (size_t i = begin; i < end; ++i) as_seen(points + i * d, d, metric, &x[(i - begin) * d]);
    CentroidPanels::Nearest best[rows_at_once];
    panels.nearest(x.data(), int(end - begin), best);
    for (size_t i = begin; i < end; ++i) label[i] = best[i - begin].label;
  });
}
template void assign_reference(const float*, int, int, const float*, int, int32_t*, Metric);
template void assign_reference(const float*, int, int, const double*, int, int32_t*, Metric);
template void assign_reference(const double*, int, int, const double*, int, int32_t*, Metric);

template <class T>
std::vector<int32_t> lowest_equals(const T* centroids, int k, int d) {
  const auto row = [&](int j) { return centroids + size_t(j) * d; };
  std::vector<int32_t> order(k), lowest(k);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    for (int f = 0; f < d; ++f)
      if (row(a)[f] != row(b)[f]) return row(a)[f] < row(b)[f];
    return a < b;
  });
  for (int at = 0; at < k; ++at) {
    const int j = order[at];
    const bool repeats = at > 0 && std::equal(row(j), row(j) + d, row(order[at - 1]));
    lowest[j] = repeats ? lowest[order[at - 1]] : j;
  }
  return lowest;
}
template std::vector<int32_t> lowest_equals(const float*, int, int);
template std::vector<int32_t> lowest_equals(const double*, int, int);

// --------------------------------------------------------------------------------------------------------------- means

Members members(const int32_t* label, int n, int k) {
  // A counting sort in pieces of rows: each counts its labels, then knows where its rows go. Few enough pieces that
  // their counts are small beside the rows.
  const size_t grain = std::max<size_t>({16384, size_t(4) * k, pieces(size_t(n), 256)});
  const size_t count = pieces(size_t(n), grain);
  std::vector<int32_t> next(count * k);
  std::vector<int32_t> stray(count, -1);
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (label[i] >= 0 && label[i] < k)
        ++next[piece * k + label[i]];
      else if (stray[piece] < 0)
        stray[piece] = int32_t(i);
    }
  });
  for (const int32_t row : stray)
    if (row >= 0)
      throw Error("row " + std::to_string(row) + " has label " + std::to_string(label[row]) + ", not one of 0 to " +
                  std::to_string(k - 1));
  Members result{std::vector<int32_t>(n), std::vector<int32_t>(size_t(k) + 1)};
  int32_t at = 0;
  for (int j = 0; j < k; ++j) {
    result.begin[j] = at;
    for (size_t piece = 0; piece < count; ++piece) at += std::exchange(next[piece * k + j], at);
  }
  result.begin[k] = at;
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) result.rows[next[piece * k + label[i]]++] = int32_t(i);
  });
  return result;
}

template <class T>
ClusterSums cluster_sums(const T* points, int d, const Members& clusters, Metric metric) {
  // A cluster's rows are summed in blocks of 1024, and the blocks in their order: enough tasks for all cores even for
  // one cluster, and no array of k x d sums per thread.
  constexpr int block_rows = 1024, together = 4, ahead = 8;
  struct Block {
    int cluster, begin, end;
  };
  const int k = int(clusters.begin.size()) - 1;
  std::vector<Block> blocks;
  std::vector<size_t> first_block(size_t(k) + 1);
  for (int j = 0; j < k; ++j) {
    for (int begin = clusters.begin[j], end; begin < clusters.begin[j + 1]; begin = end) {
      end = std::min(begin + block_rows, clusters.begin[j + 1]);
      blocks.push_back({j, begin, end});
    }
    first_block[j + 1] = blocks.size();
  }

  // The first block of a cluster adds to the result itself, which most clusters have no more of; the others to `later`.
  ClusterSums sums{std::vector<double>(size_t(k) * d), std::vector<double>(size_t(k) * d)};
  std::vector<size_t> place(blocks.size());
  size_t places = 0;
  for (size_t b = 0; b < blocks.size(); ++b)
    if (first_block[blocks[b].cluster] != b) place[b] = 2 * d * places++;
  std::vector<double> later(2 * d * places);
  parallel_for(0, blocks.size(), [&](size_t b) {
    const auto [cluster, begin, end] = blocks[b];
    const bool is_first = first_block[cluster] == b;
    double* value = is_first ? &sums.value[size_t(cluster) * d] : &later[place[b]];
    double* magnitude = is_first ? &sums.magnitude[size_t(cluster) * d] : value + d;
    const auto row = [&](int i) { return points + size_t(clusters.rows[i]) * d; };
    int i = begin;
    if (metric == Metric::cosine) {
      std::vector<double> seen(d);
      const double* x = seen.data();
      for (; i < end; ++i) {
        as_seen(row(i), d, metric, seen.data());
        add_rows<1>(&x, d, value, magnitude);
      }
    }
    for (; i + together <= end; i += together) {
      const T* x[together];
      for (int t = 0; t < together; ++t) {
        x[t] = row(i + t);
        if (i + t + ahead < end) fetch_row(row(i + t + ahead), d);
      }
      add_rows<together>(x, d, value, magnitude);
    }
    for (; i < end; ++i) {
      const T* x = row(i);
      add_rows<1>(&x, d, value, magnitude);
    }
  });
  parallel_for(0, size_t(k), [&](size_t j) {
    for (size_t b = first_block[j] + 1; b < first_block[j + 1]; ++b)
      for (int f = 0; f < d; ++f) {
        sums.value[j * d + f] += later[place[b] + f];
        sums.magnitude[j * d + f] += later[place[b] + d + f];
      }
  });
  return sums;
}
template ClusterSums cluster_sums(const float*, int, const Members&, Metric);
template ClusterSums cluster_sums(const double*, int, const Members&, Metric);

template <class T>
void update_reference(const T* points, int n, int d, const int32_t* label, int k, double* centroids, Metric metric) {
  const Members clusters = members(label, n, k);
  const ClusterSums sums = cluster_sums(points, d, clusters, metric);
  for (int j = 0; j < k; ++j) {
    const double* sum = &sums.value[size_t(j) * d];
    double* centroid = centroids + size_t(j) * d;
    if (clusters.count(j) == 0) continue;
    if (metric == Metric::euclidean)
      for (int f = 0; f < d; ++f) centroid[f] = sum[f] / clusters.count(j);
    else if (std::any_of(sum, sum + d, [](double s) { return s != 0; }))
      as_seen(sum, d, metric, centroid);
  }
}
template void update_reference(const float*, int, int, const int32_t*, int, double*, Metric);
template void update_reference(const double*, int, int, const int32_t*, int, double*, Metric);

template <class T, class C>
double inertia(const T* points, int n, int d, const C* centroids, int k, const int32_t* label, Metric metric) {
  std::vector<double> directions;
  if (metric == Metric::cosine) {
    directions.resize(size_t(k) * d);
    for (int j = 0; j < k; ++j) as_seen(centroids + size_t(j) * d, d, metric, &directions[size_t(j) * d]);
  }
  constexpr size_t grain = 4096;
  std::vector<double> part(pieces(size_t(n), grain));
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    std::vector<double> seen(metric == Metric::cosine ? d : 0);
    for (size_t i = begin; i < end; ++i) {
      const size_t j = size_t(label[i]);
      if (metric == Metric::euclidean) {
        part[piece] += distance_in_lanes(points + i * d, centroids + j * d, d);
      } else {
        as_seen(points + i * d, d, metric, seen.data());
        part[piece] += distance_in_lanes(seen.data(), &directions[j * d], d) / 2;
      }
    }
  });
  double sum = 0;
  for (const double p : part) sum += p;
  return sum;
}
template double inertia(const float*, int, int, const float*, int, const int32_t*, Metric);
template double inertia(const float*, int, int, const double*, int, const int32_t*, Metric);
template double inertia(const double*, int, int, const double*, int, const int32_t*, Metric);

// ----------------------------------------------------------------------------------------------------- the whole solve

template <class T>
LloydResult lloyd_reference(const Problem<T>& problem, const Stop& stop) {
  if (!problem.points)
    throw Error("the reference solves dense points and was given none: expand the sparse rows first");
  refuse_zero_rows(problem);
  const int n = problem.n, k = problem.k, d = problem.d;
  const auto metric = problem.metric;
  LloydResult result;
  result.label.assign(n, -1);
  result.centroids.assign(problem.centroids, problem.centroids + size_t(k) * d);
  std::vector<int32_t> label(n);
  do {
    assign_reference(problem.points, n, d, result.centroids.data(), k, label.data(), metric);
    int64_t changed = 0;
    for (int i = 0; i < n; ++i) changed += label[i] != result.label[i];
    result.label = label;
    result.reassigned.push_back(changed);
    result.inertia.push_back(inertia(problem.points, n, d, result.centroids.data(), k, label.data(), metric));
    update_reference(problem.points, n, d, label.data(), k, result.centroids.data(), metric);
  } while (!stop.reached(++result.iterations, result.reassigned.back(), n));
  return result;
}
template LloydResult lloyd_reference(const Problem<float>&, const Stop&);
template LloydResult lloyd_reference(const Problem<double>&, const Stop&);

}  // namespace ladder
