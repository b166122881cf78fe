// Rows as signed bytes: what decides a pair never excludes a centroid that is as near as the threshold says, whatever
// the rows; the bytes are where the instruction reads them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "../../../variants/common/integers/byte_filter.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

/// Points and centroids, row-major, and what the kernels made of them in a frame around 0.
struct Bytes {
  int n, k, d;
  std::vector<float> x, c;
  ByteRows rows;
  std::vector<uint4> words;
  std::vector<BytePoint> point;
  std::vector<double> square;
  std::vector<unsigned char> tiles;

  Bytes(int n, int k, int d, std::vector<float> x, std::vector<float> c, int exponent) : n(n), k(k), d(d), x(x), c(c) {
    rows.steps = plan_bytes(d).steps;
    const size_t padded = ByteMainloop::padded_rows(n);
    const OnDevice<float> points(x), centroids(c), centre(d);
    const OnDevice<int> top(std::vector<int>{exponent});
    const OnDevice<uint4> on_words(padded * rows.steps * step_words / 4);
    const OnDevice<BytePoint> on_point(padded);
    const OnDevice<double> on_square(n);
    const OnDevice<unsigned char> on_tiles(blocks(k, byte_columns) * ByteMainloop::tile_bytes(rows.steps));
    rows.x = on_words, rows.point = on_point, rows.square = on_square, rows.c = on_tiles;
    const Frame<float> frame{centre, top};
    const float *const from_points = points, *const from_centroids = centroids;
    quantize(from_points, frame, PutBytePoint{rows}, nullptr, n, padded, d, nullptr);
    quantize(from_centroids, frame, PutByteCentroid{rows}, nullptr, k, ByteMainloop::padded_columns(k), d, nullptr);
    words = on_words.values(), point = on_point.values(), square = on_square.values(), tiles = on_tiles.values();
  }
  int of_point(int i, int f) const {
    const auto* const bytes = reinterpret_cast<const int8_t*>(words.data());
    return bytes[4 * a_fragment_offset(i, f / 4, rows.steps) + f % 4];
  }
  const unsigned char* tile(int j) const {
    return tiles.data() + j / byte_columns * ByteMainloop::tile_bytes(rows.steps);
  }
  int of_centroid(int j, int f) const {
    return int8_t(tile(j)[4 * b_smem_offset<byte_columns>(j % byte_columns, f / 4) + f % 4]);
  }
  ByteCentroid facts(int j) const {
    const auto end = tile(j) + ByteMainloop::tile_bytes(rows.steps);
    return reinterpret_cast<const ByteCentroid*>(end)[j % byte_columns - byte_columns];
  }
  int product(int i, int j) const {
    int sum = 0;
    for (int f = 0; f < 32 * rows.steps; ++f) sum += of_point(i, f) * of_centroid(j, f);
    return sum;
  }
  /// The squared distance in the frame, whose scale is 1 for exponent -1.
  double distance(int i, int j) const {
    double sum = 0;
    for (int f = 0; f < d; ++f) sum += std::pow(double(x[size_t(i) * d + f]) - double(c[size_t(j) * d + f]), 2);
    return sum;
  }
};

/// Rows of some kinds, coordinates below 1: normal ones; nearly all zeros; one large value; tiny ones; zeros.
std::vector<float> rows_of_all_kinds(int count, int d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(count) * d);
  for (int i = 0; i < count; ++i)
    for (int f = 0; f < d; ++f) {
      float value = std::clamp(normal(random) / 5, -0.99f, 0.99f);
      if (i % 6 == 1 && f % 9 != 0) value = 0;
      if (i % 6 == 2 && f != 3) value *= 0x1p-9f;
      if (i % 6 == 3) value *= 0x1p-60f;
      if (i % 6 == 4) value = 0;
      if (i % 6 == 5 && i > 5) value = values[size_t(5) * d + f] + value * 0x1p-20f;  // nearly equal rows
      values[size_t(i) * d + f] = value;
    }
  return values;
}

TEST(Bytes, NeverExcludeACentroidThatIsAsNear) {
  for (const int d : {1, 3, 31, 33, 408}) {
    constexpr int n = 42, k = 30;
    auto c = rows_of_all_kinds(k, d, 2);
    for (int f = 0; f < d; ++f) c[f] *= 0x1p50f, c[d + f] = c[2 * d + f];  // one far away, two equal ones
    const Bytes b(n, k, d, rows_of_all_kinds(n, d, 1), c, -1);
    int excluded = 0, pairs = 0;
    for (int i = 0; i < n; ++i)
      for (int guess = 0; guess < k; ++guess) {
        const double reach = b.distance(i, guess);
        const float threshold = byte_threshold(b.square[i], reach, b.point[i].inverse_scale);
        for (int j = 0; j < k; ++j, ++pairs) {
          const bool below = std::signbit(byte_excess(b.product(i, j), b.point[i], threshold, b.facts(j)));
          excluded += below;
          ASSERT_FALSE(below && b.distance(i, j) <= reach) << d << " features, " << i << ", " << guess << ", " << j;
        }
        EXPECT_TRUE(std::signbit(byte_excess(0, b.point[i], threshold, padding_bytes())));
      }
    EXPECT_GT(excluded, pairs / 8) << d << " features: bounds that exclude nothing prove nothing";
  }
}

/// What rounding loses points along the other row, so that Cauchy-Schwarz is an equality.
TEST(Bytes, TheBoundHoldsWhereItIsAnEquality) {
  constexpr int pairs = 60, d = 64;
  std::mt19937 random(5);
  std::vector<float> x(pairs * d), c(pairs * d);
  for (int i = 0; i < pairs; ++i) {
    std::vector<float>&lossy = i % 2 ? c : x, &exact = i % 2 ? x : c;
    const float size = 0x1p-3f * float(1 + random() % 1000) / 1000;
    for (int f = 0; f < d; ++f) {
      lossy[i * d + f] = f == 0 ? size : size / 127 * (float(int(random() % 5) - 2) + 0.498f);
      exact[i * d + f] = f == 0 ? 0 : size;
    }
  }
  const Bytes b(pairs, pairs, d, x, c, -1);
  for (int i = 0; i < pairs; ++i) {
    BytePoint point = b.point[i];
    const float threshold = byte_threshold(b.square[i], b.distance(i, i), point.inverse_scale);
    EXPECT_FALSE(std::signbit(byte_excess(b.product(i, i), point, threshold, b.facts(i)))) << i;
    point.weight *= i % 2 ? 0.7f : 0.99f;  // a centroid's slack has the usual loss of points beside its own
    EXPECT_TRUE(std::signbit(byte_excess(b.product(i, i), point, threshold, b.facts(i)))) << i;
  }
}

/// Parallel rows of which nothing is lost, with products that a float does not hold exactly: all that a slack needs
/// beside the usual loss is for roundings.
TEST(Bytes, RoundingsAreCovered) {
  std::mt19937 random(6);
  const auto between = [&](double low, double high) { return std::uniform_real_distribution<>(low, high)(random); };
  for (int trial = 0; trial < 3000; ++trial) {
    const int d = trial == 0 ? most_features : int(between(1041, most_features)), byte = int(between(100, 127.99));
    const float inverse_scale = float(between(1, 2)), scale = float(std::exp2(between(-12, 0)));
    const int product = most_byte * byte * d;
    const double y = most_byte * std::sqrt(double(d)) / inverse_scale, z = byte * std::sqrt(double(d)) * scale;
    const BytePoint point = byte_point({y * y, most_byte / inverse_scale}, {y * y, 0}, inverse_scale);
    ByteCentroid centroid = byte_centroid({z * z, double(byte) * scale}, {z * z, 0}, scale);
    centroid.slack = float(centroid.slack - usual_byte_loss * z);
    const float threshold = byte_threshold(y * y, (y - z) * (y - z), inverse_scale);
    ASSERT_FALSE(std::signbit(byte_excess(product, point, threshold, centroid))) << trial;
  }
}

/// Rows far outside of the frame, as outlier rows are: bounds within farthest_point, beyond it none.
TEST(Bytes, AnOutlierRowIsBoundedOrReachedByAll) {
  constexpr int n = 5, k = 7, d = 40;
  auto x = rows_of_all_kinds(n, d, 3), c = rows_of_all_kinds(k, d, 4);
  const float lengths[] = {0x1p0f, 0x1p12f, 0x1p27f, 0x1p36f, 0x1p120f};
  for (int i = 0; i < n; ++i)
    for (int f = 0; f < d; ++f) x[i * d + f] = lengths[i] * x[f];
  for (int f = 0; f < d; ++f) c[6 * d + f] = 0x1p60f * x[f], c[5 * d + f] = 0x1p20f * x[f];
  const Bytes b(n, k, d, x, c, -1);
  for (int i = 0; i < n; ++i) {
    int excluded = 0;
    for (int guess = 0; guess < k; ++guess) {
      const double reach = b.distance(i, guess);
      const float threshold = byte_threshold(b.square[i], reach, b.point[i].inverse_scale);
      for (int j = 0; j < k; ++j) {
        const bool below = std::signbit(byte_excess(b.product(i, j), b.point[i], threshold, b.facts(j)));
        excluded += below;
        EXPECT_FALSE(below && b.distance(i, j) <= reach) << i << ", " << guess << ", " << j;
      }
    }
    EXPECT_EQ(excluded > 0, lengths[i] < 0x1p31f) << i;
  }
  const BytePoint infinite = byte_point({INFINITY, INFINITY}, {NAN, NAN}, byte_inverse_scale(INFINITY));
  for (const double distance : {0.0, 0x1p900, double(INFINITY), double(NAN)})
    EXPECT_FALSE(std::signbit(byte_excess(0, infinite, byte_threshold(INFINITY, distance, 0), b.facts(6))));
}

TEST(Bytes, ADistanceThatIsNoNumberReachesAll) {
  const Bytes b(1, 1, 5, std::vector<float>(5, 0.5f), std::vector<float>(5, -0.9f), -1);
  for (const double distance : {double(NAN), double(INFINITY), 0x1p600}) {
    const float threshold = byte_threshold(b.square[0], distance, b.point[0].inverse_scale);
    EXPECT_TRUE(std::isfinite(threshold));
    EXPECT_FALSE(std::signbit(byte_excess(b.product(0, 0), b.point[0], threshold, b.facts(0))));
    EXPECT_TRUE(std::signbit(byte_excess(0, b.point[0], threshold, padding_bytes())));
  }
}

TEST(Bytes, LieWhereTheInstructionReadsThem) {
  // A of .m64nNk32, 8-bit, from the PTX ISA: byte i of sixteen of a thread of the warpgroup; four are a register.
  for (int thread = 0; thread < warpgroup_threads; ++thread)
    for (int i = 0; i < 16; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + (i / 4 % 2 == 1 ? 8 : 0);
      const int k = thread % 4 * 4 + i % 4 + (i >= 8 ? 16 : 0);
      EXPECT_EQ(a_fragment_offset(row, k / 4, 1) * 4 + k % 4, thread * 16 + i);
    }
  // B, K-major: core matrices of 8 columns and 16 bytes.
  for (int column = 0; column < byte_columns; ++column)
    for (int k = 0; k < byte_step_depth; ++k)
      EXPECT_EQ(b_smem_offset<byte_columns>(column, k / 4) * 4 + k % 4, (k / 16 * byte_columns + column) * 16 + k % 16);
}

TEST(Bytes, PlansHoldAllFeaturesAndFitTheRing) {
  for (int d = 1; d <= most_features; d = d < 2000 ? d + 1 : d * 2) {
    const MainloopPlan plan = plan_bytes(d);
    EXPECT_GE((plan.steps - (!plan.streamed && odd_steps(plan.k_block))) * byte_step_depth, d);
    EXPECT_EQ(plan.steps % (plan.k_block * stage_steps), 0);
    EXPECT_TRUE(plan.streamed || plan.steps == plan.k_block * stage_steps);
    EXPECT_LE(plan.k_block + 3, ByteMainloop::slots);
  }
  EXPECT_EQ(plan_bytes(408).steps, 14);  // 13 are multiplied
  EXPECT_EQ(plan_bytes(480).steps, 16);  // 15
}
}  // namespace
