#include "base/philox.hpp"

#include <bit>
#include <cmath>

#ifdef __FAST_MATH__
#error "philox.cpp promises the same bits everywhere: compile it without -ffast-math"
#endif

namespace ladder {
namespace {

/// The natural logarithm of a normal x > 0, to about 1 unit in the last place: x = 2^e * m, sqrt(1/2) <= m < sqrt(2),
/// and log m = 2 artanh(s) with s = (m - 1) / (m + 1), |s| < 0.172, whose series ends where s^23 / 23 is below 2^-60.
double logarithm(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = int(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m >= 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double series = 0;
  for (int term = 21; term >= 1; term -= 2) series = series * s2 + 1.0 / term;
  constexpr double log2_high = 0x1.62e42fefap-1, log2_low = 0x1.cf79abc9e3b39p-40;  // 33 bits, so e * high is exact
  return exponent * log2_high + (2 * s * series + exponent * log2_low);
}

template <size_t Terms>
double polynomial(const double (&coefficient)[Terms], double x) {
  double value = coefficient[Terms - 1];
  for (size_t term = Terms - 1; term-- > 0;) value = value * x + coefficient[term];
  return value;
}

// |p - 1/2| <= 0.425: z = q * A(r) / B(r), r = 0.425^2 - q^2.
constexpr double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                        1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                        3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double b[] = {1.0,
                        4.2313330701600911252e1,
                        6.8718700749205790830e2,
                        5.3941960214247511077e3,
                        2.1213794301586595867e4,
                        3.9307895800092710610e4,
                        2.8729085735721942674e4,
                        5.2264952788528545610e3};
// Otherwise z = +-C(r) / D(r), r = sqrt(-log(tail)) - 1.6, for tails down to e^-25; the smallest here is 2^-33.
constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                        3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                        2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double d[] = {1.0,
                        2.05319162663775882187e0,
                        1.67638483018380384940e0,
                        6.89767334985100004550e-1,
                        1.48103976427480074590e-1,
                        1.51986665636164571966e-2,
                        5.47593808499534494600e-4,
                        1.05075007164441684324e-9};

}  // namespace

double normal(uint32_t bits) {
  const double p = (double(bits) + 0.5) * 0x1p-32, q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-logarithm(q < 0 ? p : 1 - p)) - 1.6;
  const double z = polynomial(c, r) / polynomial(d, r);
  return q < 0 ? -z : z;
}

void normals(uint64_t seed, Stream stream, uint64_t row, size_t count, double* out) {
  for (size_t j = 0; j < count; j += 4) {
    const Words words = draw(seed, stream, row, uint32_t(j / 4));
    for (size_t l = 0; l < 4 && j + l < count; ++l) out[j + l] = normal(words[l]);
  }
}

}  // namespace ladder
