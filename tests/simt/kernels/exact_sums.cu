// Exact sums: the format that holds them, the means that come out, and updates of which each bit must be the same.
#include <gtest/gtest.h>
#include <simt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../../../variants/common/update/segmented.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

using Wide = __int128;

/// The words of a sum of `values`, as the kernel makes them.
std::vector<unsigned long long> words_of(const std::vector<double>& values, const FixedPoint& format) {
  std::vector<unsigned long long> sum(FixedPoint::most_words);
  for (const double x : values)
    for_digits(x, format, [&](int w, long long digit) { sum.at(size_t(w)) += static_cast<unsigned long long>(digit); });
  return sum;
}

/// The range of all values, as the kernel finds it.
FixedPoint format_of(const std::vector<double>& values) {
  int low = 5000, high = -5000;
  for (const double x : values) {
    if (x == 0) continue;
    low = std::min(low, Parts(x).low()), high = std::max(high, Parts(x).high());
  }
  return low < high ? FixedPoint::of(int(values.size()), low, high) : FixedPoint{};
}

/// The sum as a whole number of 2^low.
Wide exact(const std::vector<double>& values, int low) {
  Wide sum = 0;
  for (const double x : values) {
    int exponent = 0;
    const auto mantissa = static_cast<Wide>(std::ldexp(std::frexp(x, &exponent), 53));
    const int shift = exponent - 53 - low;
    sum += shift >= 0 ? mantissa << shift : mantissa >> -shift;
  }
  return sum;
}

std::vector<double> drawn(int count, int binades, uint64_t seed, bool with_signs = true) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double x = std::ldexp(double(random() >> 11), -53 - int(random() % unsigned(binades)));
    values.push_back(with_signs && random() % 2 ? -x : x);
  }
  return values;
}

TEST(FixedPoint, LeavesRoomForEverySum) {
  for (const int n : {1, 2, 3, 4, 5, 1000, 1024, 1025, 300000, 1 << 30, 2147483647}) {
    const FixedPoint format = FixedPoint::of(n, 0, 53);
    EXPECT_LT(Wide(n) * ((Wide(1) << format.bits) - 1), Wide(1) << 63) << n;
    if (format.bits < 62) {
      EXPECT_GE(Wide(n) * ((Wide(1) << (format.bits + 1)) - 1), Wide(1) << 63) << n << ": a bit is given away";
    }
    EXPECT_GE(format.words * format.bits, 53);
    EXPECT_LT((format.words - 1) * format.bits, 53);
  }
}

TEST(FixedPoint, DigitsAreTheValue) {
  for (const int n : {1, 3, 1000, 300000, 2147483647}) {
    std::vector<double> values = drawn(300, 40, 3);
    values.insert(values.end(), {0, -0.0, 1, -1, 0x1p-60, -(1 - 0x1p-53), 0x1.fffffffffffffp-40});
    int low = 5000, high = -5000;
    for (const double x : values)
      if (x != 0) low = std::min(low, Parts(x).low()), high = std::max(high, Parts(x).high());
    const FixedPoint format = FixedPoint::of(n, low, high);
    ASSERT_LE(high - low, 120);
    for (const double x : values) {
      Wide whole = 0;
      for_digits(x, format, [&](int w, long long digit) {
        ASSERT_LT(w, format.words);
        ASSERT_LT(std::abs(digit), 1ll << format.bits);
        ASSERT_NE(digit, 0);
        whole += Wide(digit) << (w * format.bits);
      });
      ASSERT_EQ(whole, exact({x}, low)) << x;
    }
  }
}

// Both ends of the range, subnormals included: what is lowest, and where it begins to be higher than all.
TEST(FixedPoint, KnowsWhereAValueBeginsAndEnds) {
  EXPECT_EQ(Parts(1).low(), 0);
  EXPECT_EQ(Parts(1).high(), 1);
  EXPECT_EQ(Parts(-6).low(), 1);
  EXPECT_EQ(Parts(-6).high(), 3);
  EXPECT_EQ(Parts(0x1p-1074).low(), -1074);
  EXPECT_EQ(Parts(0x1p-1074).high(), -1073);
  EXPECT_EQ(Parts(std::numeric_limits<double>::max()).high(), 1024);
  EXPECT_EQ(Parts(double(std::numeric_limits<float>::denorm_min())).low(), -149);
}

// All values at their largest: the very sum that one bit more in each word would have overflow.
TEST(FixedPoint, TheLargestSumFits) {
  for (const int n : {2, 3, 1000, 4097}) {
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> values(size_t(n), sign * 0x1.fffffffffffffp+60);
      values[0] = sign * 1;
      const FixedPoint format = format_of(values);
      const double mean = mean_of<double>(SumWords(words_of(values, format).data(), 1, format), n, format);
      const auto expected = double(static_cast<long double>(exact(values, format.low)) / n);
      EXPECT_NEAR(mean, expected, 4 * 0x1p-53 * std::fabs(expected)) << n;
    }
  }
}

TEST(FixedPoint, MeansAreThoseOfTheExactSum) {
  for (int trial = 0; trial < 400; ++trial) {
    const int n = 1 + trial % 50;
    std::vector<double> values = drawn(n, 1 + trial % 50, uint64_t(trial));
    if (trial % 3 == 0) {  // what is left of sums that cancel
      for (int i = 0; i + 1 < n; i += 2) values[size_t(i) + 1] = -values[size_t(i)] * (trial % 2 ? 1 : 1 + 0x1p-50);
    }
    const FixedPoint format = format_of(values);
    ASSERT_LE(format.words, FixedPoint::most_words);
    const std::vector<unsigned long long> words = words_of(values, format);
    const SumWords sum(words.data(), 1, format);
    const Wide whole = exact(values, format.low);
    const long double expected = std::ldexp(static_cast<long double>(whole) / n, format.low);
    const double mean = mean_of<double>(sum, n, format);
    ASSERT_LE(std::fabs(double(mean - expected)), double(std::fabs(expected)) * 4 * 0x1p-53) << trial;
    ASSERT_EQ(mean_of<float>(sum, n, format), float(mean));
    if (n == 1) {
      ASSERT_EQ(mean, values[0]);
    }
  }
}

// The unit, the width of the words and the order of what cancels do not show in a mean: a unit may be a sample's.
TEST(FixedPoint, MeansDoNotDependOnTheUnit) {
  for (int trial = 0; trial < 400; ++trial) {
    const int n = 1 + trial % 50;
    std::vector<double> values = drawn(n, 1 + trial % 40, uint64_t(trial));
    if (trial % 3 == 0)
      for (int i = 0; i + 1 < n; i += 2) values[size_t(i) + 1] = -values[size_t(i)] * (trial % 2 ? 1 : 1 + 0x1p-50);
    const FixedPoint format = format_of(values);
    const double mean = mean_of<double>(SumWords(words_of(values, format).data(), 1, format), n, format);
    for (const int below : {1, 7, 20}) {
      const FixedPoint other = FixedPoint::of(n << below, format.low - below, format.high + below / 3);
      if (other.words > FixedPoint::most_words) continue;
      ASSERT_EQ(mean_of<double>(SumWords(words_of(values, other).data(), 1, other), n, other), mean) << trial;
    }
  }
}

// A bit below the leading 64 decides where rounding turns.
TEST(FixedPoint, MeansSeeTheLowestBit) {
  const std::vector<double> values = {1, 0x1p-53, 0x1p-80};
  const FixedPoint format = format_of(values);
  ASSERT_EQ(mean_of<double>(SumWords(words_of(values, format).data(), 1, format), 1, format), 1 + 0x1p-52);
}

// mean_of divides by a product with 1 / count: to the last bit what a division has.
TEST(FixedPoint, MeansAreDividedAsByADivision) {
  std::mt19937_64 random(7);
  const FixedPoint format = FixedPoint::of(2, 0, 62);
  for (int trial = 0; trial < 200000; ++trial) {
    // Half of them next to where rounding turns: (2 m + 1) count, but for what a double has not.
    const int count = int(random() >> (33 + random() % 31) | 1);
    const auto whole = (random() % 2 ? random() >> 11 : static_cast<uint64_t>(0x1p53 / count) * count) >> random() % 8;
    const unsigned long long word = random() % 2 ? whole : 0 - whole;
    const double value = double(static_cast<long long>(word));
    ASSERT_EQ(mean_of<double>(SumWords(&word, 1, format), count, format), value / count) << value << " / " << count;
  }
}

// ---- sums of neighbours

/// A float of up to 24 bits, the highest of them just below 2^top, in a format that begins at 2^0.
float ending_at(int top, std::mt19937& random) {
  const unsigned mantissa = random() % 3 == 0 ? 1u << 23 : (1u << 24) - 1 - random() % (random() % 2 ? 4 : 1u << 22);
  return std::trunc(std::ldexp(float(mantissa), top - 24)) * (random() % 4 == 0 ? -1.0f : 1.0f);
}

/// The words of the sum of some values, as a run of neighbours brings them.
std::vector<unsigned long long> words_of_run(const std::vector<float>& values, const FixedPoint& format) {
  std::vector<unsigned long long> words(FixedPoint::most_words);
  dispatch_summands<float>(format, [&]<int summands>() {
    RunSum<float, summands> sum(format);
    for (const float value : values) sum.add(value);
    sum.flush([&](int w, unsigned long long word) { words.at(size_t(w)) += word; });
  });
  return words;
}

/// Values whose ends lie where words or pieces end, so that words have the most to hold.
std::vector<float> at_the_ends(int count, const FixedPoint& format, std::mt19937& random) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const int ends = random() % 2 ? format.bits : summand_bits;
    const int top = ends * int(1 + random() % 3) + int(random() % 8) - 2;
    values.push_back(ending_at(std::clamp(top, 1, format.high), random));
  }
  return values;
}

// What docs/certificate.md says of a run, some points of which have left since: its words up to any one of them hold no
// more than as many values would. Bits that no number of points has are tried, too, but for the widest: 128 bits hold
// the sums here.
TEST(RunSum, WordsOfARunHoldNoMoreThanItsPointsCould) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20000; ++trial) {
    FixedPoint format;
    format.bits = 32 + int(random() % 25), format.words = 2,
    format.high = format.bits + 1 + int(random() % format.bits);
    const int points = 1 + int(random() % 16);
    const std::vector<float> values = at_the_ends(points, format, random);
    std::vector<unsigned long long> words = words_of_run(values, format);
    bool all_left = true;
    for (const float value : values) {
      if (random() % 3 == 0) {
        all_left = false;
      } else {
        for_digits(value, format, [&](int w, long long digit) { words[size_t(w)] -= (unsigned long long)(digit); });
      }
    }
    Wide held = 0;
    for (int w = 0; w < format.words; ++w) {
      held += Wide(static_cast<long long>(words[size_t(w)])) << (w * format.bits);
      const Wide room = Wide(points) << ((w + 1) * format.bits);
      ASSERT_LE(held < 0 ? -held : held, all_left ? room : room - 1) << trial << ", word " << w;
    }
  }
}

// As many points as leave no bit to spare: added up in runs, then one after the other leaves and another one comes.
TEST(RunSum, MeansAreRightWhileAllPointsLeaveAndOthersCome) {
  constexpr int all = 1 << 10;
  std::mt19937 random(6);
  for (int trial = 0; trial < 40; ++trial) {
    const FixedPoint format = FixedPoint::of(all, 0, 54 + int(random() % 50));
    ASSERT_EQ(Wide(all) << format.bits, Wide(1) << 63);
    const std::vector<float> first = at_the_ends(all / 2, format, random), then = at_the_ends(all / 2, format, random);
    std::vector<unsigned long long> words(FixedPoint::most_words);
    Wide whole = 0;
    for (size_t begin = 0, length; begin < first.size(); begin += length) {
      length = std::min(first.size() - begin, size_t(1 + random() % 16));
      const std::vector<float> run(first.begin() + long(begin), first.begin() + long(begin + length));
      const auto its = words_of_run(run, format);
      for (size_t w = 0; w < its.size(); ++w) words[w] += its[w];
      for (const float value : run) whole += Wide(value);
    }
    const auto move = [&](float value, int sign) {
      for_digits(value, format,
                 [&](int w, long long digit) { words[size_t(w)] += (unsigned long long)(sign * digit); });
      whole += sign * Wide(value);
    };
    for (size_t i = 0; i < first.size(); ++i) {
      move(first[i], -1);
      if (trial % 2) move(then[i], 1);
      const int count = trial % 2 ? all / 2 : all / 2 - 1 - int(i);
      if (count == 0) break;
      const auto expected = double(static_cast<long double>(whole) / count);
      const double mean = mean_of<double>(SumWords(words.data(), 1, format), count, format);
      ASSERT_LE(std::fabs(mean - expected), 4 * 0x1p-53 * std::fabs(expected)) << trial << ", " << i;
    }
  }
}

// ---- updates

constexpr int n = 700, d = 5, k = 9;

template <class T>
struct Points {
  std::vector<T> rows, centroids;
  std::vector<std::vector<int32_t>> labels;  // of three iterations: few move in the second, fewer in the third
  explicit Points(int binades) {
    const std::vector<double> values = drawn(n * d, binades, 17), initial = drawn(k * d, 3, 18);
    rows.assign(values.begin(), values.end());
    centroids.assign(initial.begin(), initial.end());
    std::mt19937_64 random(19);
    std::vector<int32_t> label(n);
    for (int32_t& j : label) j = int32_t(random() % (k - 1));  // nobody is in the last cluster
    labels.push_back(label);
    for (const unsigned one_in : {3, 20}) {
      for (int32_t& j : label)
        if (random() % one_in == 0) j = int32_t(random() % (k - 1));
      labels.push_back(label);
    }
  }
};

template <class T>
struct Updated {
  std::vector<T> centroids;
  std::map<std::string, std::vector<int64_t>> counters;
  int words = 0;
};

/// The points are sorted before a full re-sum.
struct Sorted {
  int full_update_share = 2;  // of IncrementalSums
  int resort_share = 0;       // of SortState
};

/// All points, in the order of these labels.
void expect_order(const RowOrder& order, const std::vector<int32_t>& label) {
  std::vector<int> rows(label.size());
  check(cudaMemcpy(rows.data(), order.row, rows.size() * sizeof(int), cudaMemcpyDeviceToHost), "downloading an order");
  for (size_t at = 1; at < rows.size(); ++at) ASSERT_LE(label[rows[at - 1]], label[rows[at]]);
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], int(i));
}

struct Summed {
  IncrementalSums sums;
  ClusterOrder order;
};

/// So many points are in each cluster.
template <class T>
void expect_counts(Run<T, Summed>& s, const std::vector<int32_t>& label) {
  std::vector<int> count(k), expected(k);
  for (const int32_t j : label) ++expected[j];
  check(cudaMemcpy(count.data(), s.ws.sums.count, k * sizeof(int), cudaMemcpyDeviceToHost), "downloading counts");
  EXPECT_EQ(count, expected);
}

/// Updates by one list of labels after the other.
template <class T>
Updated<T> updated(const std::vector<T>& rows, const std::vector<T>& centroids,
                   const std::vector<std::vector<int32_t>>& labels, const Sorted* sorted = nullptr) {
  Problem<T> problem;
  problem.n = int(rows.size()) / d, problem.k = k, problem.d = d;
  problem.points = rows.data(), problem.centroids = centroids.data();
  Device device;
  device.kind = DeviceKind::simt;
  device.multiprocessors = 2;
  Run<T, Summed> s(problem, device);
  prepare_pinned(s);
  prepare_incremental(s);
  upload_rows(s);
  choose_format(s, s.x);
  restart_rows(s);
  restart_incremental(s);
  prepare_order(s, sorted ? sorted->resort_share : 0);
  restart_order(s);
  const std::vector<int32_t>* ordered = nullptr;  // by which labels the points are
  int64_t left = 0;                               // points that left their place since
  for (const auto& label : labels) {
    for (int i = 0; i < s.n; ++i) left += &label == &labels[0] || label[i] != (&label)[-1][i];
    to_device(s, s.label, label.data(), label.size(), "uploading labels");
    if (sorted) {
      s.ws.sums.full_update_share = sorted->full_update_share;
      const MoveCounters* const moves = list_moved(s);
      sort_by_cluster(s, moves);
      move_or_sum_segments(s, s.x, moves);
      if (sorted->resort_share * left >= s.n) ordered = &label, left = 0;
      if (sorted->resort_share > 0) expect_order(s.ws.order.rows, *ordered);
      divide_exact(s);
    } else {
      update_incremental(s, s.x);
    }
    cudaStreamSynchronize(s.stream);
    expect_counts(s, label);
  }
  fetch_move_counters(s);
  download_rows(s);
  report_moves(s);
  const T* const c = s.result.centroids;
  return {{c, c + k * d}, s.counters, s.ws.sums.format.words};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
class MovedSumsOf : public testing::Test {
 protected:
  /// Of few binades, one word; of more, two; of many, three.
  static constexpr int binades[] = {1, sizeof(T) == 4 ? 60 : 40, sizeof(T) == 4 ? 100 : 80};
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MovedSumsOf, Types);

TYPED_TEST(MovedSumsOf, AreTheSameInAnyOrderAndByEitherWay) {
  std::vector<int> words;
  for (const int binades : this->binades) {
    const Points<TypeParam> points(binades);
    const auto straight = updated(points.rows, points.centroids, points.labels);
    words.push_back(straight.words);
    const auto anew = updated(points.rows, points.centroids, {points.labels.back()});
    EXPECT_TRUE(same_bits(straight.centroids, anew.centroids)) << "moved, or added anew";
    std::vector<int32_t> turned = points.labels.back();
    for (int32_t& j : turned) j = k - 2 - j;  // all move, but those of the middle cluster
    const auto twice = updated(points.rows, points.centroids, {points.labels[0], turned, points.labels.back()});
    EXPECT_TRUE(same_bits(straight.centroids, twice.centroids)) << "added anew over and over";
    const unsigned long long before = simt_set_shuffle(0);
    for (int seed = 1; seed <= 10; ++seed) {
      simt_set_shuffle(seed);
      const auto again = updated(points.rows, points.centroids, points.labels);
      EXPECT_TRUE(same_bits(straight.centroids, again.centroids)) << "drawn order " << seed;
      EXPECT_EQ(straight.counters, again.counters);
    }
    simt_set_shuffle(before);
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(5));
    Points<TypeParam> permuted = points;
    for (int i = 0; i < n; ++i) {
      std::copy_n(points.rows.begin() + order[i] * d, d, permuted.rows.begin() + i * d);
      for (size_t l = 0; l < points.labels.size(); ++l) permuted.labels[l][i] = points.labels[l][order[i]];
    }
    const auto other = updated(permuted.rows, permuted.centroids, permuted.labels);
    EXPECT_TRUE(same_bits(straight.centroids, other.centroids)) << "points in another order";
  }
  EXPECT_EQ(words, (std::vector<int>{1, 2, 3}));
}

TYPED_TEST(MovedSumsOf, AreTheSameByNeighbours) {
  for (const int binades : this->binades) {
    const Points<TypeParam> points(binades);
    const auto straight = updated(points.rows, points.centroids, points.labels);
    // share 1: all one by one; 1000: all anew, each time.
    // Orders that never stand; that stand for one update, until the moves of two are too many, or for two.
    for (const Sorted& how :
         {Sorted{2}, Sorted{2, SortState::after_any_move}, Sorted{2, 4}, Sorted{1, 3}, Sorted{1, 2}, Sorted{1000}}) {
      const auto found = updated(points.rows, points.centroids, points.labels, &how);
      EXPECT_TRUE(same_bits(straight.centroids, found.centroids)) << how.full_update_share << ", " << how.resort_share;
      const auto& anew = found.counters.at("points added anew");
      EXPECT_EQ(std::count(anew.begin(), anew.end(), n), how.full_update_share == 1   ? 0
                                                         : how.full_update_share == 2 ? 1
                                                                                      : 3);
    }
  }
}

// Values that fill a word's range, all of one sign and in one cluster: a run's sum is beyond what one value can be.
TYPED_TEST(MovedSumsOf, OfNeighboursMayBeBeyondTheirValues) {
  for (const int words : {1, 2}) {
    const int bits = FixedPoint::of(n, 0, 1).bits;
    std::vector<TypeParam> rows(n * d, std::ldexp(TypeParam(1.75), words * bits - 1));
    rows[3 * d + 1] = 1;
    const std::vector<TypeParam> centroids(k * d, TypeParam(7));
    const std::vector<std::vector<int32_t>> labels{std::vector<int32_t>(n, 2)};
    const Sorted how{2};
    const auto straight = updated(rows, centroids, labels), found = updated(rows, centroids, labels, &how);
    EXPECT_EQ(straight.words, words);
    EXPECT_TRUE(same_bits(straight.centroids, found.centroids));
    EXPECT_EQ(found.centroids[2 * d], rows[0]);
  }
}

TYPED_TEST(MovedSumsOf, AreTheMeansOfTheirPoints) {
  const Points<TypeParam> points(60);
  for (size_t last = 1; last <= points.labels.size(); ++last) {
    const auto found = updated(points.rows, points.centroids, {points.labels.begin(), points.labels.begin() + last});
    for (int j = 0; j < k; ++j) {
      for (int f = 0; f < d; ++f) {
        std::vector<double> values;
        for (int i = 0; i < n; ++i)
          if (points.labels[last - 1][i] == j) values.push_back(double(points.rows[i * d + f]));
        const TypeParam mean = found.centroids[j * d + f];
        if (values.empty()) {
          EXPECT_EQ(mean, points.centroids[j * d + f]) << "a centroid without points stays";
          continue;
        }
        const int low = format_of(values).low;
        const auto expected = double(std::ldexp(static_cast<long double>(exact(values, low)), low) / values.size());
        const double unit = sizeof(TypeParam) == 4 ? 1.01 * 0x1p-24 : 5 * 0x1p-53;
        EXPECT_NEAR(double(mean), expected, unit * std::fabs(expected)) << "cluster " << j << ", feature " << f;
      }
    }
  }
}

TYPED_TEST(MovedSumsOf, CountWhoMovedAndWhichWayWasTaken) {
  const Points<TypeParam> points(1);
  std::vector<std::vector<int32_t>> labels = points.labels;
  labels.push_back(labels.back());  // nobody moves
  labels.emplace_back(n, 0);        // nearly all do
  std::vector<int64_t> moved = {n}, anew = {n};
  for (size_t l = 1; l < labels.size(); ++l) {
    moved.push_back(0);
    for (int i = 0; i < n; ++i) moved.back() += labels[l][i] != labels[l - 1][i];
    anew.push_back(2 * moved.back() > n ? n : 0);
  }
  EXPECT_EQ(anew, (std::vector<int64_t>{n, 0, 0, 0, n}));
  const auto found = updated(points.rows, points.centroids, labels);
  EXPECT_EQ(found.counters.at("points moved"), moved);
  EXPECT_EQ(found.counters.at("points added anew"), anew);
}

template <class T>
std::string refused(std::vector<T> rows) {
  rows.resize(size_t(n) * d, T(1));
  try {
    updated<T>(rows, std::vector<T>(k * d), {std::vector<int32_t>(n)});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TYPED_TEST(MovedSumsOf, RefuseWhatTheyCannotHold) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  EXPECT_EQ(refused<TypeParam>({1, 2, 3, 4, 5, 6, 7, nan, 9, infinity}),
            "row 1, column 2 holds nan: exact sums need finite values; leave the row out, or give it one");
  EXPECT_EQ(refused<TypeParam>({1, -infinity}),
            "row 0, column 1 holds -inf: exact sums need finite values; leave the row out, or give it one");
  EXPECT_EQ(refused<TypeParam>({0, 0}), "");
  const double small = sizeof(TypeParam) == 4 ? 0x1p-149 : 0x1p-1074, large = 0x1p+100;
  const std::string both = refused<TypeParam>({TypeParam(large), 0, 0, 0, 0, 0, TypeParam(small)});
  EXPECT_NE(
      both.find("row 1, column 1 holds " + std::string(sizeof(TypeParam) == 4 ? "1.40129846e-45" : "4.94065646e")),
      std::string::npos)
      << both;
  EXPECT_NE(both.find("row 0, column 0 1.2676506e+30"), std::string::npos) << both;
  EXPECT_NE(both.find("for 700 points there are 159"), std::string::npos) << both;
}

}  // namespace
