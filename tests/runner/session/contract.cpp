// What the contract offers beyond the ladder's first rungs, each by a variant of tests/fixtures/contract that uses it.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.hpp"
#include "protocol/scopes.hpp"
#include "session_helper.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

/// Points in loose groups, the same in every run; about `zeros` of the values are 0.
template <class T>
std::vector<T> grouped(int n, int d, double zeros = 0) {
  std::vector<T> values;
  uint64_t state = 11;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(state >> 11) * 0x1p-53;
  };
  for (int i = 0; i < n; ++i) {
    const double middle = 3.0 * (i % 5);
    for (int f = 0; f < d; ++f) {
      const double value = middle * ((i + f) % 3) + next();
      values.push_back(next() < zeros ? T(0) : T(value));
    }
  }
  return values;
}

class Contract : public testing::Test {
 public:
  static constexpr int n = 700, d = 6, k = 9;
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  }
  /// The variant of tests/fixtures/contract with this id, on this program's home device.
  static std::pair<DeviceKind, Variant> variant(const std::string& id) {
    for (const auto& found : built("tests/fixtures/contract")) {
      if (found.second.id == id) return found;
    }
    throw Error("tests/fixtures/contract/" + id + " was not built");
  }
  template <class T>
  static Outcome run(const std::string& id, const std::function<void(Request&)>& adapt = {}, double zeros = 0) {
    const auto [kind, found] = variant(id);
    const std::vector<T> points = grouped<T>(n, d, zeros);
    return validate_variant(kind, found, points, {points.begin(), points.begin() + k * d}, d, Stop(), scope_names(),
                            adapt);
  }
};

TEST_F(Contract, WhatAnotherVariantLeftInDeviceMemoryIsNotFound) {
  const DeviceKind home = device_kind(HOME_KIND);
  Device device = device_of(home, {0}, false);
  device.poisons = true;
  for (int run = 0; run < 2; ++run) {
    Resources resources(device);
    int32_t* const fresh = resources.device<int32_t>(n);
    std::vector<int32_t> found(n), left(n, 7);
    const size_t bytes = n * sizeof(int32_t);
    check(cudaMemcpy(found.data(), fresh, bytes, cudaMemcpyDeviceToHost), "looking at fresh memory");
    EXPECT_EQ(found, std::vector<int32_t>(n, -1)) << "run " << run;
    check(cudaMemcpy(fresh, left.data(), bytes, cudaMemcpyHostToDevice), "leaving something in it");
  }
}

TEST_F(Contract, AVariantMayCountChangedLabelsByItself) {
  const Outcome outcome = run<float>("t3_counts");
  EXPECT_EQ(outcome.fault, "");
  const auto& result = outcome.result;
  EXPECT_EQ(result["counters"]["distances"].size(), result["reassigned"].size() + 0);
  EXPECT_EQ(result["counters"]["distances"][0], n * k);
  EXPECT_EQ(result["reassigned"][0], n);
  EXPECT_EQ(result["reassigned"].back(), 0);
  EXPECT_EQ(outcome.timed.at("solve").iterations.back(), result["iterations"].get<int>());
}

TEST_F(Contract, InputsRoundedToHalfAreHeldToTheirOwnBound) {
  for (const Outcome& outcome : {run<float>("t4_halves"), run<double>("t4_halves")}) {
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.result["validation"]["labels_wrong"], 0);
  }
}

TEST_F(Contract, SeveralGpusShareThePoints) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  for (int gpus = 1; gpus <= std::min(count, 4); ++gpus) {
    const Outcome outcome = run<float>("t5_gpus", [&](Request& request) {
      request.ordinals.resize(size_t(gpus));
      for (int gpu = 0; gpu < gpus; ++gpu) request.ordinals[size_t(gpu)] = gpu;
    });
    EXPECT_EQ(outcome.fault, "") << gpus << " GPUs";
  }
}

TEST_F(Contract, CsrRowsComeBesideTheDensePoints) {
  EXPECT_EQ(run<float>("t6_csr").refused, "the points are not given as CSR rows");
  const auto folder = std::filesystem::temp_directory_path() / ("ladder-csr-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::vector<float> points = grouped<float>(n, d, 0.8);
  std::vector<int64_t> row_begin = {0};
  std::vector<int32_t> column;
  std::vector<float> value;
  for (int i = 0; i < n; ++i) {
    for (int f = 0; f < d; ++f) {
      if (points[size_t(i) * d + f] != 0) column.push_back(f), value.push_back(points[size_t(i) * d + f]);
    }
    row_begin.push_back(int64_t(column.size()));
  }
  write_npy((folder / "rows.row_begin.npy").string(), row_begin.data(), {row_begin.size()});
  write_npy((folder / "rows.column.npy").string(), column.data(), {column.size()});
  write_npy((folder / "rows.value.npy").string(), value.data(), {value.size()});
  const Outcome outcome = run<float>(
      "t6_csr", [&](Request& request) { request.csr = (folder / "rows").string(); }, 0.8);
  EXPECT_EQ(outcome.refused, "");
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.result["validation"]["labels_wrong"], 0);
  std::filesystem::remove_all(folder);
}

TEST_F(Contract, TheSessionsStreamCanBeCaptured) {
  const Outcome outcome = run<float>("t8_graph");
  EXPECT_EQ(outcome.fault, "");
  const bool gpu = std::string(HOME_KIND) == "cuda";
  EXPECT_EQ(outcome.refused, gpu ? "" : "the CPU device has no graphs");
}

TEST_F(Contract, ARefusalSeesTheAxes) {
  EXPECT_EQ(run<float>("t7_axis_refused").refused, "");
  EXPECT_EQ(run<float>("t7_axis_refused", [](Request& request) { request.axes["block"] = 1024; }).refused,
            "a block of 1024 threads is more than 700 points");
}

TEST_F(Contract, AMetricThatTheCardDoesNotNameIsRefused) {
  EXPECT_EQ(run<float>("t3_counts", [](Request& request) { request.metric = Metric::cosine; }).refused,
            "is not for the metric cosine");
  EXPECT_EQ(run<float>("t3_counts", [](Request& request) { request.kernel = kernel_named("linear"); }).refused,
            "has centroids in the points' own space: kernel k-means has none");
}

TEST_F(Contract, AVariantMayHaveStepsAndASolveOfItsOwn) {
  for (const int width : {0, 32}) {
    SCOPED_TRACE("width " + std::to_string(width));
    const Outcome outcome = run<float>("t12_device_loop", [&](Request& request) { request.axes["width"] = width; });
    EXPECT_EQ(outcome.refused, "");
    EXPECT_EQ(outcome.fault, "");
    for (const char* const scope : {"assign", "update", "iteration", "solve", "end_to_end"})
      EXPECT_EQ(outcome.timed.at(scope).status, "ok") << scope << ": " << outcome.timed.at(scope).reason;
    EXPECT_EQ(outcome.timed.at("solve").iterations.back(), outcome.result["iterations"].get<int>());
    EXPECT_EQ(outcome.result["reassigned"].back(), 0);
    EXPECT_EQ(outcome.result["iteration_ms"].size(), 0u) << "its iterations are not those of the harness's loop";
  }
}

TEST_F(Contract, WhoseStepsTakeTooLongIsNotAskedForASolve) {
  const auto [kind, found] = variant("t12_device_loop");
  const std::vector<float> points = grouped<float>(200, d);  // too few for an estimate, which would refuse the session
  const Outcome outcome = validate_variant(kind, found, points, {points.begin(), points.begin() + k * d}, d, Stop(),
                                           scope_names(), [](Request& request) { request.time_limit = 1e-3; });
  ASSERT_EQ(outcome.refused, "");
  EXPECT_EQ(outcome.fault, "");
  const std::string why = outcome.timed.at("solve").reason;
  EXPECT_NE(why.find("not solved after 1 iterations"), std::string::npos) << why;
  EXPECT_TRUE(outcome.result["iterations"].is_null());
}

/// Native CPU code is tested once, beside simt.
bool native() { return std::string(HOME_KIND) == "simt"; }

TEST_F(Contract, DrawsAreHeldAgainstTheirSeed) {
  if (!native()) GTEST_SKIP() << "t9 is native CPU code";
  for (const Outcome& outcome : {run<float>("t9_kmeanspp"), run<double>("t9_kmeanspp")}) {
    EXPECT_EQ(outcome.refused, "");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.timed.at("initialise").status, "ok");
    EXPECT_EQ(outcome.timed.at("solve").status, "refused");
    EXPECT_GT(outcome.result["validation"]["rows_checked"], 2 * k);
  }
}

TEST_F(Contract, CosineIsValidatedByDirections) {
  if (!native()) GTEST_SKIP() << "t10 is native CPU code";
  const auto cosine = [](Request& request) { request.metric = Metric::cosine; };
  for (const Outcome& outcome : {run<float>("t10_cosine", cosine), run<double>("t10_cosine", cosine)}) {
    EXPECT_EQ(outcome.refused, "");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.timed.at("end_to_end").status, "ok");
  }
  EXPECT_EQ(run<float>("t10_cosine").refused, "is not for the metric euclidean");
  const std::string zero = run<float>("t10_cosine", cosine, 1).refused;
  EXPECT_EQ(zero, "row 0 is the zero vector, which has no direction: leave it out, or use the metric euclidean");
}

TEST_F(Contract, KernelKMeansIsValidatedByItsLabels) {
  if (!native()) GTEST_SKIP() << "t11 is native CPU code";
  const auto linear = [](Request& request) { request.kernel = kernel_named("linear"); };
  for (const Outcome& outcome : {run<float>("t11_kernel", linear), run<double>("t11_kernel", linear)}) {
    EXPECT_EQ(outcome.refused, "");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.timed.at("solve").status, "ok");
    EXPECT_GT(outcome.result["validation"]["inertia"], 0);
  }
  EXPECT_EQ(run<float>("t11_kernel").refused, "solves kernel k-means: the problem has no kernel");
}

TEST_F(Contract, EachScopeIsTimedFromCentroidsOfItsOwn) {
  const Outcome outcome = run<float>("t1_whole_solve");
  EXPECT_EQ(outcome.fault, "");
  const Timed& solve = outcome.timed.at("solve");
  EXPECT_EQ(solve.status, "ok");
  ASSERT_EQ(solve.iterations.size(), solve.samples_ms.size());
  EXPECT_EQ(solve.labels_differ, 0);
  EXPECT_TRUE(solve.per_iteration_ms.has_value());
  EXPECT_EQ(outcome.timed.at("assign").status, "refused");
}

/// Points on a small grid: the numbers of the initial centroids decide ties, and with these how many iterations follow.
std::vector<float> on_a_grid(int n, int d) {
  std::vector<float> values;
  uint64_t state = 12;
  for (int e = 0; e < n * d; ++e) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(float((state >> 33) % 16));
  }
  return values;
}

TEST_F(Contract, ASampleIsValidatedAfterItsOwnIterations) {
  const auto [kind, found] = variant("t3_counts");
  const std::vector<float> points = on_a_grid(700, 2);
  std::set<int> iterations;
  // In one session of four the only sample of a scope is judged, and another one takes its place.
  for (int session = 0; session < 12 && !HasFailure(); ++session) {
    const Outcome outcome =
        validate_variant(kind, found, points, {points.begin(), points.begin() + 16 * 2}, 2,
                         {.rule = Stop::Rule::reassigned, .fraction = 0.005}, {"solve", "end_to_end"},
                         [](Request& request) { request.benchmark_flags = {"--benchmark_repetitions=1"}; });
    for (const char* const scope : {"solve", "end_to_end"}) {
      const Timed& timed = outcome.timed.at(scope);
      ASSERT_NE(timed.status, "invalid") << scope << " in session " << session << ": " << timed.reason;
      iterations.insert(timed.iterations.begin(), timed.iterations.end());
    }
  }
  EXPECT_GT(iterations.size(), 1u) << "all starts take as many iterations: nothing was tried";
}

TEST_F(Contract, FewSamplesHaveNoQuartiles) {
  const Outcome few =
      run<float>("t3_counts", [](Request& request) { request.benchmark_flags = {"--benchmark_repetitions=4"}; });
  EXPECT_EQ(few.timed.at("assign").samples_ms.size(), 4u);
  EXPECT_FALSE(few.timed.at("assign").q1_ms.has_value());
  EXPECT_EQ(few.timed.at("assign").verdict, "asked");
}

/// The middle one of three clusters gives its points away in the second iteration, and keeps the mean that they had in
/// the first: no two runs have the same bits of it.
TEST_F(Contract, AClusterWithoutPointsMayKeepTheMeanOfAnotherRun) {
  std::vector<double> points;
  const auto add = [&](int count, double middle) {
    for (int i = 0; i < count; ++i) points.push_back(middle + 0.1 * std::sin(double(points.size())));
  };
  add(400, 4), add(100, 6.5), add(100, 13.5), add(400, 16);
  const auto [kind, found] = variant("t15_any_order");
  const Outcome outcome = validate_variant(kind, found, points, {0, 10, 20}, 1, Stop(), scope_names());
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.result["validation"]["labels_wrong"], 0);
}

}  // namespace
