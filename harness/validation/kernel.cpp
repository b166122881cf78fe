#include "validation/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>

#include "base/parallel.hpp"
#include "validation/bounds.hpp"
#include "validation/reference.hpp"

namespace ladder {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double power(double base, int exponent) {
  double result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

double norm(const double* row, int d) { return std::sqrt(std::inner_product(row, row + d, row, 0.0)); }

/// How far a kernel value may be off that was computed with unit roundoff u from inputs rounded once with v.
///
/// Write g = gamma(d + 2, u), p = 2 v + v^2 and h = p + g (1 + p): a product x.y is off by at most h |x| |y|.
///   linear      h |x| |y|.
///   polynomial  with S = gamma |x| |y| + |offset| the base is off by at most H S, H = (1 + h)(1 + gamma(3, u)) - 1,
///   and
///               |base| <= S; the power carries at most degree roundings, and as many again in a library's pow.
///   gaussian    |x - y|^2 =: q, the exponent carries two more roundings, and exp itself is off by at most 4 u.
///               Difference form: q is off by at most g q, the exponent by G = (1 + g)(1 + gamma(2, u)) - 1 relative,
///               and exp(-z (1 - G)) - exp(-z) <= G / (e (1 - G)) for all z >= 0.
///               Expanded form: q is off by at most h Q, Q = (|x| + |y|)^2 >= q; difference form of rounded inputs: by
///               ((1 + v)^2 (1 + g) - 1) Q. With either =: e_q the exponent is off by
///               t = gamma (e_q + gamma(2, u) (Q + e_q)), and the value by k (exp(t) (1 + 4 u) - 1).
/// Each grows with |y| for a given k(x, y), so the largest norm of a set serves for all its members:
/// error <= relative * |k| + absolute.
class KernelBound {
 public:
  KernelBound(const Arithmetic& arithmetic, const Kernel& kernel, int d, double u)
      : kernel_(kernel), form_(arithmetic.form), u_(u), v_(arithmetic.input_roundoff), g_(gamma(int64_t(d) + 2, u)) {
    const double p = v_ * (2 + v_);
    h_ = p + g_ * (1 + p);
  }
  struct Error {
    double relative, absolute;
  };
  Error of(double x_norm, double y_norm) const {
    switch (kernel_.form) {
      case Kernel::Form::polynomial: {
        const double most = kernel_.gamma * x_norm * y_norm + std::fabs(kernel_.offset);
        const double base = (1 + h_) * (1 + gamma(3, u_));
        return {0, power(most, kernel_.degree) *
                       (power(base, kernel_.degree) * (1 + gamma(2 * int64_t(kernel_.degree) + 2, u_)) - 1)};
      }
      case Kernel::Form::gaussian: {
        if (form_ == Arithmetic::Form::difference && v_ == 0) {
          const double off = (1 + g_) * (1 + gamma(2, u_)) - 1;
          return {4 * u_, (1 + 4 * u_) * off / ((1 - off) * std::exp(1.0))};
        }
        const double most = (x_norm + y_norm) * (x_norm + y_norm);
        const double off =
            form_ == Arithmetic::Form::expanded ? h_ * most : ((1 + v_) * (1 + v_) * (1 + g_) - 1) * most;
        const double t = kernel_.gamma * (off + gamma(2, u_) * (most + off));
        return {std::expm1(t) + 4 * u_ * std::exp(t), 0};
      }
      default:
        return {0, h_ * x_norm * y_norm};
    }
  }

 private:
  Kernel kernel_;
  Arithmetic::Form form_;
  double u_, v_, g_, h_ = 0;
};

/// The sets whose implicit means are looked for.
struct Sets {
  std::vector<CentroidPanels> members;  ///< per set
  std::vector<int32_t> size;            ///< per set
  std::vector<double> norm;             ///< per set, the largest |y|
  std::vector<double> square;           ///< per set, sum_{y, z} k(y, z)
  std::vector<double> square_magnitude;
};

/// sum_{y in set} k(x, y) and sum_{y in set} |k(x, y)|.
struct KernelSum {
  double value = 0, magnitude = 0;
};

/// k(x, y) from x.y, or from |x - y|^2 for the Gaussian.
double kernel_of(const Kernel& kernel, double sum) {
  switch (kernel.form) {
    case Kernel::Form::gaussian:
      return std::exp(-kernel.gamma * sum);
    case Kernel::Form::polynomial:
      return power(kernel.gamma * sum + kernel.offset, kernel.degree);
    default:
      return sum;
  }
}

constexpr size_t grain = 64;  // rows that stay in cache while the members of all sets go by

/// The sums of `count` <= grain rows (count x d) over one set.
void kernel_sums(const Kernel& kernel, const double* x, int count, const Sets& sets, int set, KernelSum* out) {
  constexpr int width = CentroidPanels::width;
  double value[grain * width];
  std::fill_n(out, count, KernelSum{});
  const CentroidPanels& members = sets.members[set];
  for (int panel = 0; panel < members.panels(); ++panel) {
    if (kernel.form == Kernel::Form::gaussian)
      members.distances(x, count, panel, value);
    else
      members.products(x, count, panel, value);
    const int used = std::min(width, sets.size[set] - panel * width);
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < used; ++j) {
        const double k = kernel_of(kernel, value[i * width + j]);
        out[i].value += k;
        out[i].magnitude += std::fabs(k);
      }
  }
}

/// From labels (n) or from centroids (k x d), as `Before` says.
template <class T, class Before>
Sets sets_of(const Problem<T>& problem, const Before* before) {
  const int n = problem.n, k = problem.k, d = problem.d;
  const auto kernel = problem.kernel;
  if (!kernel) throw Error("the problem has no kernel: its labels are checked against centroids");
  if (problem.metric != Metric::euclidean)
    throw Error("a kernel has a distance of its own: the metric of kernel k-means is euclidean");
  // Set j owns rows [begin[j], begin[j + 1]) of `member`.
  std::vector<double> member;
  std::vector<int32_t> begin;
  if constexpr (std::is_same_v<Before, int32_t>) {
    const Members clusters = members(before, n, k);
    begin = clusters.begin;
    member.resize(size_t(n) * d);
    for (int i = 0; i < n; ++i) std::copy_n(problem.points + size_t(clusters.rows[i]) * d, d, &member[size_t(i) * d]);
  } else {
    begin.resize(size_t(k) + 1);
    std::iota(begin.begin(), begin.end(), 0);
    member.assign(before, before + size_t(k) * d);
  }
  Sets sets{{}, std::vector<int32_t>(k), std::vector<double>(k), std::vector<double>(k), std::vector<double>(k)};

  // The squares, in pieces of rows of one set each: sum over its rows of their sums.
  struct RowRange {
    int set, begin, end;
    KernelSum sum;
  };
  std::vector<RowRange> pieces;
  for (int set = 0; set < k; ++set) {
    sets.size[set] = begin[set + 1] - begin[set];
    sets.members.emplace_back(member.data() + size_t(begin[set]) * d, sets.size[set], d);
    for (int y = begin[set]; y < begin[set + 1]; ++y)
      sets.norm[set] = std::max(sets.norm[set], norm(&member[size_t(y) * d], d));
    for (int from = begin[set], to; from < begin[set + 1]; from = to) {
      to = std::min(from + int(grain), int(begin[set + 1]));
      pieces.push_back({set, from, to, {}});
    }
  }
  parallel_for(0, pieces.size(), [&, d = d, &kernel = problem.kernel](size_t p) {
    KernelSum sum[grain];
    const int count = pieces[p].end - pieces[p].begin;
    kernel_sums(kernel, &member[size_t(pieces[p].begin) * d], count, sets, pieces[p].set, sum);
    for (int i = 0; i < count; ++i) {
      pieces[p].sum.value += sum[i].value;
      pieces[p].sum.magnitude += sum[i].magnitude;
    }
  });
  for (const RowRange& piece : pieces) {
    sets.square[piece.set] += piece.sum.value;
    sets.square_magnitude[piece.set] += piece.sum.magnitude;
  }
  return sets;
}

/// k(x, x), and the sums of one row over all sets.
struct RowSums {
  double self = 0;
  std::vector<KernelSum> set;
  /// The squared distance to a set's implicit mean; infinite where the set is empty.
  double distance(const Sets& sets, int j) const {
    const double m = sets.size[j];
    return m > 0 ? self - 2 * set[j].value / m + sets.square[j] / (m * m) : infinity;
  }
};

/// Calls use(i, x, sums) for each i of [0, count): the point row_of(i) as doubles, and its sums. In parallel.
template <class T, class RowOf, class Use>
void for_rows(const Problem<T>& problem, const Sets& sets, size_t count, const RowOf& row_of, const Use& use) {
  const int k = problem.k, d = problem.d;
  parallel_pieces(count, grain, [&](size_t, size_t begin, size_t end) {
    std::vector<double> x((end - begin) * d);
    for (size_t i = begin; i < end; ++i) std::copy_n(problem.points + row_of(i) * d, d, &x[(i - begin) * d]);
    std::vector<RowSums> rows(end - begin);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].self = kernel_value(problem.kernel, &x[i * d], &x[i * d], d);
      rows[i].set.resize(k);
    }
    KernelSum sum[grain];
    for (int j = 0; j < k; ++j) {
      kernel_sums(problem.kernel, x.data(), int(rows.size()), sets, j, sum);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].set[j] = sum[i];
    }
    for (size_t i = begin; i < end; ++i) use(i, &x[(i - begin) * d], rows[i - begin]);
  });
}

int32_t nearest(const RowSums& row, const Sets& sets) {
  int32_t best = 0;
  for (int j = 1; j < int(row.set.size()); ++j)
    if (row.distance(sets, j) < row.distance(sets, best)) best = j;
  return best;
}

/// How far a computed distance to a set's implicit mean may be off.
///
/// Let m = |C|, A the sum of k(x, y) over C, B the double sum, e the error of a kernel value, u_s the unit roundoff of
/// sums over points. A is off by at most sum e + m u_s sum |k'|. B is taken as the sum over C of such sums, so that no
/// value goes through more than 2 m additions: off by at most sum sum e + 2 m u_s sum sum |k'|. k(x, x), the same for
/// all sets, does not change which distance is least. Joining the terms, with their divisions by m and m^2, takes at
/// most six roundings with u of each of them:
///     E = 2 / m dA + dB / m^2 + gamma(6, u) (|k(x, x)| + 2 / m (|A| + dA) + (|B| + dB) / m^2).
/// Sums of magnitudes stand for |A| and |B|. The variant preferred its label L to the reference's b, so
/// D(L) <= D(b) + E(L) + E(b); the reference errs by the same formula with its own roundoffs.
class ImplicitBound {
 public:
  ImplicitBound(const Arithmetic& arithmetic, const Kernel& kernel, int d, double u, double sum_roundoff)
      : kernel_(arithmetic, kernel, d, u), join_(gamma(6, u)), sum_roundoff_(sum_roundoff) {}

  /// What A and B are off by; `of_sums`: what the reference's magnitudes, which stand for the true ones, are off by.
  struct Off {
    double a = 0, b = 0;
  };
  Off sums(const Sets& sets, const RowSums& row, int j, double x_norm, const Off& of_sums) const {
    const double m = sets.size[j];
    const auto off = [&](KernelBound::Error each, double magnitude, double values, double additions) {
      const double of_values = each.relative * magnitude + each.absolute * values;
      return of_values + additions * sum_roundoff_ * (magnitude + of_values);
    };
    return {off(kernel_.of(x_norm, sets.norm[j]), row.set[j].magnitude + of_sums.a, m, m),
            off(kernel_.of(sets.norm[j], sets.norm[j]), sets.square_magnitude[j] + of_sums.b, m * m, 2 * m)};
  }
  /// E, from what the sums are off by.
  double error(const Sets& sets, const RowSums& row, int j, const Off& off) const {
    const double m = sets.size[j];
    return 2 / m * off.a + off.b / (m * m) +
           join_ * (std::fabs(row.self) + 2 / m * (row.set[j].magnitude + off.a) +
                    (sets.square_magnitude[j] + off.b) / (m * m));
  }

 private:
  KernelBound kernel_;
  double join_, sum_roundoff_;
};

}  // namespace

double kernel_value(const Kernel& kernel, const double* x, const double* y, int d) {
  return kernel_of(
      kernel, kernel.form == Kernel::Form::gaussian ? squared_distance(x, y, d) : std::inner_product(x, x + d, y, 0.0));
}

template <class T, class Before>
LabelReport check_kernel_labels(const Problem<T>& problem, const Before* before, const int32_t* label,
                                const Rules& rules, std::span<const int32_t> rows) {
  const Arithmetic& arithmetic = rules.arithmetic;
  const Sets sets = sets_of(problem, before);
  const int k = problem.k, d = problem.d;
  const bool exact = arithmetic.form == Arithmetic::Form::exact;
  const auto or_own = [](double u) { return u > 0 ? u : roundoff<T>; };
  const ImplicitBound reference_bound({}, problem.kernel, d, reference_roundoff, reference_roundoff);
  const ImplicitBound bound = exact ? reference_bound
                                    : ImplicitBound(arithmetic, problem.kernel, d, or_own(arithmetic.distance_roundoff),
                                                    or_own(arithmetic.sum_roundoff));
  std::vector<int32_t> lowest(k);
  std::iota(lowest.begin(), lowest.end(), 0);
  if constexpr (std::is_same_v<Before, T>) lowest = lowest_equals(before, k, d);

  const size_t count = rows.empty() ? size_t(problem.n) : rows.size();
  const auto row_of = [&](size_t i) { return rows.empty() ? i : size_t(rows[i]); };
  struct Verdict {
    bool differs = false, wrong = false;
    double regret = 0;
    std::string why;
  };
  std::vector<Verdict> verdicts(count);
  for_rows(problem, sets, count, row_of, [&](size_t i, const double* x, const RowSums& row) {
    const int32_t got = label[row_of(i)], best = nearest(row, sets);
    const double least = row.distance(sets, best);
    if (!std::isfinite(least))
      throw Error("row " + std::to_string(row_of(i)) + " has kernel distances that exceed a double: scale the points");
    if (got == best) return;
    Verdict& verdict = verdicts[i];
    verdict.differs = true;
    const auto wrong = [&](const std::string& why) {
      verdict.wrong = true;
      verdict.why = "row " + std::to_string(row_of(i)) + " has label " + std::to_string(got) + ", but " + why;
    };
    if (got < 0 || got >= k)
      return wrong("labels are 0 to " + std::to_string(k - 1) + "; " + std::to_string(best) +
                   " is right, at squared distance " + number(least));
    if (sets.size[got] == 0)
      return wrong("that cluster had no points before and takes none; " + std::to_string(best) +
                   " is right, at squared distance " + number(least));
    const double regret = row.distance(sets, got) - least;
    verdict.regret = least > 0 ? regret / least : regret;
    if (lowest[got] != got)
      return wrong("centroid " + std::to_string(lowest[got]) + " has the same coordinates and a lower index");
    double allowed = 0;
    for (const int32_t j : {best, got}) {
      const double x_norm = norm(x, d);
      const ImplicitBound::Off of_reference = reference_bound.sums(sets, row, j, x_norm, {});
      allowed += reference_bound.error(sets, row, j, of_reference);
      if (!exact) allowed += bound.error(sets, row, j, bound.sums(sets, row, j, x_norm, of_reference));
    }
    allowed *= 1 + 0x1p-40;  // the roundings of the bound's own formula
    if (!(regret <= allowed))
      wrong(std::to_string(best) + " is right: squared distance " + number(least) + " instead of " +
            number(least + regret) + ", " + number(regret) + " more, where rounding (" + name_of(arithmetic.form) +
            ") explains at most " + number(allowed));
  });

  LabelReport report;
  report.rows_checked = int64_t(count);
  for (const Verdict& verdict : verdicts) {
    report.labels_differ += verdict.differs;
    report.ties += verdict.differs && !verdict.wrong;
    if (verdict.wrong && report.labels_wrong++ == 0) report.first = verdict.why;
    report.worst_regret = std::max(report.worst_regret, verdict.regret);
  }
  return report;
}
template LabelReport check_kernel_labels(const Problem<float>&, const float*, const int32_t*, const Rules&,
                                         std::span<const int32_t>);
template LabelReport check_kernel_labels(const Problem<float>&, const int32_t*, const int32_t*, const Rules&,
                                         std::span<const int32_t>);
template LabelReport check_kernel_labels(const Problem<double>&, const double*, const int32_t*, const Rules&,
                                         std::span<const int32_t>);
template LabelReport check_kernel_labels(const Problem<double>&, const int32_t*, const int32_t*, const Rules&,
                                         std::span<const int32_t>);

namespace {

/// The nearest set of each point to `label` where that is asked for, and the sum of the distances to the labels' sets.
template <class T, class Before>
double assign_and_sum(const Problem<T>& problem, const Before* before, bool assign, int32_t* label) {
  const Sets sets = sets_of(problem, before);
  std::vector<double> distance(problem.n);
  for_rows(
      problem, sets, size_t(problem.n), [](size_t i) { return i; },
      [&](size_t i, const double*, const RowSums& row) {
        if (assign) label[i] = nearest(row, sets);
        distance[i] = row.distance(sets, label[i]);
      });
  return std::accumulate(distance.begin(), distance.end(), 0.0);
}

}  // namespace

template <class T, class Before>
double kernel_inertia(const Problem<T>& problem, const Before* before, const int32_t* label) {
  std::vector<int32_t> copy(label, label + problem.n);
  return assign_and_sum(problem, before, false, copy.data());
}
template double kernel_inertia(const Problem<float>&, const float*, const int32_t*);
template double kernel_inertia(const Problem<float>&, const int32_t*, const int32_t*);
template double kernel_inertia(const Problem<double>&, const double*, const int32_t*);
template double kernel_inertia(const Problem<double>&, const int32_t*, const int32_t*);

template <class T>
KernelResult kernel_lloyd_reference(const Problem<T>& problem, const Stop& stop) {
  KernelResult result;
  result.label.assign(problem.n, -1);
  std::vector<int32_t> label(problem.n);
  do {
    result.inertia.push_back(result.iterations == 0 ? assign_and_sum(problem, problem.centroids, true, label.data())
                                                    : assign_and_sum(problem, result.label.data(), true, label.data()));
    int64_t changed = 0;
    for (int i = 0; i < problem.n; ++i) changed += label[i] != result.label[i];
    result.label = label;
    result.reassigned.push_back(changed);
  } while (!stop.reached(++result.iterations, result.reassigned.back(), problem.n));
  return result;
}
template KernelResult kernel_lloyd_reference(const Problem<float>&, const Stop&);
template KernelResult kernel_lloyd_reference(const Problem<double>&, const Stop&);

}  // namespace ladder
