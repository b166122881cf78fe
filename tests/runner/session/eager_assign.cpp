// The first assignment under the upload, against its base, phase by phase: the same labels, sums and counts, to the
// last bit, whether what was found ahead is taken or not; and it is taken where it holds, and nowhere else.
#include <gtest/gtest.h>

#if __has_include(<simt.h>)
#include <simt.h>
#else
static int simt_set_late_streams(int) { return 0; }
#endif

#include "../../fixtures/low_rank.hpp"
#include "rung.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

constexpr int k = 30, narrow = 40, wide = 100;  // features: most of them in short rows of 32 halves, and few
// Points: some pieces, the last of which ends in the midst of a tile. Checked code is some hundred times slower.
// It has the rung and its base, without the rung that is plain: that compares numbers alone.
#ifdef __SANITIZE_ADDRESS__
constexpr bool checked = true;
constexpr int many = 161;
#else
constexpr bool checked = false;
constexpr int many = on_gpu ? 70'001 : 1'101;
#endif
constexpr int iterations = on_gpu ? 3 : 2;
/// Of so many not all are in a sample.
constexpr int beyond_sample = on_gpu ? many : 8'209, unsampled = 151;
const std::string ahead = "points assigned ahead";

/// Late, on the CPU device: what nothing waits for is not there.
struct LateStreams {
  int before = simt_set_late_streams(1);
  ~LateStreams() { simt_set_late_streams(before); }
};

/// The rung; the same rung as its base, restarted once more, so that it cannot reuse anything; and the last rung
/// without an overlapped upload, whose thresholds, and so counters, differ, but no label and no centroid.
template <class T>
struct Both {
  Rung<T> rung, base;
  std::unique_ptr<Rung<T>> plain;
  Both(int width, const std::vector<T>& points, int d = narrow)
      : rung("v46_graph_loop", width, points, k, d), base("v46_graph_loop", width, points, k, d) {
    if (!checked) plain = std::make_unique<Rung<T>>("v44_active_set", width, points, k, d);
  }
  template <class Act>
  void each(const Act& act) {
    for (Rung<T>* const one : {&rung, &base, plain.get()})
      if (one) act(*one);
  }
  void upload(const std::vector<T>& points) {
    each([&](Rung<T>& one) { one.upload(points); });
  }
  void restart(int offset = 0) {
    each([&](Rung<T>& one) {
      for (int time = &one == &base ? 2 : 1; time > 0; --time) (*one).restart(offset);
    });
  }

  /// A few iterations from here, the first of which takes so many labels that were found ahead.
  void expect_same(int64_t taken) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
      SCOPED_TRACE("iteration " + std::to_string(iteration));
      each([](Rung<T>& one) { (*one).poison_labels(), (*one).assign_or_iterate(); });
      each([&](Rung<T>& one) { EXPECT_EQ(rung.labels(), one.labels()); });
      each([](Rung<T>& one) { (*one).call(Act::update); });
      each([&](Rung<T>& one) { EXPECT_EQ(rung.centroids(), one.centroids()); });
    }
    Counters counted = rung.counters(), expected = base.counters();
    std::vector<int64_t> all_taken(iterations);
    all_taken[0] = taken;
    EXPECT_EQ(counted[ahead], all_taken);
    counted.erase(ahead), expected.erase(ahead);
    // Few overflow rows are compared by brute force: those of a chunk may be few where those of all points are not.
    for (const char* const way : {"rows rechecked", "rows rechecked against all"}) {
      if (expected["rows of all features"][0] > 0) counted[way][0] = expected[way][0];
    }
    EXPECT_EQ(counted, expected);
  }
};

class EagerAssignment : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    // Chapter 6's later rungs keep it: arrival.cpp tries them.
    if (const std::string why = why_left_out(device_kind(HOME_KIND), "v46_graph_loop"); !why.empty())
      GTEST_SKIP() << why;
    const Rung<float> tried("v46_graph_loop", 32, near_directions<float>(64, narrow, 2), k, narrow);
    if (!tried.refused.empty()) GTEST_SKIP() << tried.refused;
    late_.emplace();
  }
  void TearDown() override { late_.reset(); }

 private:
  std::optional<LateStreams> late_;
};

/// What was counted.
template <class T>
Counters expect_taken_once(int n, double noise = 0.05, int d = narrow) {
  SCOPED_TRACE(std::to_string(n) + " points, noise " + std::to_string(noise));
  Both<T> both(32, near_directions<T>(n, d, 3, {.noise = noise}), d);
  both.restart();
  both.expect_same(n);
  Counters counted = both.rung.counters();
  both.restart();
  both.expect_same(0);
  return counted;
}

TEST_F(EagerAssignment, IsTheBasesAndTakenOnce) {
  for (const int n : {many, 100}) expect_taken_once<float>(n);
  expect_taken_once<double>(many);
}

TEST_F(EagerAssignment, HasTheRowsThatAreLeft) {
  Counters counted = expect_taken_once<float>(many, 2.5, wide);
  EXPECT_GT(counted["rows of all features"][0], many / 10);
  EXPECT_GT(counted["rows compared"][0], many / 10);
}

TEST_F(EagerAssignment, IsOfTheseCentroidsAlone) {
  Both<float> both(32, near_directions<float>(many, narrow, 4));
  both.restart(7);
  both.expect_same(0);
  both.restart();
  both.expect_same(0);
  both.upload(near_directions<float>(many, narrow, 4));  // for those of the last restart
  both.restart();
  both.expect_same(many);
}

TEST_F(EagerAssignment, IsOfTheLastUpload) {
  const auto points = near_directions<float>(many, narrow, 5),
             others = near_directions<float>(many, narrow, 6, {.noise = 0.5});
  Both<float> both(32, points);
  both.upload(others);  // no restart between them
  both.upload(points);
  both.upload(others);
  both.restart();
  both.expect_same(many);
  both.upload(points);  // in the midst of a solve
  both.restart();
  both.expect_same(many);
}

TEST_F(EagerAssignment, IsNotBelievedWhereAPointLeavesTheUnit) {
  auto points = near_directions<float>(beyond_sample, narrow, 7);
  const auto near = points;
  for (int row = unsampled; row < beyond_sample; row += 256) points[size_t(row) * narrow + 3] = 1e3f;
  Both<float> both(32, points);
  both.restart();
  both.expect_same(0);
  EXPECT_EQ(both.rung.counters()["points prepared twice"][0], beyond_sample);
  both.upload(near);
  both.restart();
  both.expect_same(beyond_sample);
}

TEST_F(EagerAssignment, IsLeftOutWhereAllFeaturesAreTaken) {
  Both<float> both(0, near_directions<float>(many, narrow, 8));
  both.restart();
  both.expect_same(0);
}

TEST_F(EagerAssignment, OutlivesPointsThatAreNotFinite) {
  const auto points = near_directions<float>(many, narrow, 9);
  Both<float> both(32, points);
  std::vector<float> values = {std::numeric_limits<float>::infinity()};
  if (!checked) values.push_back(std::numeric_limits<float>::quiet_NaN());  // the same way through memory
  for (const float value : values) {
    auto wrong = points;
    for (int row = unsampled; row < many; row += 256) wrong[size_t(row) * narrow + 5] = value;
    both.rung.upload(wrong);
    EXPECT_THROW((*both.rung).restart(0), Error);
    both.upload(points);
    both.restart();
    both.expect_same(many);
  }
}

TEST_F(EagerAssignment, IsTheFirstIterationOfASolve) {
  const auto points = near_directions<float>(many, narrow, 10);
  Both<float> both(32, points);
  for (const int iterations : {1, 4}) {
    SCOPED_TRACE(iterations);
    both.upload(points);
    for (Rung<float>* const each : {&both.rung, &both.base}) {
      (**each).choose_stop({.rule = Stop::Rule::fixed, .iterations = iterations});
      for (int time = each == &both.base; time >= 0; --time) (**each).restart(0);
      (**each).solve();
    }
    EXPECT_EQ(both.rung.labels(), both.base.labels());
    EXPECT_EQ((*both.rung).centroids(), (*both.base).centroids());
    EXPECT_EQ((*both.rung).state().reassigned, (*both.base).state().reassigned);
    Counters counted = both.rung.counters();
    EXPECT_EQ(counted[ahead][0], many);
    counted.erase(ahead);
    Counters expected = both.base.counters();
    expected.erase(ahead);
    EXPECT_EQ(counted, expected);
  }
}

}  // namespace
