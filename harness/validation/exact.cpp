#include "validation/exact.hpp"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>

#include "validation/bounds.hpp"

namespace ladder {
namespace {

using boost::multiprecision::cpp_int;

/// A finite value is mantissa x 2^exponent.
struct Binary {
  int64_t mantissa;
  int exponent;
  explicit Binary(double value) {
    constexpr int digits = std::numeric_limits<double>::digits;
    mantissa = int64_t(std::ldexp(std::frexp(value, &exponent), digits));
    exponent -= digits;
  }
};

/// The least exponent of any value: a row becomes whole numbers in units of 2^lowest.
template <class T>
int lowest_exponent(std::initializer_list<const T*> rows, int d) {
  int lowest = std::numeric_limits<int>::max();
  for (const T* row : rows)
    for (int f = 0; f < d; ++f)
      if (row[f] != 0) lowest = std::min(lowest, Binary(double(row[f])).exponent);
  return lowest;
}
cpp_int whole(double value, int lowest) {
  if (value == 0) return 0;
  const Binary binary(value);
  return cpp_int(binary.mantissa) << (binary.exponent - lowest);
}

template <class T>
int compare_distances(const T* x, const T* a, const T* b, int d) {
  const int lowest = lowest_exponent({x, a, b}, d);
  cpp_int difference = 0;
  for (int f = 0; f < d; ++f) {
    if (a[f] == b[f]) continue;
    const cpp_int point = whole(x[f], lowest), to_a = point - whole(a[f], lowest), to_b = point - whole(b[f], lowest);
    difference += to_a * to_a - to_b * to_b;
  }
  return difference.sign();
}

/// The cosine of x and c grows with (x.c)^2 / |c|^2 and the sign of x.c. Each row has a unit of its own, which does not
/// change its direction.
template <class T>
int compare_cosines(const T* x, const T* a, const T* b, int d) {
  const int units[] = {lowest_exponent({x}, d), lowest_exponent({a}, d), lowest_exponent({b}, d)};
  cpp_int product_a = 0, product_b = 0, square_a = 0, square_b = 0;
  for (int f = 0; f < d; ++f) {
    const cpp_int point = whole(x[f], units[0]), of_a = whole(a[f], units[1]), of_b = whole(b[f], units[2]);
    product_a += point * of_a, square_a += of_a * of_a;
    product_b += point * of_b, square_b += of_b * of_b;
  }
  const cpp_int score_a = product_a * abs(product_a) * square_b, score_b = product_b * abs(product_b) * square_a;
  return score_b.compare(score_a) > 0 ? 1 : score_b == score_a ? 0 : -1;
}

}  // namespace

template <class T>
int compare_exactly(const T* x, const T* a, const T* b, int d, Metric metric) {
  if (std::equal(a, a + d, b)) return 0;
  return metric == Metric::cosine ? compare_cosines(x, a, b, d) : compare_distances(x, a, b, d);
}
template int compare_exactly(const float*, const float*, const float*, int, Metric);
template int compare_exactly(const double*, const double*, const double*, int, Metric);

namespace {

/// The first value of points and initial centroids that `allowed` does not allow, and `why`. Empty where it allows all.
template <class T, class Allowed>
std::string first_beyond(const Problem<T>& problem, const Allowed& allowed, const std::string& why) {
  const auto fault = [&](const T* values, int rows, const char* row) -> std::string {
    for (size_t at = 0; values && at < size_t(rows) * problem.d; ++at)
      if (!allowed(std::fabs(double(values[at]))))
        return row + std::to_string(at / problem.d) + ", column " + std::to_string(at % problem.d) + " holds " +
               number(double(values[at])) + ": " + why + "; multiply points and centroids by a power of two";
    return "";
  };
  const std::string of_points = fault(problem.points, problem.n, "row ");
  return of_points.empty() ? fault(problem.centroids, problem.k, "centroid ") : of_points;
}

}  // namespace

template <class T>
std::string beyond_exact_labels(const Problem<T>& problem) {
  if constexpr (sizeof(T) == sizeof(float)) return "";
  return first_beyond(
      problem, [](double size) { return size == 0 || (size >= 0x1p-400 && size <= 0x1p500); },
      "exact labels of doubles need values of magnitude 2^-400 (3.9e-121) to 2^500 (3.3e150), or 0, as squares of "
      "others under- or overflow");
}
template std::string beyond_exact_labels(const Problem<float>&);
template std::string beyond_exact_labels(const Problem<double>&);

template <class T>
std::string beyond_validation(const Problem<T>& problem) {
  if constexpr (sizeof(T) == sizeof(float)) return "";
  const double largest = std::sqrt(std::numeric_limits<double>::max() / problem.d) / 4;
  return first_beyond(
      problem, [=](double size) { return !(size > largest); },  // what is not finite is found elsewhere
      "squared distances over " + std::to_string(problem.d) +
          " features, which the validation needs, overflow beyond " + number(largest));
}
template std::string beyond_validation(const Problem<float>&);
template std::string beyond_validation(const Problem<double>&);

}  // namespace ladder
