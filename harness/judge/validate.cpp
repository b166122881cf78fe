#include "judge/validate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/parallel.hpp"
#include "base/philox.hpp"
#include "judge/reference.hpp"

namespace ladder {
namespace {

constexpr double reference_roundoff = 0x1p-53;

template <class T>
constexpr double roundoff = double(std::numeric_limits<T>::epsilon()) / 2;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// What m roundings in a row can add up to, relative: Higham, Accuracy and Stability, 2nd ed., lemma 3.1.
double gamma(int64_t m, double u) {
  const double mu = double(m) * u;
  if (mu >= 0.5)
    throw Error("distances over " + std::to_string(m - 2) + " features with a unit roundoff of " + number(u) +
                " have no useful error bound: declare the roundoff of the sums' own arithmetic");
  return mu / (1 - mu);
}

/// How far a label's fp64 distance may lie above the fp64 minimum.
///
/// Let D(c) be the true squared distance of x to c, V(c) what the variant computes and R(c) what the reference
/// computes, u the variant's unit roundoff, g = gamma(d + 2, u) and r = gamma(d + 2, 2^-53).
///
/// Difference form. Each term (x - c)^2 carries two roundings from the difference (it is squared) and one from the
/// product; the sum adds at most d - 1 more to each, in any order, with or without fused multiply-add. All terms are
/// >= 0, so V = D (1 + t), |t| <= g. The variant preferred its label L to the reference's b, V(L) <= V(b), hence
///     D(L) <= D(b) (1 + g) / (1 - g),   a regret of at most 2 g / (1 - g) D(b).
///
/// Expanded form. |x|^2, |c|^2 and x.c carry at most d roundings on terms that sum, in magnitude, to |x|^2, |c|^2 and
/// |x| |c|; the two additions that join them add two more. So |V - D| <= g (|x| + |c|)^2 =: E(c), also where |x|^2 is
/// left out since it is the same for all c, and
///     D(L) <= D(b) + E(b) + E(L).
///
/// Exact. D(L) <= D(b).
///
/// The reference rounds too: R = D (1 + t), |t| <= r, so D(b) <= R(b) / (1 - r) and R(L) <= D(L) (1 + r).
///
/// Underflow adds an absolute error: a term or a partial sum below the smallest normal number may become 0 on a device
/// that flushes subnormals; there are at most 8 d such operations per distance. Overflow has no allowance: a label
/// chosen among infinities is right only where it is right by its fp64 distance. The range is taken to be that of T,
/// whatever the roundoff.
template <class T>
class RegretBound {
 public:
  RegretBound(const Arithmetic& arithmetic, int d)
      : form_(arithmetic.form),
        g_(form_ == Arithmetic::Form::exact
               ? 0
               : gamma(int64_t(d) + 2, arithmetic.distance_roundoff > 0 ? arithmetic.distance_roundoff : roundoff<T>)),
        r_(gamma(int64_t(d) + 2, reference_roundoff)),
        flushed_(form_ == Arithmetic::Form::exact ? 0 : 8.0 * d * double(std::numeric_limits<T>::min())),
        reference_flushed_(8.0 * d * std::numeric_limits<double>::min()) {}

  /// The largest R(L) that is right, where R(b) = `best` and |x|, |c_b|, |c_L| are the norms (used in expanded form).
  double limit(double best, double x_norm, double best_norm, double label_norm) const {
    double least = best / (1 - r_) + reference_flushed_;
    if (form_ == Arithmetic::Form::difference) {
      least = (least * (1 + g_) + 2 * flushed_) / (1 - g_);
    } else if (form_ == Arithmetic::Form::expanded) {
      const double to_best = x_norm + best_norm, to_label = x_norm + label_norm;
      least += g_ * (1 + 2 * r_) * (to_best * to_best + to_label * to_label) + 2 * flushed_;
    }
    constexpr double evaluation = 1 + 16 * reference_roundoff;  // this formula's own roundings
    return (least * (1 + r_) + reference_flushed_) * evaluation;
  }
  bool needs_norms() const { return form_ == Arithmetic::Form::expanded; }
  bool exact() const { return form_ == Arithmetic::Form::exact; }

 private:
  Arithmetic::Form form_;
  double g_, r_, flushed_, reference_flushed_;
};

const char* name_of(Arithmetic::Form form) {
  switch (form) {
    case Arithmetic::Form::difference:
      return "difference form";
    case Arithmetic::Form::expanded:
      return "expanded form";
    case Arithmetic::Form::exact:
      return "the exact minimum";
  }
  return "?";
}

/// A number of about 106 bits, as an unevaluated sum of two doubles. Source: Dekker, "A floating-point technique for
/// extending the available precision", 1971; Hida, Li, Bailey, "Library for double-double arithmetic", 2000.
struct DoubleDouble {
  double high = 0, low = 0;
};
DoubleDouble two_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
DoubleDouble add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
  const DoubleDouble first = two_sum(high.high, high.low + low.high);
  return two_sum(first.high, first.low + low.low);
}

/// The squared distance to about 100 bits: it separates candidates that doubles cannot.
template <class T>
DoubleDouble precise_distance(const T* point, const T* centroid, int d) {
  DoubleDouble sum;
  for (int f = 0; f < d; ++f) {
    const DoubleDouble difference = two_sum(double(point[f]), -double(centroid[f]));
    const double square = difference.high * difference.high;
    const double rest = std::fma(difference.high, difference.high, -square) + 2 * difference.high * difference.low;
    sum = add(sum, add({square, 0}, {rest, difference.low * difference.low}));
  }
  return sum;
}

/// The true nearest centroid among those whose fp64 distance is at most `limit`, the lowest index where the distances
/// agree to 95 bits.
template <class T>
int32_t precise_nearest(const T* point, const T* centroids, int k, int d, double limit) {
  int32_t best = -1;
  DoubleDouble least;
  for (int j = 0; j < k; ++j) {
    const T* centroid = centroids + size_t(j) * d;
    if (!(squared_distance(point, centroid, d) <= limit)) continue;
    const DoubleDouble distance = precise_distance(point, centroid, d);
    const DoubleDouble gain = add(least, {-distance.high, -distance.low});
    if (best < 0 || gain.high > least.high * 0x1p-95) {
      best = j;
      least = distance;
    }
  }
  return best;
}

/// For each centroid the lowest index of one with equal coordinates.
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

template <class T>
double norm(const T* row, int d) {
  double sum = 0;
  for (int f = 0; f < d; ++f) sum += double(row[f]) * double(row[f]);
  return std::sqrt(sum);
}

}  // namespace

template <class T>
LabelReport check_labels(const T* points, int n, int d, const T* centroids, int k, const int32_t* label,
                         const Arithmetic& arithmetic, std::span<const int32_t> rows) {
  const RegretBound<T> bound(arithmetic, d);
  const size_t count = rows.empty() ? size_t(n) : rows.size();
  LabelReport report;
  report.rows_checked = int64_t(count);
  for (size_t i = 0; i < size_t(k) * d; ++i)
    if (!std::isfinite(centroids[i])) {
      report.labels_wrong = report.rows_checked;
      report.worst_regret = std::numeric_limits<double>::infinity();
      report.first = "centroid " + std::to_string(i / d) + " has " + number(double(centroids[i])) + " in feature " +
                     std::to_string(i % d) + ": no label can be right";
      return report;
    }

  const CentroidPanels panels(centroids, k, d);
  const std::vector<int32_t> lowest = lowest_equals(centroids, k, d);
  constexpr size_t grain = 64;  // rows whose doubles stay in cache while all panels go by
  std::vector<LabelReport> parts(pieces(count, grain));
  parallel_pieces(count, grain, [&](size_t piece, size_t begin, size_t end) {
    LabelReport& part = parts[piece];
    const auto row_of = [&](size_t i) { return rows.empty() ? size_t(i) : size_t(rows[i]); };
    std::vector<double> doubles((end - begin) * d);
    for (size_t i = begin; i < end; ++i)
      std::copy_n(points + row_of(i) * d, d, doubles.begin() + std::ptrdiff_t((i - begin) * d));
    CentroidPanels::Nearest nearest[grain];
    panels.nearest(doubles.data(), int(end - begin), nearest);

    for (size_t i = begin; i < end; ++i) {
      const size_t row = row_of(i);
      const auto [best, least] = nearest[i - begin];
      const int32_t got = label[row];
      const auto need_finite = [&](double value) {
        if (!std::isfinite(value))
          throw Error("row " + std::to_string(row) +
                      " has squared distances or norms that exceed a double: scale the points");
      };
      need_finite(least);
      const auto wrong = [&](const auto& why) {
        if (part.labels_wrong++ == 0)
          part.first = "row " + std::to_string(row) + " has label " + std::to_string(got) + ", but " + why();
      };
      if (got == best) continue;
      if (got < 0 || got >= k) {
        wrong([&] {
          return "labels are 0 to " + std::to_string(k - 1) + "; " + std::to_string(best) +
                 " is right, at squared distance " + number(least);
        });
        continue;
      }
      const T* x = points + row * d;
      const auto centroid = [&](int32_t j) { return centroids + size_t(j) * d; };
      const double distance = squared_distance(x, centroid(got), d);
      const double regret = distance - least;
      part.worst_regret = std::max(part.worst_regret, least > 0 ? regret / least : regret);
      const double limit = bound.needs_norms()
                               ? bound.limit(least, norm(x, d), norm(centroid(best), d), norm(centroid(got), d))
                               : bound.limit(least, 0, 0, 0);
      need_finite(limit);
      const auto comparison = [&] {
        return std::to_string(best) + " is right: squared distance " + number(least) + " instead of " +
               number(distance);
      };
      if (lowest[got] != got) {
        wrong(
            [&] { return "centroid " + std::to_string(lowest[got]) + " has the same coordinates and a lower index"; });
      } else if (!(distance <= limit)) {
        wrong([&] {
          return comparison() + ", " + number(regret) + " more, where " + name_of(arithmetic.form) + " allows " +
                 number(limit - least);
        });
      } else if (bound.exact() && precise_nearest(x, centroids, k, d, limit) != got) {
        wrong([&] {
          return comparison() + ", equal to the accuracy of doubles, and " + std::to_string(got) +
                 " is not the lowest index of the exact minimum";
        });
      } else {
        ++part.ties;
      }
    }
  });
  for (const LabelReport& part : parts) {
    if (report.labels_wrong == 0) report.first = part.first;
    report.labels_wrong += part.labels_wrong;
    report.ties += part.ties;
    report.worst_regret = std::max(report.worst_regret, part.worst_regret);
  }
  return report;
}
template LabelReport check_labels(const float*, int, int, const float*, int, const int32_t*, const Arithmetic&,
                                  std::span<const int32_t>);
template LabelReport check_labels(const double*, int, int, const double*, int, const int32_t*, const Arithmetic&,
                                  std::span<const int32_t>);

std::vector<int32_t> sample_rows(int n, int count, uint64_t seed) {
  std::vector<int32_t> rows;
  if (count >= n) {
    rows.resize(n);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  // Floyd's method: `count` draws for any n. Source: Bentley, "Programming pearls: a sample of brilliance", 1987.
  Sequence random(seed, Stream::rows);
  std::unordered_set<int32_t> chosen;
  for (int last = n - count; last < n; ++last) {
    const auto row = int32_t(random.below(uint32_t(last) + 1));
    rows.push_back(chosen.insert(row).second ? row : last);
    chosen.insert(rows.back());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

template <class T>
CentroidReport check_centroids(const T* points, int n, int d, const T* before, const T* after, int k,
                               const int32_t* label, const Arithmetic& arithmetic) {
  CentroidReport report;
  report.values_checked = int64_t(k) * d;
  for (int i = 0; i < n; ++i)
    if (label[i] < 0 || label[i] >= k) {
      report.values_wrong = report.values_checked;
      report.worst_error = std::numeric_limits<double>::infinity();
      report.first = "row " + std::to_string(i) + " has label " + std::to_string(label[i]) + ", not one of 0 to " +
                     std::to_string(k - 1) + ": the means are not defined";
      return report;
    }
  const Members clusters = members(label, n, k);
  const Sums sums = sums_of(points, d, clusters, true);
  const double sum_roundoff = arithmetic.sum_roundoff > 0 ? arithmetic.sum_roundoff : roundoff<T>;

  // A sum of m values in any order errs by at most m u sum|x|, with no condition on m u (Jeannerod and Rump, "Improved
  // error bounds for inner products in floating-point arithmetic", 2013); the reference's own sum likewise. Turning the
  // sum into a mean of type T takes at most three roundings: of the sum, of 1 / m or m, of the result. A result below
  // the smallest normal number may be flushed to 0.
  constexpr double u = roundoff<T>;
  for (int j = 0; j < k; ++j) {
    const double m = clusters.begin[j + 1] - clusters.begin[j];
    report.empty_clusters += m == 0;
    for (int f = 0; f < d; ++f) {
      const size_t at = size_t(j) * d + f;
      const auto wrong = [&](const auto& why) {
        if (report.values_wrong++ == 0)
          report.first = "centroid " + std::to_string(j) + " has " + number(double(after[at])) + " in feature " +
                         std::to_string(f) + ", " + why();
      };
      if (m == 0) {
        if (std::memcmp(&after[at], &before[at], sizeof(T)) != 0) {
          report.worst_error = std::numeric_limits<double>::infinity();
          wrong([&] { return "where it should keep " + number(double(before[at])) + ": it has no points"; });
        }
        continue;
      }
      const double mean = sums.value[at] / m, magnitude = sums.magnitude[at] / m;
      const double sum_error = m * (sum_roundoff + reference_roundoff) * magnitude;
      const double bound = sum_error + 3.01 * u * (std::fabs(mean) + sum_error) +
                           2 * reference_roundoff * std::fabs(mean) + double(std::numeric_limits<T>::min());
      const double error = std::fabs(double(after[at]) - mean);
      if (!(error <= bound))
        wrong([&] {
          return "where the mean of its " + std::to_string(int64_t(m)) + " points is " + number(mean) + ": off by " +
                 number(error) + ", allowed is " + number(bound);
        });
      report.worst_error =
          std::max(report.worst_error, std::isnan(error) ? std::numeric_limits<double>::infinity() : error / bound);
    }
  }
  return report;
}
template CentroidReport check_centroids(const float*, int, int, const float*, const float*, int, const int32_t*,
                                        const Arithmetic&);
template CentroidReport check_centroids(const double*, int, int, const double*, const double*, int, const int32_t*,
                                        const Arithmetic&);

}  // namespace ladder
