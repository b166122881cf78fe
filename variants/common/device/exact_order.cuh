// Which of two centroids is nearer to a point, exactly: by double-double where its error bound decides, else in double
// where that loses no bit, else in whole numbers, where nothing is rounded. The order is that of real numbers, so it is
// transitive, and equal means equal. v25_refine introduces it.
//
//     |x - a|^2 - |x - b|^2 = sum over f of  a_f^2 - b_f^2 + 2 x_f b_f - 2 x_f a_f
//
// Each product of two values is a whole number times a power of two. Its binary digits are added to words of 64 bits,
// word w in units of 2^(32 w + lowest): less than 2^32 per product, so 2^27 features are too few for an overflow. A
// pair takes some 200 instructions per feature where a and b differ, so this is for pairs that nothing else decides.
#pragma once
#include "double_double.cuh"
#include "warp.cuh"

namespace ladder {

/// A finite value as mantissa x 2^exponent.
struct WholeValue {
  unsigned long long mantissa;
  int exponent;
  bool negative;
  __device__ explicit WholeValue(float x) {
    const unsigned bits = __float_as_uint(x);
    const int stored = int(bits >> 23) & 255;
    mantissa = (bits & 0x7fffffu) | (stored > 0 ? 1u << 23 : 0), exponent = max(stored, 1) - 150, negative = bits >> 31;
  }
  __device__ explicit WholeValue(double x) {
    const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
    const int stored = int(bits >> 52) & 2047;
    mantissa = (bits & ((1ull << 52) - 1)) | (stored > 0 ? 1ull << 52 : 0);
    exponent = max(stored, 1) - 1075, negative = bits >> 63;
  }
};

/// A sum of products of values of type T, in whole numbers. All floats have a place. Doubles have one if their bits lie
/// between 2^-540 and 2^501: points from 2^-400 to 2^500 and means of these do (docs/certificate.md, H1).
template <class T>
struct WholeSum {
  static constexpr int lowest = sizeof(T) == 4 ? -298 : -1080, words = sizeof(T) == 4 ? 18 : 66;
  long long word[words] = {};

  /// Adds 2^doublings p q, or subtracts it: of doubles, the four products of their halves.
  __device__ void add(const WholeValue& p, const WholeValue& q, int doublings, bool subtract) {
    constexpr int halves = sizeof(T) == 4 ? 1 : 2, half_bits = 27;
    constexpr unsigned long long half = (1ull << half_bits) - 1;
    const bool negative = (p.negative != q.negative) != subtract;
#pragma unroll 1  // short code, few registers; below, too
    for (int e = 0; e < halves * halves; ++e) {
      const int first = e % halves * half_bits, second = e / halves * half_bits;
      unsigned long long product = (p.mantissa >> first & half) * (q.mantissa >> second & half);
      if (product == 0) continue;
      const int place = p.exponent + first + q.exponent + second + doublings - lowest, shift = place % 32;
      int w = place / 32;
      const auto put = [&](unsigned long long digits) {
        const auto digit = static_cast<long long>(digits & 0xffffffffull);
        word[w++] += negative ? -digit : digit;
      };
      put(product << shift);
      for (product >>= 32 - shift; product != 0; product >>= 32) put(product);
    }
  }
  /// Adds a^2 - b^2.
  __device__ void add_squares(T a, T b) {
    if (a == b) return;
#pragma unroll 1
    for (int e = 0; e < 2; ++e, a = b) add(WholeValue(a), WholeValue(a), 0, e);
  }
  /// Adds 2 x (b - a).
  __device__ void add_products(T x, T a, T b) {
    if (a == b) return;
#pragma unroll 1
    for (int e = 0; e < 2; ++e, b = a) add(WholeValue(x), WholeValue(b), 1, e);
  }
  /// -1, 0 or 1: the sign of the sum; of one lane, or of what all lanes of a warp hold.
  template <int lanes>
  __device__ int sign() const {
    static_assert(lanes == 1 || lanes == warp_lanes);
    long long carry = 0;
    bool any = false;
#pragma unroll 1
    for (int w = 0; w < words; ++w) {
      const long long sum = (lanes == 1 ? word[w] : warp_sum(word[w])) + carry;
      any |= (sum & 0xffffffffll) != 0;
      carry = sum >> 32;  // rounds down
    }
    return carry < 0 ? -1 : any || carry > 0;
  }
};

/// The sign of |x - a|^2 - |x - b|^2 where sums in double lose no bit, as those of small whole numbers do; 2 where one
/// does. With (a - b) (a + b - 2 x) for each feature.
template <int lanes, class T>
__device__ int sign_in_double(const T* x, const T* a, const T* b, int d) {
  double sum = 0;
  bool exact = true;
  const auto kept = [&](const DoubleDouble& value) { return exact = exact && value.low == 0, value.high; };
#pragma unroll 1
  for (int f = lanes == 1 ? 0 : int(threadIdx.x % lanes); f < d; f += lanes) {
    const double apart = kept(two_sum(a[f], -double(b[f])));
    const double around = kept(two_sum(kept(two_sum(a[f], b[f])), -2 * double(x[f])));
    const double product = __dmul_rn(apart, around);
    exact = exact && (fabs(product) >= 0x1p-900 || apart == 0 || around == 0);  // else its error may underflow
    sum = kept(two_sum(sum, kept({product, __fma_rn(apart, around, -product)})));
  }
  for (int step = lanes / 2; step > 0; step /= 2) sum = kept(two_sum(sum, __shfl_xor_sync(all_lanes, sum, step)));
  exact = lanes == 1 ? exact : __all_sync(all_lanes, exact);
  return !exact ? 2 : sum < 0 ? -1 : sum > 0;
}

/// The sign of |x - a|^2 - |x - b|^2: by one lane, or by a warp whose lanes all have the same arguments. Not inlined,
/// so that a kernel has the registers and the code of what it usually does.
template <int lanes, class T>
__attribute__((noinline)) __device__ int exact_order(const T* x, const T* a, const T* b, int d) {
  if (const int sign = sign_in_double<lanes>(x, a, b, d); sign < 2) return sign;
  WholeSum<T> sum;
#pragma unroll 1
  for (int f = lanes == 1 ? 0 : int(threadIdx.x % lanes); f < d; f += lanes)
    sum.add_squares(a[f], b[f]), sum.add_products(x[f], a[f], b[f]);
  return sum.template sign<lanes>();
}

/// A centroid and its squared distance to a point, in double-double.
struct Exact {
  DoubleDouble distance{std::numeric_limits<double>::infinity(), 0};
  int centroid = std::numeric_limits<int>::max();
};

/// Whether centroid a is nearer than b, or as near and of lower index. The distances are sums over d features, added up
/// in any order: each is off by less than (3 d + 6) 2^-106 of itself, and where products underflow, by less than
/// 2^-1070 for each feature. What that leaves open, or an overflow, order(i, j) decides: the sign of the difference of
/// the squared distances of the centroids i and j.
template <class Order>
__device__ bool nearer(const Exact& a, const Exact& b, int d, const Order& order) {
  if (b.centroid == std::numeric_limits<int>::max()) return true;
  const DoubleDouble difference = add(b.distance, {-a.distance.high, -a.distance.low});
  const double unknown = (d + 8) * (0x1p-102 * max(a.distance.high, b.distance.high) + 0x1p-1000);
  if (difference.high > unknown) return true;
  if (difference.high < -unknown) return false;
  const int sign = order(a.centroid, b.centroid);
  return sign < 0 || (sign == 0 && a.centroid < b.centroid);
}

/// The same for a point x among the centroids c, k x d, row-major; `lanes` as for exact_order().
template <int lanes, class T>
__device__ bool nearer(const Exact& a, const Exact& b, const T* x, const T* c, int d) {
  return nearer(a, b, d,
                [&](int i, int j) { return exact_order<lanes>(x, c + int64_t(i) * d, c + int64_t(j) * d, d); });
}

/// Whether of the centroids c (k x d, row-major) the one with index i is nearer to x than j, or as near and i < j;
/// `lanes` as for exact_order(). Not inlined either: the caller keeps indices, and no distances.
template <int lanes, class T>
__attribute__((noinline)) __device__ bool nearer(int i, int j, const T* x, const T* c, int d) {
  const auto exact = [&](int index) {
    const DoubleDouble sum = exact_distance(x, c + int64_t(index) * d, d, int(threadIdx.x % lanes), lanes);
    return Exact{lanes == 1 ? sum : exact_warp_sum(sum), index};
  };
  return nearer<lanes>(exact(i), exact(j), x, c, d);
}

}  // namespace ladder
