#include "workloads/generate.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/npy.hpp"

namespace ladder {
namespace {

using Kind = GeneratorSpec::Kind;

std::vector<float> points_of(const GeneratorSpec& spec) {
  std::vector<float> points(spec.n * spec.d);
  PointGenerator(spec).rows(0, spec.n, points.data());
  return points;
}

/// What `call` throws; a test fails where it throws nothing.
template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(FromJson, ReadsEntriesOfWorkloadsJson) {
  const auto blobs = from_json(nlohmann::json::parse(
      R"({"generator": "blobs", "n": 1000, "d": 7, "seed": 3, "k": 10, "parameters": {"clusters": 4, "spread": 2, "zeros": 0.9}})"));
  EXPECT_EQ(blobs.kind, Kind::blobs);
  EXPECT_EQ(blobs.n, 1000u);
  EXPECT_EQ(blobs.d, 7u);
  EXPECT_EQ(blobs.seed, 3u);
  EXPECT_EQ(blobs.clusters, 4);
  EXPECT_EQ(blobs.spread, 2);
  EXPECT_EQ(blobs.zeros, 0.9);
  const auto lowrank = from_json(nlohmann::json::parse(
      R"({"generator": "embedding", "n": 10, "d": 7, "seed": 18446744073709551615, "parameters": {"flavour": "lowrank", "rank": 5, "noise": 0.25}})"));
  EXPECT_EQ(lowrank.kind, Kind::lowrank);
  EXPECT_EQ(lowrank.rank, 5);
  EXPECT_EQ(lowrank.noise, 0.25);
  EXPECT_EQ(lowrank.seed, ~uint64_t(0));
  const auto isotropic = from_json(nlohmann::json::parse(
      R"({"generator": "embedding", "n": 1, "d": 1, "seed": 0, "parameters": {"flavour": "isotropic"}})"));
  EXPECT_EQ(isotropic.kind, Kind::isotropic);
  const auto classes = from_json(
      nlohmann::json::parse(R"({"generator": "classes", "n": 10, "d": 2, "seed": 0, "parameters": {"classes": 7}})"));
  EXPECT_EQ(classes.kind, Kind::classes);
  EXPECT_EQ(classes.classes, 7);
  const auto plain = from_json(nlohmann::json::parse(R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0})"));
  EXPECT_EQ(plain.clusters, 10);
  EXPECT_EQ(plain.zeros, 0);
}

TEST(FromJson, RefusesInSentences) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"([])", "give an object"},
      {R"({"n": 1, "d": 1, "seed": 0})", "lacks 'generator'"},
      {R"({"generator": "rings", "n": 1, "d": 1, "seed": 0})", "no generator 'rings'"},
      {R"({"generator": "blobs", "d": 1, "seed": 0})", "lacks 'n'"},
      {R"({"generator": "blobs", "n": -1, "d": 1, "seed": 0})", "'n' -1"},
      {R"({"generator": "blobs", "n": 1.5, "d": 1, "seed": 0})", "'n' 1.5"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": 3})", "parameters 3"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"cluster": 3}})", "no parameter 'cluster'"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"rank": 3}})", "no parameter 'rank'"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"clusters": 0}})", "clusters 0"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"zeros": "all"}})", "'zeros' \"all\""},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"halves": 1}})", "'halves' 1"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"outlier": 101}})", "outlier 101"},
      {R"({"generator": "blobs", "n": 1, "d": 1, "seed": 0, "parameters": {"outlier": -1}})", "'outlier' -1"},
      {R"({"generator": "classes", "n": 1, "d": 1, "seed": 0, "parameters": {"clusters": 3}})",
       "no parameter 'clusters'"},
      {R"({"generator": "embedding", "n": 1, "d": 1, "seed": 0})", "lacks 'flavour'"},
      {R"({"generator": "embedding", "n": 1, "d": 1, "seed": 0, "parameters": {"flavour": "sour"}})", "flavour 'sour'"},
  };
  for (const auto& [text, part] : cases) {
    const std::string error = error_of([&] { from_json(nlohmann::json::parse(text)); });
    EXPECT_NE(error.find(part), std::string::npos) << text << ": " << error;
  }
}

TEST(PointGenerator, RefusesWhatMakesNoSense) {
  EXPECT_THROW(PointGenerator({.n = 0, .d = 1}), Error);
  EXPECT_THROW(PointGenerator({.n = 1, .d = 0}), Error);
  EXPECT_THROW(PointGenerator({.n = 1, .d = 1, .clusters = 0}), Error);
  EXPECT_THROW(PointGenerator({.n = 1, .d = 1, .spread = -1}), Error);
  EXPECT_THROW(PointGenerator({.n = 1, .d = 1, .zeros = 1}), Error);
  EXPECT_THROW(PointGenerator({.kind = Kind::classes, .n = 1, .d = 1, .classes = 0}), Error);
  EXPECT_THROW(PointGenerator({.kind = Kind::lowrank, .n = 1, .d = 1, .rank = 0}), Error);
  EXPECT_THROW(PointGenerator({.kind = Kind::lowrank, .n = 1, .d = 1, .noise = NAN}), Error);
  EXPECT_THROW(PointGenerator({.kind = Kind::lowrank, .n = 1, .d = 1, .decay = -1}), Error);
}

TEST(PointGenerator, MultipliesOneRowByAPowerOfTwo) {
  GeneratorSpec spec{.kind = Kind::lowrank, .n = 9, .d = 5, .seed = 3, .rank = 2};
  const auto plain = points_of(spec);
  spec.outlier = 12;
  const auto points = points_of(spec);
  for (size_t e = 0; e < points.size(); ++e) EXPECT_EQ(points[e], e / 5 == 4 ? 4096 * plain[e] : plain[e]);
  EXPECT_NE(to_string(spec).find("outlier"), std::string::npos) << "other points have another description";
}

TEST(PointGenerator, AnyRangeOfRowsGivesTheSameBits) {
  for (const Kind kind : {Kind::blobs, Kind::lowrank, Kind::isotropic, Kind::classes}) {
    const GeneratorSpec spec{.kind = kind, .n = 100, .d = 13, .seed = 5, .zeros = 0.3, .rank = 4};
    const auto whole = points_of(spec);
    std::vector<float> part(7 * spec.d);
    PointGenerator(spec).rows(31, 38, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 31 * 13));
  }
}

TEST(PointGenerator, HalvesAreTheNearestNumbersThatFp16Holds) {
  for (const double spread : {1.0, 1e-6, 1e-9, 1e9}) {  // normal, subnormal, far below the least, far above the largest
    GeneratorSpec spec{.n = 200, .d = 13, .seed = 5, .clusters = 1, .spread = spread};
    spec.kind = spread == 1 ? Kind::isotropic : Kind::blobs;
    const auto whole = points_of(spec);
    spec.halves = true;
    const auto halves = points_of(spec);
    for (size_t e = 0; e < whole.size(); ++e) {
      // Neighbours are 2^-10 of their power of two apart, 2^-24 at the least; the largest is 65,504.
      const double value = std::clamp(double(whole[e]), -65504.0, 65504.0);
      const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
      EXPECT_EQ(halves[e] / unit, std::round(halves[e] / unit)) << whole[e];
      EXPECT_LE(std::fabs(halves[e] - value), unit / 2) << whole[e];
    }
  }
  EXPECT_NE(to_string(GeneratorSpec{.halves = true}), to_string(GeneratorSpec{}));
}

TEST(PointGenerator, BlobsLieAroundTheirCentres) {
  // With no spread a point is its centre: 5 of them, in [-10, 10], drawn about equally often.
  const GeneratorSpec spec{.n = 10000, .d = 6, .seed = 2, .clusters = 5, .spread = 0};
  const auto points = points_of(spec);
  std::map<std::vector<float>, int> centres;
  for (size_t i = 0; i < spec.n; ++i) ++centres[{points.begin() + long(i * 6), points.begin() + long(i * 6 + 6)}];
  ASSERT_EQ(centres.size(), 5u);
  for (const auto& [centre, count] : centres) {
    EXPECT_NEAR(count, 2000, 200);  // 5 standard deviations
    for (const float v : centre) EXPECT_LE(std::fabs(v), 10);
  }
  // The spread is around them: the same seed draws the same centres and clusters.
  GeneratorSpec spread = spec;
  spread.spread = 0.5;
  const auto spread_points = points_of(spread);
  double m2 = 0;
  for (size_t i = 0; i < points.size(); ++i) m2 += std::pow(spread_points[i] - points[i], 2);
  EXPECT_NEAR(m2 / double(points.size()), 0.25, 0.0073);
}

TEST(PointGenerator, TheShareOfZeros) {
  GeneratorSpec spec{.n = 2000, .d = 50, .seed = 2};
  const auto dense = points_of(spec);
  EXPECT_EQ(std::count(dense.begin(), dense.end(), 0.0f), 0);
  spec.zeros = 0.9;
  const auto sparse = points_of(spec);
  EXPECT_NEAR(double(std::count(sparse.begin(), sparse.end(), 0.0f)) / 1e5, 0.9, 0.0048);
  for (size_t i = 0; i < dense.size(); ++i) EXPECT_TRUE(sparse[i] == 0 || sparse[i] == dense[i]);
}

TEST(PointGenerator, LowRankHasItsVarianceInFewDirections) {
  // With rank 1 and no noise all rows are multiples of one vector; noise adds its own variance.
  GeneratorSpec spec{.kind = Kind::lowrank, .n = 50, .d = 20, .seed = 4, .rank = 1, .noise = 0};
  const auto line = points_of(spec);
  for (size_t i = 1; i < spec.n; ++i)
    for (size_t f = 0; f < spec.d; ++f)
      ASSERT_NEAR(line[i * 20 + f] * line[0], line[f] * line[i * 20], 1e-5 * (1 + std::fabs(line[f] * line[i * 20])));
  spec.noise = 0.5;
  const auto noisy = points_of(spec);
  double m2 = 0;
  for (size_t i = 0; i < line.size(); ++i) m2 += std::pow(noisy[i] - line[i], 2);
  EXPECT_NEAR(m2 / 1000, 0.25, 0.06);
  const auto wide = points_of({.kind = Kind::lowrank, .n = 5000, .d = 400, .seed = 4, .rank = 30, .noise = 0});
  double variance = 0;
  for (const float v : wide) variance += double(v) * v;
  EXPECT_NEAR(variance / double(wide.size()), 1, 0.05);
  // With a decay the first direction has most of it: 1 of 1 + 1/4 + 1/9 + ..., while the whole stays what it was.
  GeneratorSpec falling{.kind = Kind::lowrank, .n = 5000, .d = 400, .seed = 4, .rank = 30, .noise = 0, .decay = 2};
  const auto rows_of = [&] {
    double sum = 0;
    for (const float v : points_of(falling)) sum += double(v) * v;
    return sum / (5000.0 * 400);
  };
  EXPECT_NEAR(rows_of(), 1, 0.15);
  falling.rank = 1;
  EXPECT_NEAR(rows_of(), 1, 0.15);
}

TEST(PointGenerator, ASpectrumHasTheVariancesThatItTells) {
  // From 4 at rank 1 to 1/4 at rank 4, on a line of logarithms: 4, 1, 4/9, 1/4, which are 5.694 in all.
  const size_t n = 20000, d = 4;
  const auto points = points_of({.kind = Kind::spectrum, .n = n, .d = d, .seed = 8, .variances = {{1, 4}, {4, 0.25}}});
  double covariance[d][d] = {};
  for (size_t i = 0; i < n; ++i)
    for (size_t a = 0; a < d; ++a)
      for (size_t b = 0; b < d; ++b) covariance[a][b] += double(points[i * d + a]) * points[i * d + b] / double(n);
  for (const double share : {4.0, 1.0, 4.0 / 9, 0.25}) {  // the largest that is left, by power iteration, taken out
    double v[d] = {1, 0.7, 0.4, 0.2}, length = 0;
    for (int time = 0; time < 200; ++time) {
      double w[d] = {};
      for (size_t a = 0; a < d; ++a)
        for (size_t b = 0; b < d; ++b) w[a] += covariance[a][b] * v[b];
      length = std::sqrt(std::inner_product(w, w + d, w, 0.0));
      for (size_t a = 0; a < d; ++a) v[a] = w[a] / length;
    }
    EXPECT_NEAR(length, share / 5.694 * d, 0.05 * share);
    for (size_t a = 0; a < d; ++a)
      for (size_t b = 0; b < d; ++b) covariance[a][b] -= length * v[a] * v[b];
  }
}

TEST(PointGenerator, ASpectrumThatMakesNoSenseIsRefused) {
  using Pairs = std::vector<std::pair<int, double>>;
  for (const Pairs& variances : {Pairs{}, Pairs{{1, 1}}, Pairs{{2, 1}, {4, 1}}, Pairs{{1, 1}, {5, 1}},
                                 Pairs{{1, 1}, {3, 1}, {2, 1}, {4, 1}}, Pairs{{1, 1}, {4, 0}}, Pairs{{1, -1}, {4, 1}}})
    EXPECT_THROW(PointGenerator({.kind = Kind::spectrum, .n = 1, .d = 4, .variances = variances}), Error);
  const auto entry = [](const char* variances) {
    return nlohmann::json::parse(R"({"generator": "embedding", "n": 9, "d": 4, "seed": 1, "parameters": {"flavour":
      "spectrum", "variances": )" +
                                 std::string(variances) + "}}");
  };
  EXPECT_EQ(from_json(entry("[[1, 0.5], [4, 0.1]]")).variances, (Pairs{{1, 0.5}, {4, 0.1}}));
  for (const char* variances : {"3", "[1, 2]", "[[1]]", "[[1, 2, 3]]", "[[-1, 2]]", "[[1, \"a\"]]"})
    EXPECT_THROW(from_json(entry(variances)), Error) << variances;
}

TEST(PointGenerator, IsotropicIsStandardNormal) {
  const auto points = points_of({.kind = Kind::isotropic, .n = 1000, .d = 100, .seed = 6});
  double m1 = 0, m2 = 0;
  for (const float v : points) m1 += v, m2 += double(v) * v;
  EXPECT_NEAR(m1 / 1e5, 0, 0.016);
  EXPECT_NEAR(m2 / 1e5, 1, 0.023);
}

TEST(PointGenerator, ClassesAreCubesAUnitApart) {
  for (const auto& [classes, d, side] : {std::tuple(5, 2, 3), std::tuple(8, 3, 2), std::tuple(4, 1, 4)}) {
    const GeneratorSpec spec{.kind = Kind::classes, .n = 4000, .d = size_t(d), .seed = 7, .classes = classes};
    const auto points = points_of(spec);
    std::map<std::vector<int>, int> cubes;
    double sum = 0;
    for (size_t i = 0; i < spec.n; ++i) {
      std::vector<int> cube;
      for (size_t f = 0; f < spec.d; ++f) {
        const float v = points[i * spec.d + f];
        cube.push_back(int(v) / 2);
        sum += v - 2.0 * cube.back();
        ASSERT_TRUE(v >= float(2 * cube.back()) && v <= float(2 * cube.back() + 1) && cube.back() < side) << v;
      }
      ++cubes[cube];
    }
    EXPECT_EQ(cubes.size(), size_t(classes));
    for (const auto& [cube, count] : cubes) EXPECT_NEAR(count, 4000 / classes, 150) << classes;
    EXPECT_NEAR(sum / double(points.size()), 0.5, 0.025);
  }
  const auto fewer = points_of({.kind = Kind::classes, .n = 50, .d = 2, .seed = 7});
  const auto more = points_of({.kind = Kind::classes, .n = 90, .d = 2, .seed = 7});
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), more.begin())) << "the smaller set begins the larger";
}

TEST(Generate, GoldenBitsWithAnyNumberOfThreads) {
  const auto file = std::filesystem::temp_directory_path() / ("ladder_generate_" + std::to_string(::getpid()) + ".npy");
  const auto hash_of = [&](const GeneratorSpec& spec, const char* threads) {
    ::setenv("LADDER_THREADS", threads, 1);
    generate(spec, file.string());
    ::unsetenv("LADDER_THREADS");
    const NpyFile written(file.string());
    EXPECT_EQ(written.rows(), spec.n);
    EXPECT_EQ(written.columns(), spec.d);
    EXPECT_EQ(written.type(), ElementType::f32);
    return hash64(written.bytes(), written.byte_count());
  };
  const std::vector<std::pair<GeneratorSpec, std::string>> golden{
      {{.n = 3001, .d = 100, .seed = 1, .zeros = 0.2}, "958ada7df20ce4f2"},
      {{.kind = Kind::lowrank, .n = 701, .d = 408, .seed = 1}, "28df07f4ed159173"},
      {{.kind = Kind::isotropic, .n = 701, .d = 407, .seed = 1}, "65224a1a1c3b23b7"},
      {{.kind = Kind::classes, .n = 70001, .d = 2, .seed = 1}, "23d600ef1f1e035a"},
  };
  for (const auto& [spec, hash] : golden)
    for (const char* threads : {"1", "2", "5"}) EXPECT_EQ(hash_of(spec, threads), hash) << threads << " threads";
  std::filesystem::remove(file);
}

TEST(InitialCentroids, AreRowsOfThePoints) {
  const GeneratorSpec spec{.n = 500, .d = 3, .seed = 8};
  const auto points = points_of(spec);
  const auto initial = initial_centroids(points.data(), 500, 3, 40, 1);
  ASSERT_EQ(initial.row.size(), 40u);
  ASSERT_EQ(initial.centroids.size(), 120u);
  EXPECT_EQ(std::set(initial.row.begin(), initial.row.end()).size(), 40u);
  for (size_t j = 0; j < 40; ++j)
    for (size_t f = 0; f < 3; ++f) EXPECT_EQ(initial.centroids[j * 3 + f], points[size_t(initial.row[j]) * 3 + f]);
  EXPECT_NE(initial_centroids(points.data(), 500, 3, 40, 2).row, initial.row);
  const auto fewer = initial_centroids(points.data(), 500, 3, 5, 1);
  EXPECT_TRUE(std::equal(fewer.row.begin(), fewer.row.end(), initial.row.begin()));
  EXPECT_EQ(fewer.row, (std::vector<int32_t>{78, 374, 481, 411, 375}));
}

TEST(InitialCentroids, EveryPointWhereKIsN) {
  const std::vector<double> points{5, 1, 4, 2, 3};
  auto all = initial_centroids(points.data(), 5, 1, 5, 3).centroids;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<double>{1, 2, 3, 4, 5}));
}

TEST(InitialCentroids, RepeatsOnlyWhereDistinctPointsRunOut) {
  std::vector<float> points(1000);
  for (size_t i = 0; i < points.size(); ++i) points[i] = float(i % 4);
  for (const int k : {2, 3, 4}) {
    const auto initial = initial_centroids(points.data(), 1000, 1, k, 7).centroids;
    EXPECT_EQ(std::set(initial.begin(), initial.end()).size(), size_t(k));
  }
  const auto six = initial_centroids(points.data(), 1000, 1, 6, 7);
  EXPECT_EQ(six.centroids.size(), 6u);
  EXPECT_EQ(std::set(six.centroids.begin(), six.centroids.begin() + 4).size(), 4u) << "the distinct ones come first";
  EXPECT_EQ(std::set(six.row.begin(), six.row.end()).size(), 6u);
}

TEST(InitialCentroids, NegativeZeroIsZero) {
  const std::vector<float> points{0.0f, -0.0f, 1.0f};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto two = initial_centroids(points.data(), 3, 1, 2, seed).centroids;
    EXPECT_NE(two[0], two[1]);
  }
}

TEST(InitialCentroids, RefusesMoreClustersThanPoints) {
  const float points[] = {1, 2};
  const std::string error = error_of([&] { initial_centroids(points, 2, 1, 3, 0); });
  EXPECT_NE(error.find("K is 3, more than the 2 points"), std::string::npos) << error;
  EXPECT_THROW(initial_centroids(points, 2, 1, 0, 0), Error);
}

}  // namespace
}  // namespace ladder
