#include "validation/validate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/npy.hpp"
#include "base/parallel.hpp"
#include "base/philox.hpp"
#include "validation/bounds.hpp"
#include "validation/exact.hpp"
#include "validation/reference.hpp"

namespace ladder {
namespace {

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

DoubleDouble negative(DoubleDouble a) { return {-a.high, -a.low}; }
DoubleDouble square(DoubleDouble a) {
  const double product = a.high * a.high;
  return two_sum(product, std::fma(a.high, a.high, -product) + 2 * (a.high * a.low));
}

/// The squared distance to about 100 bits: it separates candidates that doubles cannot.
template <class T>
DoubleDouble precise_distance(const T* point, const T* centroid, int d) {
  DoubleDouble sum;
  for (int f = 0; f < d; ++f) {
    const DoubleDouble difference = two_sum(double(point[f]), -double(centroid[f]));
    sum = add(sum, square(difference));
  }
  return sum;
}

/// The true nearest centroid among those `near(j)` for which doubles cannot tell, the lowest index of equals. Each sum
/// of precise_distance() is off by less than (3 d + 6) 2^-106 of itself and 2^-1070 a feature; what that leaves open,
/// and cosines, whole numbers decide.
template <class T, class Near>
int32_t precise_nearest(const T* point, const T* centroids, int k, int d, Metric metric, const Near& near) {
  int32_t best = -1;
  DoubleDouble least;
  for (int j = 0; j < k; ++j) {
    if (!near(j)) continue;
    const T* centroid = centroids + size_t(j) * d;
    const DoubleDouble distance = precise_distance(point, centroid, d);
    const double gain = add(least, negative(distance)).high, unsure = 4 * (d + 3) * (0x1p-105 * least.high + 0x1p-1060);
    const bool known = metric == Metric::euclidean && std::fabs(gain) > unsure;
    if (best < 0 ||
        (known ? gain > 0 : compare_exactly(point, centroid, centroids + size_t(best) * d, d, metric) < 0)) {
      best = j;
      least = distance;
    }
  }
  return best;
}

double norm(const double* row, int d) {
  double sum = 0;
  for (int f = 0; f < d; ++f) sum += row[f] * row[f];
  return std::sqrt(sum);
}

/// What makes NaNs where there should be numbers: on the CPU device, fresh memory holds nothing else.
constexpr const char* unwritten = " (memory read before it was written, or a division by zero?)";

/// Why no label can be right for these centroids: one is not finite, or has no direction. Empty where all are.
template <class T>
std::string fault_of(const T* centroids, int k, int d, Metric metric) {
  const std::string verdict = ": no label can be right";
  for (size_t i = 0; i < size_t(k) * d; ++i)
    if (!std::isfinite(centroids[i]))
      return "centroid " + std::to_string(i / d) + " has " + number(double(centroids[i])) + " in feature " +
             std::to_string(i % d) + verdict + unwritten;
  if (metric == Metric::cosine)
    if (const int64_t j = find_zero_row(centroids, k, d); j >= 0)
      return "centroid " + std::to_string(j) + " is the zero vector, which has no direction" + verdict;
  return "";
}

/// Not less, in each feature, than the magnitude of the points' mean as a variant with centred arithmetic has it,
/// however it adds up: twice the mean of the magnitudes. Zeros for others.
template <class T>
std::vector<double> centre_of(const Problem<T>& problem, const Arithmetic& arithmetic) {
  const size_t n = size_t(problem.n), d = size_t(problem.d), grain = std::max<size_t>(1, pass_grain / d);
  std::vector<double> centre(d);
  if (!arithmetic.centred) return centre;
  std::vector<std::vector<double>> parts(pieces(n, grain), centre);
  parallel_pieces(n, grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      for (size_t f = 0; f < d; ++f) parts[piece][f] += std::fabs(double(problem.points[i * d + f]));
  });
  for (const std::vector<double>& part : parts)
    for (size_t f = 0; f < d; ++f) centre[f] += 2 * part[f] / double(n);
  return centre;
}

/// A label against the fp64 minimum: one row's facts and the verdict on them.
template <class T>
class RowValidator {
 public:
  RowValidator(const Problem<T>& problem, const T* centroids, const Rules& rules)
      : problem_(problem),
        centroids_(centroids),
        rules_(rules),
        bound_(DistanceBound::of<T>(rules.arithmetic, problem.metric, problem.d)),
        centre_norm_(norm(centre_of(problem, rules.arithmetic).data(), problem.d)),
        lowest_(lowest_equals(centroids, problem.k, problem.d)) {}

  /// `x`: the point as the metric sees it; `least` is the fp64 minimum, `got` the label.
  void check(size_t row, const double* x, const CentroidPanels::Nearest& least_of_all, int32_t got,
             LabelReport& report) const {
    const int32_t best = least_of_all.label;
    const double least = least_of_all.distance, second = least_of_all.second;
    if (got == best && !(bound_.exact() && second <= bound_.limit(least, 0, 0, 0))) return;
    const bool differs = got != best;
    report.labels_differ += differs;
    const auto wrong = [&](const std::string& why) {
      report.lowest_missed = std::min(report.lowest_missed, best);
      report.highest_missed = std::max(report.highest_missed, best);
      if (report.labels_wrong++ == 0)
        report.first = "row " + std::to_string(row) + " has label " + std::to_string(got) + ", but " + why;
    };
    const int k = problem_.k, d = problem_.d;
    if (got < 0 || got >= k)
      return wrong("labels are 0 to " + std::to_string(k - 1) +
                   (got == -1 ? " (-1 stands in each beforehand: did a thread write this one?)" : "") + "; " +
                   std::to_string(best) + " is right, at " + shown(least));
    std::vector<double> to_best(d), to_got(d);
    as_seen(centroid(best), d, problem_.metric, to_best.data());
    as_seen(centroid(got), d, problem_.metric, to_got.data());
    const double distance = squared_distance(x, to_got.data(), d);
    const double regret = distance - least;
    report.worst_regret = std::max(report.worst_regret, least > 0 ? regret / least : regret);
    const bool norms = bound_.needs_norms();
    const auto size = [&](const double* row) { return norm(row, d) + centre_norm_; };
    const double limit =
        norms ? bound_.limit(least, size(x), size(to_best.data()), size(to_got.data())) : bound_.limit(least, 0, 0, 0);
    need_finite(row, limit);
    if (lowest_[got] != got)
      return wrong("centroid " + std::to_string(lowest_[got]) + " has the same coordinates and a lower index");
    const std::string comparison =
        std::to_string(best) + " is right: " + shown(least) + " instead of " + value(distance);
    if (!(distance <= limit))
      return wrong(comparison + ", " + value(regret) + " more, where rounding (" + name_of(rules_.arithmetic.form) +
                   ") explains at most " + value(limit - least));
    if (bound_.exact())
      if (const int32_t exact = precise_best(row, x, limit); exact != got)
        return wrong("to the accuracy of doubles " + std::to_string(exact) + " is as near, at " + shown(least) +
                     ", and in whole numbers " + std::to_string(got) + " is not the lowest index of the exact minimum");
    report.ties += differs;
  }
  static void need_finite(size_t row, double value) {
    if (!std::isfinite(value))
      throw Error("row " + std::to_string(row) +
                  " has squared distances or norms that exceed a double: scale the points");
  }

 private:
  const T* centroid(int j) const { return centroids_ + size_t(j) * problem_.d; }
  int32_t precise_best(size_t row, const double* x, double limit) const {
    const int d = problem_.d;
    std::vector<double> candidate(d);
    return precise_nearest(problem_.points + row * d, centroids_, problem_.k, d, problem_.metric, [&](int j) {
      if (lowest_[j] != j) return false;
      as_seen(centroid(j), d, problem_.metric, candidate.data());
      return squared_distance(x, candidate.data(), d) <= limit;
    });
  }
  /// A distance in the words and the units of the metric.
  std::string value(double distance) const {
    return number(problem_.metric == Metric::cosine ? distance / 2 : distance);
  }
  std::string shown(double distance) const {
    return (problem_.metric == Metric::cosine ? "1 - cos " : "squared distance ") + value(distance);
  }

  const Problem<T>& problem_;
  const T* centroids_;
  const Rules& rules_;
  DistanceBound bound_;
  double centre_norm_;
  std::vector<int32_t> lowest_;
};

/// Where all the labels that were missed are neighbours, and no row has one of them, these centroids were hardly looked
/// at: a last tile that is left out, a loop that ends too early. Empty where it is not so.
std::string never_chosen(const LabelReport& report, const int32_t* label, int n, int k) {
  const int32_t low = report.lowest_missed, high = report.highest_missed;
  if (report.labels_wrong < 2 || high - low >= k / 2) return "";
  if (std::any_of(label, label + n, [&](int32_t j) { return j >= low && j <= high; })) return "";
  if (low == high) {
    return "; the right label of all wrong rows is " + std::to_string(low) +
           ", which no row has: was this centroid looked at?";
  }
  return "; the right labels of all wrong rows lie in " + std::to_string(low) + ".." + std::to_string(high) +
         ", of which no row has any: were these centroids looked at?";
}

}  // namespace

template <class T>
LabelReport check_labels(const Problem<T>& problem, const T* centroids, const int32_t* label, const Rules& rules,
                         std::span<const int32_t> rows) {
  const int k = problem.k, d = problem.d;
  const auto metric = problem.metric;
  const size_t count = rows.empty() ? size_t(problem.n) : rows.size();
  LabelReport report;
  report.rows_checked = int64_t(count);
  report.first = fault_of(centroids, k, d, metric);
  if (!report.first.empty()) {
    report.labels_wrong = report.labels_differ = report.rows_checked;
    report.worst_regret = std::numeric_limits<double>::infinity();
    return report;
  }

  const RowValidator<T> validator(problem, centroids, rules);
  const CentroidPanels panels(centroids, k, d, metric);
  const size_t grain = count < 4096 ? 16 : 64;  // rows that share a pass over the panels; of few, some for each core
  std::vector<LabelReport> parts(pieces(count, grain));
  parallel_pieces(count, grain, [&](size_t piece, size_t begin, size_t end) {
    const auto row_of = [&](size_t i) { return rows.empty() ? size_t(i) : size_t(rows[i]); };
    std::vector<double> x((end - begin) * d);
    for (size_t i = begin; i < end; ++i)
      if (!as_seen(problem.points + row_of(i) * d, d, metric, &x[(i - begin) * d]) && metric == Metric::cosine)
        refuse_zero_row(int64_t(row_of(i)));
    std::vector<CentroidPanels::Nearest> nearest(end - begin);
    panels.nearest(x.data(), int(end - begin), nearest.data());
    for (size_t i = begin; i < end; ++i) {
      RowValidator<T>::need_finite(row_of(i), nearest[i - begin].distance);
      validator.check(row_of(i), &x[(i - begin) * d], nearest[i - begin], label[row_of(i)], parts[piece]);
    }
  });
  for (const LabelReport& part : parts) {
    if (report.labels_wrong == 0) report.first = part.first;
    report.labels_wrong += part.labels_wrong;
    report.labels_differ += part.labels_differ;
    report.ties += part.ties;
    report.worst_regret = std::max(report.worst_regret, part.worst_regret);
    report.lowest_missed = std::min(report.lowest_missed, part.lowest_missed);
    report.highest_missed = std::max(report.highest_missed, part.highest_missed);
  }
  report.first += never_chosen(report, label, problem.n, k);
  return report;
}
template LabelReport check_labels(const Problem<float>&, const float*, const int32_t*, const Rules&,
                                  std::span<const int32_t>);
template LabelReport check_labels(const Problem<double>&, const double*, const int32_t*, const Rules&,
                                  std::span<const int32_t>);

std::vector<int32_t> sample_rows(int n, int count, uint64_t seed) {
  std::vector<int32_t> rows;
  if (count >= n) {
    rows.resize(n);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  // Floyd's method: `count` draws for any n. Source: Bentley, "Programming pearls: a sample of brilliance", 1987. Which
  // rows are taken is kept as bits, which stay in cache where a set of millions of rows would not, and give their
  // order.
  Sequence random(seed, Stream::rows);
  std::vector<uint64_t> taken(pieces(size_t(n), 64));
  const auto take = [&](uint32_t row) {
    uint64_t& word = taken[row / 64];
    const uint64_t bit = uint64_t(1) << row % 64;
    const bool is_new = !(word & bit);
    word |= bit;
    return is_new;
  };
  for (int last = n - count; last < n; ++last)
    if (!take(random.below(uint32_t(last) + 1))) take(uint32_t(last));
  rows.reserve(size_t(count));
  for (size_t at = 0; at < taken.size(); ++at)
    for (uint64_t word = taken[at]; word != 0; word &= word - 1)
      rows.push_back(int32_t(64 * at) + std::countr_zero(word));
  return rows;
}

namespace {

/// The mean of a cluster, or its direction, and how far the variant's may lie from it.
///
/// A sum of m values in any order errs by at most m u sum|x|, with no condition on m u (Jeannerod and Rump, "Improved
/// error bounds for inner products in floating-point arithmetic", 2013); the reference's own sum likewise. Turning the
/// sum into a mean of type T takes at most three roundings: of the sum, of 1 / m or m, of the result. A result below
/// the smallest normal number may be flushed to 0.
///
/// Centred. With m' the mean of all points as the variant has it, the values summed are x - m', each rounded once in
/// the element type: |x - m'| <= |x| + |m'|. Their mean is rounded, and m' added to it, which rounds again.
///
/// Kept rounded, by up to v (Rules): the values summed are off by v |x| each, so their mean by v sum|x| / m, and it is
/// rounded by v. Euclidean only.
///
/// Cosine. Each summed direction's component is off by s relative to it (DistanceBound::direction_error; the
/// reference's by r), so the sum S_f by e_f = (s + r + m (u_sum + 2^-53) (1 + s)) sum|a_f|, and |S| by at most |e| plus
/// the roundings of the norm itself, which are no more than those of a distance: N = |e| + (g + r) |S|. Then
///     |S'_f / |S'| - S_f / |S|| <= (e_f + |S_f| N / |S|) / (|S| - N),
/// and where N >= |S| the declared arithmetic cannot tell the mean from zero.
class MeanBound {
 public:
  MeanBound(const Rules& rules, const std::vector<double>& centre, Metric metric, int d, double element_roundoff,
            double smallest)
      : metric_(metric),
        d_(d),
        u_(element_roundoff),
        kept_(metric == Metric::euclidean ? rules.kept_roundoff() : 0),
        sum_roundoff_(
            (rules.arithmetic.sum_roundoff > 0 && kept_ == 0 ? rules.arithmetic.sum_roundoff : element_roundoff) +
            reference_roundoff),
        smallest_(smallest),
        centre_(centre) {
    if (metric != Metric::cosine) return;
    // Directions are taken in the arithmetic of distances, whatever these are good for, and of points as they are.
    Arithmetic arithmetic = rules.arithmetic;
    arithmetic.form = Arithmetic::Form::difference;
    arithmetic.input_roundoff = 0;
    const DistanceBound bound(arithmetic, metric, d, element_roundoff, smallest);
    const double r = gamma(int64_t(d) + 2, reference_roundoff);
    direction_ = bound.direction_error() + r;
    norm_ = bound.accumulation_error() + r;
  }

  /// From the sums over m points to `mean` and `allowed` (d each). False where cosine's mean may be zero.
  bool of(const double* sum, const double* magnitude, double m, double* mean, double* allowed) const {
    for (int f = 0; f < d_; ++f)
      allowed[f] = metric_ == Metric::euclidean ? (sum_roundoff_ * (1 + kept_) + kept_ / m) * magnitude[f] +
                                                      of_centre(magnitude[f], m, centre_[f])
                                                : (direction_ + m * sum_roundoff_ * (1 + direction_)) * magnitude[f];
    double shrunk = m, relative = 0;
    if (metric_ == Metric::cosine) {
      const double length = norm(sum, d_), off = norm(allowed, d_) + norm_ * length;
      if (!(off < length)) return false;
      shrunk = length;
      relative = off / (length - off);
      for (int f = 0; f < d_; ++f) allowed[f] /= length - off;
    }
    for (int f = 0; f < d_; ++f) {
      mean[f] = sum[f] / shrunk;
      const double error = allowed[f] + relative * std::fabs(mean[f]);
      allowed[f] = error + (3.01 * u_ * (1 + kept_) + kept_) * (std::fabs(mean[f]) + error) +
                   2 * reference_roundoff * std::fabs(mean[f]) + smallest_;
    }
    return true;
  }
  /// How far a component of a unit vector of type T may lie from that of the true direction, relative and in all.
  double direction() const { return direction_ + 3.01 * u_; }

 private:
  /// What centring adds; 0 where the centre is.
  double of_centre(double magnitude, double m, double centre) const {
    if (centre == 0) return 0;
    return sum_roundoff_ * m * centre + u_ * (magnitude / m + 4 * centre);
  }

  Metric metric_;
  int d_;
  double u_, kept_, sum_roundoff_, smallest_;
  const std::vector<double>& centre_;
  double direction_ = 0, norm_ = 0;
};

/// Does a centroid stay where it was: bit by bit, or, for cosine, as its direction?
template <class T>
bool stays(const T* before, const T* after, int d, Metric metric, double direction_error) {
  if (std::memcmp(before, after, d * sizeof(T)) == 0) return true;
  std::vector<double> direction(d);
  if (metric != Metric::cosine || !as_seen(before, d, metric, direction.data())) return false;
  for (int f = 0; f < d; ++f)
    if (!(std::fabs(double(after[f]) - direction[f]) <=
          direction_error * std::fabs(direction[f]) + double(std::numeric_limits<T>::min())))
      return false;
  return true;
}

}  // namespace

template <class T>
CentroidReport check_centroids(const Problem<T>& problem, const T* before, const T* after, const int32_t* label,
                               const Rules& rules, std::span<const double> reach) {
  const int n = problem.n, k = problem.k, d = problem.d;
  const auto metric = problem.metric;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CentroidReport report;
  report.values_checked = int64_t(k) * d;
  Members clusters;
  try {
    clusters = members(label, n, k);
  } catch (const Error& error) {
    report.values_wrong = report.values_checked;
    report.worst_error = infinity;
    report.first = error.what() + std::string(": the means are not defined");
    return report;
  }
  refuse_zero_rows(problem);
  const ClusterSums sums = cluster_sums(problem.points, d, clusters, metric);
  const std::vector<double> centre = centre_of(problem, rules.arithmetic);
  const MeanBound bound(rules, centre, metric, d, roundoff<T>, double(std::numeric_limits<T>::min()));
  std::vector<double> mean(d), allowed(d);
  for (int j = 0; j < k; ++j) {
    const size_t row = size_t(j) * d;
    const auto wrong = [&](int f, const auto& why) {
      if (report.values_wrong++ == 0)
        report.first = "centroid " + std::to_string(j) + " has " + number(double(after[row + f])) + " in feature " +
                       std::to_string(f) + ", " + why();
    };
    const int m = clusters.count(j);
    if (m == 0) {
      ++report.empty_clusters;
      if (rules.moves_empty) {
        report.values_checked -= d;
        continue;
      }
      if (stays(before + row, after + row, d, metric, bound.direction())) continue;
      const auto apart = [&](int f) {
        if (std::memcmp(&after[row + f], &before[row + f], sizeof(T)) == 0) return false;
        return reach.empty() || !(std::fabs(double(after[row + f]) - double(before[row + f])) <= reach[row + f]);
      };
      for (int f = 0; f < d; ++f)
        if (apart(f)) {
          report.worst_error = infinity;
          wrong(f, [&] { return "where it should keep " + number(double(before[row + f])) + ": it has no points"; });
        }
      continue;
    }
    if (!bound.of(&sums.value[row], &sums.magnitude[row], m, mean.data(), allowed.data())) {
      ++report.undirected_clusters;
      if (stays(before + row, after + row, d, metric, bound.direction())) continue;
      const double length = norm(std::vector<double>(after + row, after + row + d).data(), d);
      if (std::fabs(length - 1) <= bound.direction()) continue;
      report.worst_error = infinity;
      for (int f = 0; f < d; ++f)
        wrong(f, [&] {
          return "where it should stay or have length 1: the directions of its " + std::to_string(m) + " points cancel";
        });
      continue;
    }
    for (int f = 0; f < d; ++f) {
      if (!reach.empty()) allowed[f] += reach[row + f];
      const double error = std::fabs(double(after[row + f]) - mean[f]);
      if (!(error <= allowed[f]))
        wrong(f, [&] {
          return (metric == Metric::cosine ? "where the direction of the mean of its " : "where the mean of its ") +
                 std::to_string(m) + " points is " + number(mean[f]) +
                 (std::isnan(error) ? unwritten : ": off by " + number(error) + ", allowed is " + number(allowed[f]));
        });
      report.worst_error = std::max(report.worst_error, std::isnan(error) ? infinity : error / allowed[f]);
    }
  }
  return report;
}
template CentroidReport check_centroids(const Problem<float>&, const float*, const float*, const int32_t*, const Rules&,
                                        std::span<const double>);
template CentroidReport check_centroids(const Problem<double>&, const double*, const double*, const int32_t*,
                                        const Rules&, std::span<const double>);

template <class T>
std::vector<double> kept_reach(const Problem<T>& problem, const int32_t* label, const Rules& rules) {
  const int k = problem.k, d = problem.d;
  const Members clusters = members(label, problem.n, k);
  const ClusterSums sums = cluster_sums(problem.points, d, clusters, problem.metric);
  const std::vector<double> centre = centre_of(problem, rules.arithmetic);
  const MeanBound bound(rules, centre, problem.metric, d, roundoff<T>, double(std::numeric_limits<T>::min()));
  std::vector<double> mean(d), allowed(d), most(d), reach(size_t(k) * d);
  for (int j = 0; j < k; ++j) {
    const int m = clusters.count(j);
    const size_t row = size_t(j) * d;
    if (m == 0 || !bound.of(&sums.value[row], &sums.magnitude[row], m, mean.data(), allowed.data())) continue;
    for (int f = 0; f < d; ++f) most[f] = std::max(most[f], 2 * allowed[f]);
  }
  for (int j = 0; j < k; ++j)
    if (clusters.count(j) == 0) std::copy(most.begin(), most.end(), reach.begin() + std::ptrdiff_t(j) * d);
  return reach;
}
template std::vector<double> kept_reach(const Problem<float>&, const int32_t*, const Rules&);
template std::vector<double> kept_reach(const Problem<double>&, const int32_t*, const Rules&);

/// Let S be a cluster's m points, R those of them that may have left, Q those that may have come; then its mean is off
/// by the sum of (x - mean) over Q less that over R, divided by |S| - |R| + |Q|: by no more than the sum of |x - mean|
/// over all that may have left or come, divided by m less those that may have left.
template <class T>
NearestMeans nearest_means(const Problem<T>& problem, const T* centroids, const Rules& rules) {
  const int n = problem.n, k = problem.k, d = problem.d;
  NearestMeans found{std::vector<int32_t>(n), {}};
  assign_reference(problem.points, n, d, centroids, k, found.label.data(), problem.metric);
  if (problem.metric != Metric::euclidean) return found;

  // Which points may belong to another cluster, too, and which.
  const DistanceBound bound = DistanceBound::of<T>(rules.arithmetic, problem.metric, d);
  const double centre_norm = norm(centre_of(problem, rules.arithmetic).data(), d);
  const CentroidPanels panels(centroids, k, d);
  std::vector<double> size(k), seen(d);
  for (int j = 0; j < k; ++j) {
    as_seen(centroids + size_t(j) * d, d, problem.metric, seen.data());
    size[j] = norm(seen.data(), d) + centre_norm;
  }
  constexpr size_t grain = 64;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> parts(pieces(size_t(n), grain));  // point, cluster
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    std::vector<double> x(d);
    std::vector<double> distance(size_t(panels.panels()) * CentroidPanels::width);
    for (size_t i = begin; i < end; ++i) {
      as_seen(problem.points + i * d, d, problem.metric, x.data());
      for (int p = 0; p < panels.panels(); ++p)
        panels.distances(x.data(), 1, p, &distance[size_t(p) * CentroidPanels::width]);
      const int32_t best = found.label[i];
      const double x_size = norm(x.data(), d) + centre_norm;
      for (int j = 0; j < k; ++j)
        if (j != best && distance[j] <= bound.limit(distance[best], x_size, size[best], size[j]))
          parts[piece].emplace_back(int32_t(i), j);
    }
  });

  const Members clusters = members(found.label.data(), n, k);
  const ClusterSums sums = cluster_sums(problem.points, d, clusters);
  found.reach.assign(size_t(k) * d, 0);
  std::vector<int> staying(k);
  for (int j = 0; j < k; ++j) staying[j] = clusters.count(j);
  const auto may_move = [&](int32_t i, int32_t j) {
    const double m = clusters.count(j);
    for (int f = 0; f < d; ++f) {
      const double mean = m > 0 ? sums.value[size_t(j) * d + f] / m : double(centroids[size_t(j) * d + f]);
      found.reach[size_t(j) * d + f] += std::fabs(double(problem.points[size_t(i) * d + f]) - mean);
    }
  };
  int32_t last = -1;
  for (const auto& part : parts)
    for (const auto& [i, j] : part) {
      may_move(i, j);
      if (i == last) continue;  // it leaves its own cluster once, whatever it may join
      last = i;
      may_move(i, found.label[i]);
      --staying[found.label[i]];
    }
  for (int j = 0; j < k; ++j)
    for (int f = 0; f < d; ++f) {
      double& reach = found.reach[size_t(j) * d + f];
      if (reach > 0) reach = staying[j] > 0 ? reach / staying[j] : std::numeric_limits<double>::infinity();
    }
  return found;
}
template NearestMeans nearest_means(const Problem<float>&, const float*, const Rules&);
template NearestMeans nearest_means(const Problem<double>&, const double*, const Rules&);

}  // namespace ladder
