// What is done while the points arrive, against the rung without it, phase by phase: the same labels and centroids to
// the last bit, whether the sums begun ahead are taken or not; and they are taken where their unit holds, and nowhere
// else.
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

const std::string top = "v52_survey_stream", with_bytes = "v46c_bytes_ahead", plain = "v46_graph_loop";
constexpr int d = 40;
// Points: some chunks, the last of which ends in the midst of a tile. Checked code is some hundred times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr bool checked = true;
constexpr int many = 161, iterations = 2;
const std::vector<float> not_finite = {std::numeric_limits<float>::quiet_NaN()};  // all go the same way through memory
#else
constexpr bool checked = false;
constexpr int many = on_gpu ? 70'001 : 1'101, iterations = on_gpu ? 3 : 2;
const std::vector<float> not_finite = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
#endif
/// Of so many the last one is in no sample of 1,024, which is that of a run without a filter.
constexpr int beyond_sample = on_gpu ? many : 2'065;
const std::string summed = "points summed ahead", assigned = "points assigned ahead",
                  chose = "points that chose the unit";

class Arrival : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    const Rung<float> tried(top, 32, near_directions<float>(64, d, 2), 30, d);
    if (!tried.refused.empty()) GTEST_SKIP() << tried.refused;
    before_ = simt_set_late_streams(1);  // what nothing waits for is not there
  }
  void TearDown() override {
    if (before_) simt_set_late_streams(*before_);
  }

 private:
  std::optional<int> before_;
};

template <class T>
struct Both {
  Rung<T> rung, base;
  Both(int width, const std::vector<T>& points, int k, const std::string& id = top)
      : rung(id, width, points, k, d, {{"bytes", 1}}), base(plain, width, points, k, d) {}
  template <class Act>
  void each(const Act& act) {
    act(rung), act(base);
  }
  void upload(const std::vector<T>& points) {
    each([&](Rung<T>& one) { one.upload(points); });
  }
  void restart(int offset = 0) {
    each([&](Rung<T>& one) { (*one).restart(offset); });
  }
  /// A few iterations from here: the same; the first takes so many points' sums. Returns the rung's counters.
  Counters expect_same(int64_t taken) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
      SCOPED_TRACE("iteration " + std::to_string(iteration));
      each([](Rung<T>& one) { (*one).poison_labels(), (*one).assign_or_iterate(); });
      EXPECT_EQ(rung.labels(), base.labels());
      each([](Rung<T>& one) { (*one).call(Act::update); });
      EXPECT_EQ(rung.centroids(), base.centroids());
    }
    Counters counted = rung.counters(), expected = base.counters();
    std::vector<int64_t> all_taken(iterations);
    all_taken[0] = taken;
    EXPECT_EQ(counted[summed], all_taken);
    EXPECT_EQ(counted["points moved"], expected["points moved"]);
    return counted;
  }
};

template <class T>
void expect_same_runs(int n, int k, int width) {
  SCOPED_TRACE(std::to_string(n) + " points, " + std::to_string(k) + " clusters, width " + std::to_string(width));
  const auto points = near_directions<T>(n, d, 3);
  Both<T> both(width, points, k);
  both.restart();
  EXPECT_EQ(both.expect_same(n)[assigned][0], n);
  both.restart();  // nothing is there a second time
  both.expect_same(0);
  both.upload(points);
  both.restart(1);  // other centroids, if there are any
  both.expect_same(k > 1 ? 0 : n);
}

TEST_F(Arrival, LeavesTheBasesLabelsAndCentroids) {
  for (const int width : {32, 0}) expect_same_runs<float>(many, 30, width);
  expect_same_runs<double>(many, 30, 32);
}

TEST_F(Arrival, OfFewerPointsThanChunksOrFewerThanClustersPerChunk) {
  expect_same_runs<float>(1, 1, 0);
  expect_same_runs<float>(5, 5, 32);
  if (checked) return;
  expect_same_runs<float>(5, 5, 0);
  expect_same_runs<float>(many, many / 3, 32);  // more clusters than the first chunk has rows
}

// A value in one row: above the unit, in the last row, which is in no sample; a bit below the unit; within its
// headroom; and in the sample's first row, so that the unit is made for it. None of these rows changes the frame.
TEST_F(Arrival, SumsAnewWhereTheUnitDoesNotHold) {
  const auto near = near_directions<float>(beyond_sample, d, 7);
  Both<float> both(0, near, 30);
  struct Case {
    int row;
    float value;
    bool holds;
  };
  const int last = beyond_sample - 1;
  for (const auto& [row, value, holds] :
       {Case{last, 1e9f, false}, Case{last, 1e-30f, false}, Case{last, 1e4f, true}, Case{0, 1e9f, true}}) {
    SCOPED_TRACE(value);
    auto points = near;
    points[size_t(row) * d + 3] = value;
    both.upload(points);
    both.restart();
    const Counters counted = both.expect_same(holds ? beyond_sample : 0);
    EXPECT_EQ(counted.at(chose)[0] == beyond_sample, !holds);
    EXPECT_EQ(counted.at(assigned)[0], beyond_sample);  // the labels stay
    if (holds) continue;
    both.restart();
    both.expect_same(0);
  }
}

// In bytes, too: with labels found ahead in halves, without them, and where the frame is made again for all points.
TEST_F(Arrival, MultipliesBytesThatWereWrittenAhead) {
  constexpr int n = 4'200, unsampled = 7;  // the last rows are not in the sample, the first 4,096
  auto points = near_directions<float>(n, d, 12);
  Both<float> both(32, points, 30, with_bytes);
  both.restart();
  EXPECT_EQ(both.expect_same(n)[assigned][0], n);
  both.restart();
  both.expect_same(0);
  for (size_t e = points.size() - size_t(unsampled) * d; e < points.size(); ++e) points[e] *= 100;
  both.upload(points);
  both.restart();
  EXPECT_EQ(both.expect_same(0)["points prepared twice"][0], n);
}

TEST_F(Arrival, KeepsItsSumsWhereOneRowIs4096TimesAsLong) {
  auto points = near_directions<float>(beyond_sample, d, 7);
  Both<float> both(0, points, 30);
  for (int f = 0; f < d; ++f) points[size_t(beyond_sample - 1) * d + f] *= 4096;
  both.upload(points);
  both.restart();
  const Counters counted = both.expect_same(beyond_sample);
  EXPECT_LT(counted.at(chose)[0], beyond_sample);
  EXPECT_EQ(counted.at("points prepared twice")[0], 0);
}

TEST_F(Arrival, RefusesPointsThatAreNotFiniteAndGoesOnWithOthers) {
  const auto points = near_directions<float>(many, d, 9);
  Both<float> both(32, points, 30);
  for (const float value : not_finite) {
    auto wrong = points;
    wrong[size_t(many - 1) * d + 5] = value;
    both.rung.upload(wrong);
    for (int time = 0; time < 2; ++time) EXPECT_THROW((*both.rung).restart(0), Error);
    both.upload(points);
    both.restart();
    both.expect_same(many);
  }
}

TEST_F(Arrival, SolvesTheSameTwiceAndAfterAnotherUpload) {
  const auto points = near_directions<float>(many, d, 10), others = near_directions<float>(many, d, 11);
  Both<float> both(32, points, 30);
  const auto solve = [&] {
    both.each([](Rung<float>& one) {
      (*one).choose_stop({.rule = Stop::Rule::fixed, .iterations = 4});
      (*one).restart(0);
      (*one).solve();
    });
    EXPECT_EQ(both.rung.labels(), both.base.labels());
    EXPECT_EQ((*both.rung).centroids(), (*both.base).centroids());
    EXPECT_EQ((*both.rung).state().reassigned, (*both.base).state().reassigned);
    return both.rung.counters()[summed][0];
  };
  EXPECT_EQ(solve(), many);
  EXPECT_EQ(solve(), 0);
  both.upload(others);
  both.upload(points);  // no restart between them
  EXPECT_EQ(solve(), many);
}

}  // namespace
