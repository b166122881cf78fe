// The tensor cores' stand-in, and what the certificate says of its products: parts of the variants, tried by
// themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "../../../variants/common/certified/bound_columns.cuh"
#include "../../../variants/common/gemm/accumulator_probe.cuh"
#include "../../../variants/common/gemm/mainloop_sm80.cuh"
#include "../../../variants/common/lloyd/frame.cuh"
#include "../../../variants/common/pruning/gathered_rows.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

// ------------------------------------------------------------------------------------------------------------- one mma

/// d = A B + c of whole matrices, by fragments that are read out of tiles.
__global__ void mma_kernel(const uint32_t* a, const uint32_t* b, float* d) {
  __shared__ uint32_t points[16 * tile_words], centroids[16 * tile_words];  // the second 8 of these: the first again
  const int lane = threadIdx.x;
  for (int e = lane; e < 16 * 8; e += 32) {
    const int row = e / 8, chunk = e % 8 / 4, word = e % 4;
    points[smem_offset(row, chunk) + word] = a[row * 8 + e % 8];
    centroids[smem_offset(row, chunk) + word] = b[row % 8 * 8 + e % 8];
  }
  __syncwarp();
  FragmentB columns[2];
  load_b(columns, centroids, 0, 0);
  float sum[4];
  for (int e = 0; e < 4; ++e) sum[e] = d[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2];
  mma(sum, load_a(points, 0, 0), columns[lane % 2]);  // both are the same
  for (int e = 0; e < 4; ++e) d[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = sum[e];
}

/// A (16 x 16), B by columns (8 x 16) and C (16 x 8), from functions of the indices.
template <class A, class B, class C>
std::vector<float> product(const A& a, const B& b, const C& c) {
  std::vector<uint32_t> rows(16 * 8), columns(8 * 8);
  const auto half = [](float value) { return uint32_t(__half_as_ushort(__float2half_rn(value))); };
  for (int r = 0; r < 16; ++r)
    for (int w = 0; w < 8; ++w) rows[r * 8 + w] = half(a(r, 2 * w)) | half(a(r, 2 * w + 1)) << 16;
  for (int n = 0; n < 8; ++n)
    for (int w = 0; w < 8; ++w) columns[n * 8 + w] = half(b(2 * w, n)) | half(b(2 * w + 1, n)) << 16;
  std::vector<float> d(16 * 8);
  for (int e = 0; e < 16 * 8; ++e) d[e] = c(e / 8, e % 8);
  OnDevice<uint32_t> left(rows), right(columns);
  OnDevice<float> out(d);
  launch(mma_kernel, 1, 32, 0, nullptr, left, right, out);
  return out.values();
}

TEST(SimtTensor, EveryElementIsWhereTheLayoutSaysItIs) {
  const auto a = [](int r, int k) { return float(r * 3 - k); };
  const auto b = [](int k, int n) { return float(k + 5 * n - 20); };
  const auto d = product(a, b, [](int r, int n) { return float(1000 * r + n); });
  for (int r = 0; r < 16; ++r)
    for (int n = 0; n < 8; ++n) {
      float exact = float(1000 * r + n);  // whole numbers below 2^24
      for (int k = 0; k < 16; ++k) exact += a(r, k) * b(k, n);
      EXPECT_EQ(d[r * 8 + n], exact) << r << ", " << n;
    }
}

TEST(SimtTensor, ASumIsOffByNoMoreThanTheCertificateAllows) {
  std::mt19937 random(1);
  double worst = 0;
  for (int trial = 0; trial < 300; ++trial) {
    // Magnitudes of one size, of all sizes, subnormal ones, zeros beside large ones; signs that cancel.
    const int kind = trial % 4, spread = kind == 0 ? 1 : kind == 2 ? 10 : 28, least = kind == 2 ? -24 : -14;
    const auto value = [&] {
      const int power = least + int(random() % unsigned(spread));
      if (kind == 3 && random() % 4 == 0) return 0.0f;
      return float(std::ldexp(1 + double(random() % 1024) / 1024, power) * (random() % 2 ? 1 : -1));
    };
    std::vector<float> a(256), b(128), c(128);
    for (auto* values : {&a, &b}) {
      for (float& v : *values) v = __half2float(__float2half_rn(value()));
    }
    for (float& v : c) v = trial / 4 % 2 ? value() : 0.0f;
    const auto d = product([&](int r, int k) { return a[r * 16 + k]; }, [&](int k, int n) { return b[n * 16 + k]; },
                           [&](int r, int n) { return c[r * 8 + n]; });
    for (int e = 0; e < 128; ++e) {
      long double exact = c[e], size = std::fabs(c[e]);
      for (int k = 0; k < 16; ++k) {
        const float row = a[e / 8 * 16 + k], column = b[e % 8 * 16 + k];
        exact += static_cast<long double>(row) * column;
        size += static_cast<long double>(nominal(row)) * nominal(column);
      }
      worst = std::max(worst, double(std::fabs(exact - d[e]) / (size * 0x1p-23L)));
    }
  }
  EXPECT_LE(worst, cut_units);
  EXPECT_GT(worst, 1) << "cuts nothing: no stand-in for a tensor core";
}

TEST(SimtTensor, SumsAreCutTowardsZero) {
  // Beside a 1 all that is below 2^-23 is cut off, eight times; of the sum's own last bits nothing is rounded up.
  const auto one = [](int, int k) { return k == 0 ? 1.0f : 0x1p-12f; };
  const auto small = [](int k, int) { return k == 0 ? 1.0f : k < 8 ? 0x1.ffcp-12f : 0.0f; };
  const auto zero = [](int, int) { return 0.0f; };
  EXPECT_EQ(product(one, small, zero)[0], 1.0f);
  const auto enough = [](int k, int) { return k == 0 ? 1.0f : k == 1 ? 0x1p-11f : 0.0f; };
  EXPECT_EQ(product(one, enough, zero)[0], 1.0f + 0x1p-23f);
  EXPECT_EQ(product(one, enough, [](int, int) { return -2.0f; })[0], -1.0f);  // 2^-22 is its unit
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(product(one, enough, [&](int, int) { return -infinity; })[0], -infinity);
}

TEST(SimtTensor, OperandsBelowTheLeastExponentCountAsIfTheyHadIt) {
  // 2^-25 beside a zero times 2^15, which is lined up as 2: its unit is 2^-22.
  for (const float tiny : {0.0f, 0x1p-24f}) {
    const auto row = [&](int, int k) { return k == 0 ? tiny : 0x1p-12f; };
    const auto column = [](int k, int) { return k == 0 ? 0x1p15f : k == 1 ? 0x1p-13f : 0.0f; };
    EXPECT_EQ(product(row, column, [](int, int) { return 0.0f; })[0], tiny * 0x1p15f);
  }
}

TEST(SimtTensor, TheProbeComesNearToWhatIsAllowed) {
  const ProbeRatios ratios = probe_accumulator(16);
  for (int kind = 0; kind < kinds_of_probes; ++kind) EXPECT_LE(ratios[kind], 1) << probe_kinds[kind];
  for (const int kind : {1, 6, 7}) {
    EXPECT_GT(ratios[kind], 0.125) << "a core that cuts three bits earlier would pass: " << probe_kinds[kind];
  }
  EXPECT_EQ(refuse_ratios(ratios), "");
  ProbeRatios found{};
  found[3] = 7.63f, found[6] = 1.004f;
  EXPECT_EQ(refuse_ratios(found),
            "this device's tensor cores cut sums by more than the certificate allows for, and labels would not be "
            "certain: 7.63 times for subnormal halves times any; 1.00 times for zeros times large halves, and tiny "
            "products");
}

// --------------------------------------------------------------------------------------------------------- certificate

constexpr int n = 128, k = 256, d = 40;

__global__ void certify_kernel(const float* x, const float* c, Frame<float> view, Fp16Rows rows, Fp16Rows columns,
                               PointBound* point, CentroidBound* centroid) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (i < n) {
    const QuantizationError row = quantize_row<1>(rows, i, d, [&](int f) { return view(x, i, f, d); });
    if (threadIdx.x % 32 == 0) point[i] = point_bound(row, d);
  }
  const QuantizationError row = quantize_row<1>(columns, i, d, [&](int f) { return view(c, i, f, d); });
  if (threadIdx.x % 32 == 0) centroid[i] = centroid_bound(row, d);
}

struct Bounds {
  float lower, upper, product;
};

__global__ void bounds_kernel(Fp16Rows x, Fp16Rows c, const PointBound* point, const CentroidBound* centroid,
                              Bounds* bounds) {
  const MainloopSm80<1> tile;
  tile.multiply(x, c, n, k, d, [&](int first, MainloopSm80<1>::Products& product) {
    for (int f = 0; f < tile.column_fragments; ++f)
      for (int e = 0; e < 2; ++e)
        for (int r = 0; r < tile.lane_rows; ++r) {
          const int i = tile.row(r), j = first + tile.column(f, e);
          const float here = product[r / 2][f][r % 2 * 2 + e], upper = upper_bound(here, point[i], centroid[j]);
          bounds[i * k + j] = {lower_bound(upper, point[i], centroid[j]), upper,
                               here * point[i].factor * centroid[j].factor};
        }
  });
}

/// What there is to compare: points and centroids on the device, seen from `middle`.
struct Seen {
  OnDevice<float> x, c, centre;
  OnDevice<int> top{std::vector<int>{-2000}};
  Frame<float> frame;
  int exponent;
  std::vector<long double> scores, products;  // n x k, in the unit of the frame
  Seen(const std::vector<float>& points, const std::vector<float>& centroids, float middle)
      : x(points), c(centroids), centre(std::vector<float>(d, middle)), frame{centre, top} {
    launch(max_exponent_kernel<float>, 4, 256, 0, nullptr, x, frame, int64_t(n) * d, d);
    exponent = std::max(top.values()[0], -1000);
    const auto seen = [&](float value) {
      return std::ldexp(static_cast<long double>(value) - static_cast<long double>(middle), -1 - exponent);
    };
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < k; ++j) {
        long double product = 0, square = 0;
        for (int f = 0; f < d; ++f) {
          product += seen(points[i * d + f]) * seen(centroids[j * d + f]);
          square += seen(centroids[j * d + f]) * seen(centroids[j * d + f]);
        }
        scores.push_back(product - square / 2);
        products.push_back(product);
      }
  }
};

/// Fails where a bound does not hold; `scale`: of the bounds' unit.
void expect_bounds(const Seen& seen, const std::vector<Bounds>& bounds, int scale) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) {
      const long double score = std::ldexp(seen.scores[i * k + j], scale);
      const Bounds& b = bounds[i * k + j];
      ASSERT_TRUE(b.lower <= score && score <= b.upper) << "row " << i << ", centroid " << j << ": " << double(score)
                                                        << " is not in [" << b.lower << ", " << b.upper << "]";
    }
}

/// The largest share of its allowance, weight x slack, that a product used up; fails where a bound does not hold.
double used_up_beside(const Seen& seen) {
  Fp16Rows rows, columns;
  rows.pitch = columns.pitch = fp16_pitch(d);
  OnDevice<uint4> left(size_t(n) * rows.pitch), right(size_t(k) * rows.pitch);
  rows.part[0] = left, columns.part[0] = right;
  OnDevice<PointBound> point(n);
  OnDevice<CentroidBound> centroid(k);
  OnDevice<Bounds> bounds(size_t(n) * k);
  launch(certify_kernel, k * 32 / 256, 256, 0, nullptr, seen.x, seen.c, seen.frame, rows, columns, point, centroid);
  launch(bounds_kernel, 1, MainloopSm80<1>::block, MainloopSm80<1>::bytes, nullptr, rows, columns, point, centroid,
         bounds);
  const auto found = bounds.values();
  const auto of_points = point.values();
  const auto of_centroids = centroid.values();
  expect_bounds(seen, found, 0);
  double most = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) {
      if (of_centroids[j].factor == 0) continue;  // far away: there is no product
      const long double off = std::fabs(found[i * k + j].product - seen.products[i * k + j]);
      most = std::max(most, double(off / (of_points[i].weight * of_centroids[j].slack)));
    }
  return most;
}

/// The same where the bounds are columns of the rows, and a tile has more columns than there are centroids.
double used_up_within(const Seen& seen) {
  constexpr int columns = 168, steps = (d + wide_columns + stage_depth - 1) / stage_depth * stage_steps;
  using Tile = MainloopSm90<columns, NoFacts>;
  const int64_t padded_rows = Tile::padded_rows(n), padded = Tile::padded_columns(k);
  const OnDevice<uint4> left(padded_rows * steps * mma_depth / 8);
  const OnDevice<unsigned char> right(padded / columns * Tile::tile_bytes(steps));
  const OnDevice<int> length(std::vector<int>{1});
  WarpgroupData operands;
  operands.shape = {columns, steps}, operands.x = left, operands.c = right;
  EpilogueBoundColumns::quantize_points<float>(seen.x, seen.frame, operands, n, padded_rows, d, nullptr);
  EpilogueBoundColumns::quantize_centroids<float>(seen.c, seen.frame, operands, length, k, d, nullptr);
  const auto x = left.values();
  const auto c = right.values();
  const auto* const of_points = reinterpret_cast<const __half*>(x.data());
  const auto row = [&](int i, int f) { return of_points[a_fragment_offset(i, f / 2, steps) * 2 + f % 2]; };
  const auto column = [&](int64_t j, int f) {
    const auto* const tile = reinterpret_cast<const __half*>(c.data() + j / columns * Tile::tile_bytes(steps));
    return tile[b_smem_offset<columns>(int(j % columns), f / 2) * 2 + f % 2];
  };
  const float k_of_sums = float(accumulation(steps * mma_depth));
  const auto product = [&](int i, int64_t j) {
    float sum = 0;
    for (int f = 0; f < steps * mma_depth; f += 8) {
      float product[8], size[8];
      for (int e = 0; e < 8; ++e) {
        const float y = __half2float(row(i, f + e)), z = __half2float(column(j, f + e));
        product[e] = y * z, size[e] = nominal(y) * nominal(z);
      }
      sum = simt::cut_sum(sum, product, size);
    }
    return sum;
  };
  std::vector<Bounds> bounds;
  const int scale = 2 * short_exponent(d);
  double most = 0;
  for (int i = 0; i < n; ++i) {
    float least = std::numeric_limits<float>::infinity();
    for (int j = 0; j < k; ++j) {
      WideColumns y, z;
      for (int e = 0; e < wide_columns; ++e) y.of[e] = row(i, d + e), z.of[e] = column(j, d + e);
      const float upper = product(i, j);
      bounds.push_back({lower_of_columns(upper, y, z, k_of_sums), upper, 0});
      least = std::min(least, upper);
      float loss = 0;
      for (int e = 0; e < 2; ++e) loss += __half2float(y.of[e]) * __half2float(z.of[e]);
      const double needed = double(std::ldexp(seen.scores[i * k + j], scale)) - (double(upper) - loss);
      if (loss > 1) most = std::max(most, needed / loss);
    }
    for (int64_t j = k; j < padded; ++j)
      EXPECT_LT(product(i, j), least) << "row " << i << ": a column that no centroid has is not below all others";
  }
  expect_bounds(seen, bounds, scale);
  return most;
}

struct UsedUp {
  double beside, within;
};
UsedUp used_up(const std::vector<float>& points, const std::vector<float>& centroids, float middle) {
  const Seen seen(points, centroids, middle);
  return {used_up_beside(seen), used_up_within(seen)};
}

TEST(Certificate, BoundsHoldAtEveryScale) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const auto fill = [&](size_t rows, auto scale) {
    std::vector<float> values(rows * d);
    for (size_t e = 0; e < values.size(); ++e) values[e] = scale(int(e / d)) * normal(random);
    return values;
  };
  const auto one = [](int) { return 1.0f; };
  const auto spread = [](int row) { return std::ldexp(1.0f, row % 100 - 50); };
  const auto denormal = [](int) { return 0x1p-140f; };
  const auto large = [](int) { return 0x1p120f; };
  used_up(fill(n, one), fill(k, one), 0);
  used_up(fill(n, spread), fill(k, spread), 0);
  used_up(fill(n, denormal), fill(k, denormal), 0);
  used_up(fill(n, large), fill(k, large), 0x1p119f);
  used_up(fill(n, denormal), fill(k, spread), 0);  // all centroids far away, or nearly
  std::vector<float> points = fill(n, one), centroids = fill(k, one);
  for (auto* values : {&points, &centroids}) {
    for (float& v : *values) v += 1e6f;
  }
  used_up(points, centroids, 1e6f);
  used_up(points, centroids, 0);
  points = fill(n, one), centroids = fill(k, spread);
  for (auto* values : {&points, &centroids}) {
    for (size_t e = 0; e < values->size(); ++e) {
      if (e % 7 > 0 || e / d % 5 == 0) (*values)[e] = 0;
    }
  }
  used_up(points, centroids, 0);                                           // hardly anything but zeros
  used_up(std::vector<float>(n * d, 3), std::vector<float>(k * d, 3), 3);  // nothing but zeros
}

TEST(Certificate, ABoundHalfAsWideWouldNotHold) {
  // Every value lies a little less than half a unit above a half, so all that is lost adds up.
  const float value = 1 + 0x1p-11f - 0x1p-20f;
  const UsedUp used = used_up(std::vector<float>(n * d, value), std::vector<float>(k * d, value), 0);
  EXPECT_GT(used.beside, 0.5);
  EXPECT_GT(used.within, 0.5);
}

TEST(Certificate, WhatSumsLoseIsPaidForWhereHalvesLoseNothing) {
  // One large product, and beside it small ones, of each of which a sum cuts nearly a unit of its last place.
  std::vector<float> points(n * d, 1), centroids(k * d, 0x1.ccp-9f);
  for (int i = 0; i < n; ++i) points[i * d] = 0x1p11f;
  for (int j = 0; j < k; ++j) centroids[j * d] = 0x1p4f;
  used_up(points, centroids, 0);
}

TEST(Certificate, ACentroidAtTheCentreIsNotFarAway) {
  const double k = accumulation(64);
  const WideColumns there = columns_of_centroid(wide_lengths({0, 0, 0, 0}, 64), k);
  const WideColumns far = columns_of_centroid({far_length, far_length, 0}, k);
  const WideColumns point = columns_of_point({1, 1, 0x1p-12});
  EXPECT_GT(lower_of_columns(1, point, there, float(k)), 0);
  EXPECT_EQ(lower_of_columns(1, point, far, float(k)), -std::numeric_limits<float>::infinity());
}

TEST(Certificate, AnOutlierRowIsNeverProven) {
  const double k = accumulation(64);
  const WideColumns centroid = columns_of_centroid(wide_lengths({0, 0, 0, 0}, 64), k);
  for (const double length : {0x1p12, 0x1p200, double(INFINITY)}) {
    const WideColumns point = columns_of_point({length, length, 0});
    EXPECT_EQ(lower_of_columns(1, point, centroid, float(k)), -std::numeric_limits<float>::infinity()) << length;
  }
  // With a scale of its own a row is one only from farthest_point on.
  const PointBound beyond = point_bound({-20, 0x1p24, 0x1p24, 0}, 64);
  const CentroidBound bound = centroid_bound({10, 0x1p24, 0x1p24, 0}, 64);
  EXPECT_EQ(upper_bound(1, beyond, bound), std::numeric_limits<float>::infinity());
  EXPECT_FALSE(lower_bound(upper_bound(1, beyond, bound), beyond, bound) > -std::numeric_limits<float>::max());
  EXPECT_LT(upper_bound(1, point_bound({-18, 0x1p24, 0x1p24, 0}, 64), bound), std::numeric_limits<float>::infinity());
}

TEST(Certificate, LeadersKnowWhenARowIsProven) {
  Top3 row;
  const auto see = [&](float upper, int j, float lower) {
    row.insert(upper, j);
    row.lower = std::max(row.lower, lower);
  };
  see(-5, 3, -6);
  EXPECT_TRUE(row.proven());
  see(-2, 1, -3);
  EXPECT_TRUE(row.proven()) << "the upper bound of 3 is below the lower one of 1";
  see(-2.5f, 7, -3.5f);
  EXPECT_FALSE(row.proven());
  EXPECT_TRUE(row.pair());
  EXPECT_EQ(row.first_index + row.second_index, 8);
  Top3 other;
  other.insert(-3, 2);
  other.lower = -4;
  row.merge(other);  // an upper bound that equals the lower one: it may be as near
  EXPECT_FALSE(row.pair());
}

TEST(Certificate, ABoundHoldsThoughANumberIsInItsLastBits) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100000; ++trial) {
    const float size = std::ldexp(1.0f + float(random() % (1 << 23)) * 0x1p-23f, int(random() % 200) - 100);
    const float bound = trial % 2 ? size : -size;
    const unsigned number = random() % (index_mask + 1);
    const float both = pack_index(bound, number, ~index_mask);
    EXPECT_EQ(unpack_index(both), int(number));
    EXPECT_GE(upper_of(both), bound);
    EXPECT_LE(lower_of(both), bound);
    EXPECT_LE(upper_of(both) - lower_of(both), std::abs(bound) * 0x1p-14f) << "a bound is hardly any wider";
  }
}

TEST(Certificate, TheTwoGreatestAreFoundTileByTile) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 2000; ++trial) {
    const int tiles = 1 + trial % 7;
    std::vector<std::pair<float, int>> all;  // with the tile that each is of
    Top2 seen;
    for (int tile = 0; tile < tiles; ++tile) {
      std::vector<float> own(5);
      for (float& bound : own) bound = float(int(random() % 50) - 25), all.push_back({bound, 100 + tile});
      std::sort(own.rbegin(), own.rend());
      seen.insert(own[0], own[1], 100 + tile);
    }
    std::sort(all.rbegin(), all.rend(), [](const auto& a, const auto& b) { return a.first < b.first; });
    EXPECT_EQ(seen.first, all[0].first);
    EXPECT_EQ(seen.second, all[1].first);
    const auto has = [&](float bound, int tile) { return std::ranges::count(all, std::pair(bound, tile)); };
    const bool both = seen.first == seen.second && seen.first_index == seen.second_index;
    EXPECT_GE(has(seen.first, seen.first_index), both ? 2 : 1);
    EXPECT_GE(has(seen.second, seen.second_index), 1);
    EXPECT_GE(seen.rest(), all[2].first);  // each tile has two at least
    EXPECT_TRUE(seen.first_index == seen.second_index || seen.rest() <= all[1].first);
  }
}

// --------------------------------------------------------------------------------------------------------------- exact

__global__ void nearer_kernel(const float* x, const float* c, int* first_wins, int features) {
  const auto exact = [&](int j) { return Exact{exact_distance(x, c + j * features, features, 0, 1), j}; };
  const auto shared = [&](int j) {
    return Exact{exact_warp_sum(exact_distance(x, c + j * features, features, int(threadIdx.x), 32)), j};
  };
  const bool alone = nearer<1>(exact(0), exact(1), x, c, features);
  const bool run_features = nearer<32>(shared(0), shared(1), x, c, features);
  if (threadIdx.x == 0) *first_wins = alone == run_features ? alone : -1;
}

bool first_wins(const std::vector<float>& point, std::vector<float> first, const std::vector<float>& second) {
  first.insert(first.end(), second.begin(), second.end());
  OnDevice<float> x(point), c(first);
  OnDevice<int> out(1);
  launch(nearer_kernel, 1, 32, 0, nullptr, x, c, out, int(point.size()));
  EXPECT_GE(out.values()[0], 0) << "a warp and a thread disagree";
  return out.values()[0] == 1;
}

TEST(Exact, TellsApartWhatDoublesCannot) {
  EXPECT_TRUE(first_wins({0, 0, 0}, {1, 2, 3}, {3, 1, 2})) << "a tie goes to the lower index";
  EXPECT_TRUE(first_wins({0.1f, 7, -3}, {1, 2, 3}, {1, 2, 3}));
  EXPECT_FALSE(first_wins({0, 0}, {1, 0x1p-40f}, {1, 0}));  // 2^-80 more
  EXPECT_TRUE(first_wins({0, 0}, {1, 0}, {1, 0x1p-40f}));
  EXPECT_FALSE(first_wins({1e8f, 0, 1}, {-1e8f, 0x1p-18f, 1}, {-1e8f, 0, 1}));
}

// ------------------------------------------------------------------------------------------------------ gathered rows

TEST(GatheredRows, LieSideBySideAsTheProductsTakeThem) {
  constexpr int n = 300, steps = 3, words = steps * mma_depth / 2;
  std::vector<uint32_t> from(MainloopSm90<128>::padded_rows(n) * words);
  const auto word_of = [](int row, int word) { return uint32_t(row * 1000 + word + 1); };
  for (int row = 0; row < n; ++row) {
    for (int word = 0; word < words; ++word) from[a_fragment_offset(row, word, steps)] = word_of(row, word);
  }
  std::mt19937 random(5);
  for (const int length : {0, 1, 255, 257}) {
    std::vector<int> list(n);
    for (int& row : list) row = int(random() % n);
    const OnDevice<uint32_t> x(from), to(2 * from.size());
    const OnDevice<int> rows(list), number(std::vector<int>{length});
    gather_rows(reinterpret_cast<const uint4*>(static_cast<uint32_t*>(x)), RowList{rows, number},
                reinterpret_cast<uint4*>(static_cast<uint32_t*>(to)), steps, 3, nullptr);
    const auto gathered = to.values();
    const int64_t padded = MainloopSm90<128>::padded_rows(length);
    for (int64_t i = 0; i < padded; ++i) {
      const int row = list[std::min<int64_t>(i, length - 1)];
      for (int word = 0; word < words; ++word)
        ASSERT_EQ(gathered[a_fragment_offset(i, word, steps)], word_of(row, word)) << i << " of " << length;
    }
    EXPECT_TRUE(std::all_of(gathered.begin() + padded * words, gathered.end(), [](uint32_t w) { return w == 0; }));
  }
}

}  // namespace
