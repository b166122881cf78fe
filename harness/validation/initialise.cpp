#include "validation/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_set>

#include "base/parallel.hpp"
#include "base/philox.hpp"
#include "validation/bounds.hpp"
#include "validation/reference.hpp"

namespace ladder {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int width = CentroidPanels::width;

/// The two numbers in [0, 1) of step m of row t.
struct Pair {
  double u, a;
};
Pair numbers(uint64_t seed, Stream stream, int t, int m) {
  const Words words = draw(seed, stream, uint64_t(t), uint32_t(m));
  return {uniform_double(bits64(words[0], words[1])), uniform_double(bits64(words[2], words[3]))};
}
int32_t evenly(double u, int n) { return std::min(int32_t(u * double(n)), n - 1); }

/// Sums of weights, row after row: cumulative[i] = w_0 + ... + w_i.
int32_t row_at(const std::vector<double>& cumulative, double u) {
  const double target = u * cumulative.back();
  return int32_t(std::upper_bound(cumulative.begin(), cumulative.end(), target) - cumulative.begin());
}

/// Points as the metric sees them, and their distances to the first t of the rows drawn.
template <class T>
class Drawn {
 public:
  Drawn(const Problem<T>& problem, const std::vector<int32_t>& rows)
      : problem_(problem), panels_(make(problem, rows)) {}

  /// To each of `points` (count): the least squared distance to rows 0 .. t - 1.
  std::vector<double> least(const std::vector<int32_t>& points, int t) const {
    const int d = problem_.d, count = int(points.size());
    std::vector<double> x(size_t(count) * d), distance(size_t(count) * width), least(count, infinity);
    for (int i = 0; i < count; ++i) see(points[i], &x[size_t(i) * d]);
    for (int panel = 0; panel * width < t; ++panel) {
      panels_.distances(x.data(), count, panel, distance.data());
      const int used = std::min(width, t - panel * width);
      for (int i = 0; i < count; ++i)
        for (int j = 0; j < used; ++j) least[i] = std::min(least[i], distance[size_t(i) * width + j]);
    }
    return least;
  }
  /// The lowest row that repeats none of rows 0 .. t - 1; -1 where there is none.
  int32_t lowest_new(int t) const {
    for (int32_t i = 0; i < problem_.n; ++i)
      if (least({i}, t)[0] > 0) return i;
    return -1;
  }
  const CentroidPanels& panels() const { return panels_; }
  void see(size_t row, double* out) const {
    if (!as_seen(problem_.points + row * problem_.d, problem_.d, problem_.metric, out) &&
        problem_.metric == Metric::cosine)
      refuse_zero_row(int64_t(row));
  }

 private:
  static CentroidPanels make(const Problem<T>& problem, const std::vector<int32_t>& rows) {
    std::vector<T> chosen;
    for (const int32_t row : rows)
      chosen.insert(chosen.end(), problem.points + size_t(row) * problem.d,
                    problem.points + size_t(row + 1) * problem.d);
    return CentroidPanels(chosen.data(), int(rows.size()), problem.d, problem.metric);
  }
  const Problem<T>& problem_;
  CentroidPanels panels_;
};

int32_t lowest_not_in(const std::vector<int32_t>& rows, int t) {
  const std::set<int32_t> taken(rows.begin(), rows.begin() + t);
  int32_t row = 0;
  while (taken.contains(row)) ++row;
  return row;
}

/// The row that stands in where the draw would repeat a point.
template <class T>
int32_t stand_in(const Drawn<T>& drawn, const std::vector<int32_t>& rows, int t) {
  const int32_t row = drawn.lowest_new(t);
  return row >= 0 ? row : lowest_not_in(rows, t);
}

/// Rows of one piece of a pass over the points, and rows whose doubles stay in cache while all panels go by.
constexpr size_t piece_rows = 1024, block_rows = 64;

/// The squared distances of all points to the first row.
template <class T>
std::vector<double> first_distances(const Problem<T>& problem, int32_t first) {
  const Drawn<T> drawn(problem, {first});
  std::vector<double> result(problem.n);
  parallel_pieces(size_t(problem.n), piece_rows, [&](size_t, size_t begin, size_t end) {
    std::vector<int32_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), int32_t(begin));
    const std::vector<double> distance = drawn.least(rows, 1);
    std::copy(distance.begin(), distance.end(), result.begin() + std::ptrdiff_t(begin));
  });
  return result;
}

void make_cumulative(std::vector<double>& weights) {
  std::partial_sum(weights.begin(), weights.end(), weights.begin());
}

/// afkmc2's weights of candidates, d(i, 1) + S / N, and their sums.
struct Candidates {
  std::vector<double> distance;    ///< d(i, 1)
  std::vector<double> cumulative;  ///< of the weights
  double share = 0;                ///< S / N
  explicit Candidates(std::vector<double> distances)
      : distance(std::move(distances)),
        cumulative(distance.size()),
        share(std::accumulate(distance.begin(), distance.end(), 0.0) / double(distance.size())) {
    for (size_t i = 0; i < distance.size(); ++i) cumulative[i] = distance[i] + share;
    make_cumulative(cumulative);
  }
  double weight(int32_t row) const { return distance[row] + share; }
  int32_t at(double u) const { return share > 0 ? row_at(cumulative, u) : evenly(u, int(distance.size())); }
};

/// Where the chain of row t ends, and at which distance.
struct End {
  int32_t row;
  double distance;
};
template <class T>
End chain(const Drawn<T>& drawn, const Candidates& q, uint64_t seed, int t) {
  std::vector<int32_t> rows(afkmc2_chain);
  std::vector<double> a(afkmc2_chain);
  for (int m = 0; m < afkmc2_chain; ++m) {
    const Pair pair = numbers(seed, Stream::afkmc2, t, m);
    rows[m] = q.at(pair.u);
    a[m] = pair.a;
  }
  const std::vector<double> distance = drawn.least(rows, t);
  int x = 0;
  for (int y = 1; y < afkmc2_chain; ++y)
    if (distance[y] * q.weight(rows[x]) > a[y] * distance[x] * q.weight(rows[y])) x = y;
  return {rows[x], distance[x]};
}

template <class T>
std::vector<int32_t> draw_kmeanspp(const Problem<T>& problem) {
  std::vector<int32_t> rows{evenly(numbers(problem.seed, Stream::kmeanspp, 0, 0).u, problem.n)};
  std::vector<double> least(problem.n, infinity), cumulative;
  while (int(rows.size()) < problem.k) {
    const std::vector<double> latest = first_distances(problem, rows.back());
    for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], latest[i]);
    cumulative = least;
    make_cumulative(cumulative);
    const int t = int(rows.size());
    rows.push_back(cumulative.back() > 0 ? row_at(cumulative, numbers(problem.seed, Stream::kmeanspp, t, 0).u)
                                         : lowest_not_in(rows, t));
  }
  return rows;
}

template <class T>
std::vector<int32_t> draw_afkmc2(const Problem<T>& problem) {
  std::vector<int32_t> rows{evenly(numbers(problem.seed, Stream::afkmc2, 0, 0).u, problem.n)};
  const Candidates q(first_distances(problem, rows[0]));
  while (int(rows.size()) < problem.k) {
    const int t = int(rows.size());
    const Drawn<T> drawn(problem, rows);
    const End end = chain(drawn, q, problem.seed, t);
    rows.push_back(end.distance > 0 ? end.row : stand_in(drawn, rows, t));
  }
  return rows;
}

/// How far weights and their sums may be off.
///
/// A weight is a distance: bound.error(w, |x|, |c|) =: e. In w and |x| + |c| it is a w + b (|x| + |c|) sqrt w +
/// c (|x| + |c|)^2 and constants, so by Cauchy and Schwarz the sum over N points is at most N times that of the mean
/// weight W / N, of the root mean square of |x| and of the largest |c|: e_W. A minimum over several distances is off by
/// no more than the worst of them. Every partial sum of weights is then off by at most e_W + N u_s (W + e_W) in the
/// variant, u_s the roundoff of sums over points, and N 2^-53 W in the reference; u times the sum takes one more
/// rounding in each. A row is drawn where the number lies between two such sums, so each border may be off by `border`.
class DrawBound {
 public:
  template <class T>
  DrawBound(const Problem<T>& problem, const Rules& rules, const std::vector<int32_t>& rows)
      : bound_(DistanceBound::of<T>(usable(rules.arithmetic), problem.metric, problem.d)),
        expanded_(rules.arithmetic.form == Arithmetic::Form::expanded),
        n_(problem.n),
        u_(rules.arithmetic.distance_roundoff > 0 ? rules.arithmetic.distance_roundoff : roundoff<T>),
        sum_roundoff_(rules.arithmetic.sum_roundoff > 0 ? rules.arithmetic.sum_roundoff : roundoff<T>) {
    if (double(n_) * sum_roundoff_ >= 0.25)
      throw Error(
          "sums over " + std::to_string(n_) + " points with a unit roundoff of " + number(sum_roundoff_) +
          " have no useful error bound: add the weights up in a better arithmetic and declare its sum_roundoff");
    if (!bound_.needs_norms()) return;
    constexpr size_t grain = 4096;
    std::vector<double> squares(pieces(size_t(n_), grain));
    const int d = problem.d;
    const auto square = [d](const T* row) {
      double sum = 0;
      for (int f = 0; f < d; ++f) sum += double(row[f]) * double(row[f]);
      return sum;
    };
    parallel_pieces(size_t(n_), grain, [&](size_t piece, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) squares[piece] += square(problem.points + i * d);
    });
    const double slack = 1 + (double(n_) + d) * reference_roundoff;
    x_norm_ = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0) / n_) * slack;
    for (const int32_t row : rows)
      c_norm_ = std::max(c_norm_, std::sqrt(square(problem.points + size_t(row) * d)) * slack);
  }
  /// Of a single distance; `x_norm`: of that point.
  double of(double distance, double x_norm) const { return bound_.error(distance, x_norm, c_norm_); }
  /// e_W of weights that add up to `total`.
  double of_weights(double total) const { return n_ * of(total / n_, x_norm_); }
  double border(double total, double of_weights) const {
    const double n = n_ + 2.0;
    return 2 * (of_weights + n * sum_roundoff_ * (total + of_weights) + n * reference_roundoff * total);
  }
  double border(double total) const { return border(total, of_weights(total)); }
  /// Is the distance of a point to its equal computed as zero? Differences are; norms and products need not cancel.
  bool equals_are_at_zero() const { return !expanded_; }
  /// The unit roundoff of what is made of distances.
  double roundoff_of_products() const { return u_; }

 private:
  /// The exact form says how labels are found, not how weights are: those it computes plainly.
  static Arithmetic usable(Arithmetic arithmetic) {
    if (arithmetic.form == Arithmetic::Form::exact) arithmetic.form = Arithmetic::Form::difference;
    return arithmetic;
  }
  DistanceBound bound_;
  bool expanded_;
  int n_;
  double u_, sum_roundoff_, x_norm_ = 0, c_norm_ = 0;
};

enum class Verdict { right, tie, wrong };

/// For each row of kmeanspp: the weights' sum, and the sums before it and with it.
struct Interval {
  double total = 0, before = 0, weight = 0;
};

/// All rows' intervals in one pass over the points. Each piece of rows adds up its own weights for every t.
template <class T>
std::vector<Interval> intervals(const Problem<T>& problem, const std::vector<int32_t>& rows) {
  const int n = problem.n, k = problem.k, d = problem.d;
  const Drawn<T> drawn(problem, rows);
  const size_t count = pieces(size_t(n), piece_rows);
  std::vector<double> sums(count * k);
  std::vector<Interval> result(k);
  parallel_pieces(size_t(n), piece_rows, [&](size_t piece, size_t begin, size_t end) {
    std::vector<double> x(block_rows * d), least(block_rows), distance(block_rows * width);
    double* sum = &sums[piece * k];
    for (size_t from = begin, to; from < end; from = to) {
      to = std::min(from + block_rows, end);
      for (size_t i = from; i < to; ++i) drawn.see(i, &x[(i - from) * d]);
      std::fill(least.begin(), least.end(), infinity);
      for (int t = 0; t < k; ++t) {
        if (t % width == 0) drawn.panels().distances(x.data(), int(to - from), t / width, distance.data());
        const bool holds = rows[t] >= int64_t(from) && rows[t] < int64_t(to);
        for (size_t i = from; i < to; ++i) {
          double& weight = least[i - from];
          if (t > 0) {
            if (holds && int64_t(i) == rows[t]) {
              result[t].before = sum[t];
              result[t].weight = weight;
            }
            sum[t] += weight;
          }
          weight = std::min(weight, distance[(i - from) * width + t % width]);
        }
      }
    }
  });
  for (int t = 1; t < k; ++t) {
    double before = 0;
    for (size_t piece = 0; piece < count; ++piece) {
      if (piece == size_t(rows[t]) / piece_rows) result[t].before += before;
      before += sums[piece * k + t];
    }
    result[t].total = before;
  }
  return result;
}

template <class T>
std::vector<Verdict> check_kmeanspp(const Problem<T>& problem, const std::vector<int32_t>& rows,
                                    const DrawBound& bound) {
  std::vector<Verdict> verdicts(problem.k, Verdict::right);
  if (rows[0] != evenly(numbers(problem.seed, Stream::kmeanspp, 0, 0).u, problem.n)) verdicts[0] = Verdict::wrong;
  const std::vector<Interval> found = intervals(problem, rows);
  for (int t = 1; t < problem.k; ++t) {
    const auto [total, before, weight] = found[t];
    if (!std::isfinite(total)) throw Error("squared distances add up to more than a double holds: scale the points");
    if (total == 0) {  // no point is new
      if (rows[t] != lowest_not_in(rows, t)) verdicts[t] = bound.equals_are_at_zero() ? Verdict::wrong : Verdict::tie;
      continue;
    }
    const double target = numbers(problem.seed, Stream::kmeanspp, t, 0).u * total, off = bound.border(total);
    if (weight == 0 || target < before - off || target >= before + weight + off)
      verdicts[t] = Verdict::wrong;
    else if (target < before || target >= before + weight)
      verdicts[t] = Verdict::tie;
  }
  return verdicts;
}

/// Everything that a chain may end with, where comparisons within the bound go either way.
template <class T>
class Possible {
 public:
  Possible(const Problem<T>& problem, const Drawn<T>& drawn, const Candidates& q, const DrawBound& bound)
      : problem_(problem), drawn_(drawn), q_(q), bound_(bound) {
    const double sum = q.share * problem.n, of_sum = bound.of_weights(sum);
    border_ = bound.border(2 * sum, 2 * of_sum);
    share_off_ = (of_sum + problem.n * (reference_roundoff + roundoff<T>)*sum) / problem.n;
  }
  std::set<int32_t> ends(int t) {
    known_.clear();
    std::set<int32_t> states;
    for (int m = 0; m < afkmc2_chain; ++m) {
      const Pair pair = numbers(problem_.seed, Stream::afkmc2, t, m);
      const std::vector<int32_t> rows = near(pair.u);
      look_up(rows, t);
      if (m == 0) {
        states.insert(rows.begin(), rows.end());
        continue;
      }
      std::set<int32_t> next;
      for (const int32_t x : states)
        for (const int32_t y : rows) {
          const Verdict replaced = replaces(x, y, pair.a);
          if (replaced != Verdict::wrong) next.insert(y);
          if (replaced != Verdict::right) next.insert(x);
        }
      states = std::move(next);
    }
    return states;
  }
  /// May the variant take the distance of this end for zero?
  bool may_be_zero(int32_t row) const { return known_.at(row).low <= 0; }

 private:
  /// What the variant's numbers for a row may be.
  struct Known {
    double low, high;      ///< d(row, t)
    double q_low, q_high;  ///< its weight
  };
  std::vector<int32_t> near(double u) const {
    if (q_.share == 0) return {evenly(u, problem_.n)};
    const auto& sums = q_.cumulative;
    const double target = u * sums.back();
    const auto first = std::upper_bound(sums.begin(), sums.end(), target - border_);
    const auto last = std::upper_bound(sums.begin(), sums.end(), target + border_);
    const auto count = std::min(last, sums.end() - 1) - first + 1;
    constexpr int most = 2000;
    if (count > most)
      throw Error("the declared arithmetic leaves " + std::to_string(count) + " of " + std::to_string(problem_.n) +
                  " points for one number of the chain: no draw can be checked; declare its roundoffs as they are");
    std::vector<int32_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), int32_t(first - sums.begin()));
    return rows;
  }
  void look_up(const std::vector<int32_t>& rows, int t) {
    std::vector<int32_t> unknown;
    for (const int32_t row : rows)
      if (!known_.contains(row)) unknown.push_back(row);
    const std::vector<double> distance = drawn_.least(unknown, t);
    for (size_t i = 0; i < unknown.size(); ++i) {
      const T* x = problem_.points + size_t(unknown[i]) * problem_.d;
      const double x_norm = std::sqrt(std::inner_product(x, x + problem_.d, x, 0.0, std::plus<>(),
                                                         [](T a, T b) { return double(a) * double(b); })) *
                            (1 + problem_.d * reference_roundoff);
      const double off = bound_.of(distance[i], x_norm);
      const double first = q_.distance[unknown[i]], of_weight = bound_.of(first, x_norm) + share_off_;
      const double weight = first + q_.share;
      known_[unknown[i]] = {distance[i] - off, distance[i] + off, weight - of_weight, weight + of_weight};
    }
  }
  /// Does y take the place of x: d(y) q(x) > a d(x) q(y)? Each side takes three roundings, q one.
  Verdict replaces(int32_t x, int32_t y, double a) const {
    const Known &of_x = known_.at(x), &of_y = known_.at(y);
    const auto product = [](double p, double q) { return std::max(0.0, p) * std::max(0.0, q); };
    const double rounding = 1 + gamma(6, std::max(bound_.roundoff_of_products(), reference_roundoff));
    const double gain_low = product(of_y.low, of_x.q_low) / rounding,
                 gain_high = product(of_y.high, of_x.q_high) * rounding;
    const double need_low = a * product(of_x.low, of_y.q_low) / rounding,
                 need_high = a * product(of_x.high, of_y.q_high) * rounding;
    if (gain_low > need_high) return Verdict::right;
    return gain_high > need_low ? Verdict::tie : Verdict::wrong;
  }

  const Problem<T>& problem_;
  const Drawn<T>& drawn_;
  const Candidates& q_;
  const DrawBound& bound_;
  double border_, share_off_;
  std::map<int32_t, Known> known_;
};

template <class T>
std::vector<Verdict> check_afkmc2(const Problem<T>& problem, const std::vector<int32_t>& rows, const DrawBound& bound) {
  std::vector<Verdict> verdicts(problem.k, Verdict::right);
  if (rows[0] != evenly(numbers(problem.seed, Stream::afkmc2, 0, 0).u, problem.n)) verdicts[0] = Verdict::wrong;
  const Candidates q(first_distances(problem, rows[0]));
  if (!std::isfinite(q.cumulative.back()))
    throw Error("squared distances add up to more than a double holds: scale the points");
  const Drawn<T> drawn(problem, rows);
  parallel_for(1, size_t(problem.k), [&](size_t at) {
    const int t = int(at);
    const int32_t got = rows[t];
    const bool repeats = drawn.least({got}, t)[0] == 0;
    const End end = chain(drawn, q, problem.seed, t);
    if (repeats || end.distance == 0) {
      const int32_t right = end.distance > 0 ? end.row : stand_in(drawn, rows, t);
      if (got == right) return;
      // Where no point is new, rounding errors are all that the expanded form can choose by.
      if (repeats) {
        const bool none_new = drawn.lowest_new(t) < 0;
        verdicts[t] = none_new && !bound.equals_are_at_zero() ? Verdict::tie : Verdict::wrong;
        return;
      }
    } else if (got == end.row) {
      return;
    }
    Possible<T> possible(problem, drawn, q, bound);
    const std::set<int32_t> ends = possible.ends(t);
    const bool may_stand_in =
        std::any_of(ends.begin(), ends.end(), [&](int32_t x) { return possible.may_be_zero(x); }) &&
        got == stand_in(drawn, rows, t);
    verdicts[t] = ends.contains(got) || may_stand_in ? Verdict::tie : Verdict::wrong;
  });
  return verdicts;
}

}  // namespace

template <class T>
std::vector<int32_t> draw_reference(const Problem<T>& problem, Draws draws) {
  refuse_zero_rows(problem);
  if (draws == Draws::kmeanspp) return draw_kmeanspp(problem);
  if (draws == Draws::afkmc2) return draw_afkmc2(problem);
  throw Error("the reference draws by kmeanspp and afkmc2; uniform rows are drawn by initial_centroids");
}
template std::vector<int32_t> draw_reference(const Problem<float>&, Draws);
template std::vector<int32_t> draw_reference(const Problem<double>&, Draws);

template <class T>
InitialReport check_initialisation(const Problem<T>& problem, Draws draws, const int32_t* chosen, const T* centroids,
                                   const T* uniform, const Rules& rules) {
  if (draws == Draws::nothing) throw Error("the card says that nothing is drawn: set .draws to how `initialise` draws");
  const int n = problem.n, k = problem.k, d = problem.d;
  InitialReport report;
  report.rows_checked = k;
  std::vector<std::string> fault(k);
  const auto finish = [&] {
    for (int t = 0; t < k; ++t)
      if (!fault[t].empty() && report.rows_wrong++ == 0)
        report.first = "centroid " + std::to_string(t) + " is row " + std::to_string(chosen[t]) + ", " + fault[t];
    return report;
  };

  const std::vector<int32_t> rows(chosen, chosen + k);
  std::unordered_set<int32_t> taken;
  bool all_exist = true;
  for (int t = 0; t < k; ++t) {
    if (rows[t] < 0 || rows[t] >= n) {
      fault[t] = "but rows are 0 to " + std::to_string(n - 1);
      all_exist = false;
    } else if (!taken.insert(rows[t]).second) {
      fault[t] = "which was drawn before";
    } else if (std::memcmp(centroids + size_t(t) * d, problem.points + size_t(rows[t]) * d, d * sizeof(T)) != 0) {
      fault[t] = "but does not have its values bit by bit";
    }
  }
  if (!all_exist) return finish();

  if (draws == Draws::uniform) {
    for (int t = 0; t < k; ++t)
      if (fault[t].empty() && std::memcmp(centroids + size_t(t) * d, uniform + size_t(t) * d, d * sizeof(T)) != 0)
        fault[t] = "but seed " + std::to_string(problem.seed) + " draws another point";
    return finish();
  }

  refuse_zero_rows(problem);
  const DrawBound bound(problem, rules, rows);
  const std::vector<Verdict> verdicts =
      draws == Draws::kmeanspp ? check_kmeanspp(problem, rows, bound) : check_afkmc2(problem, rows, bound);
  for (int t = 0; t < k; ++t) {
    if (!fault[t].empty()) continue;
    report.ties += verdicts[t] == Verdict::tie;
    if (verdicts[t] == Verdict::wrong)
      fault[t] = std::string("which seed ") + std::to_string(problem.seed) + " does not draw by " +
                 (draws == Draws::kmeanspp ? "kmeanspp" : "afkmc2") + (t > 0 ? " after the rows before it" : "");
  }
  return finish();
}
template InitialReport check_initialisation(const Problem<float>&, Draws, const int32_t*, const float*, const float*,
                                            const Rules&);
template InitialReport check_initialisation(const Problem<double>&, Draws, const int32_t*, const double*, const double*,
                                            const Rules&);

}  // namespace ladder
