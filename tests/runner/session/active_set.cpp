// The filter of the active set against its base, phase by phase: the same labels and centroids, to the last bit, with
// fewer products.
#include <gtest/gtest.h>

#include "../../fixtures/low_rank.hpp"
#include "rung.hpp"
#include "validation/validate.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

// So many centroids, and points, that those of a part are fewer tiles. Checked code is some hundred times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr int n = 261, k = 132, iterations = 4, chain = 3, directions = 1, restarts = 1;
constexpr bool with_base = false;  // which goes no way that the rung does not; labels are those of fp64 all the same
#else
constexpr bool with_base = true;
constexpr int n = on_gpu ? 100'001 : 801, k = 300, iterations = on_gpu ? 12 : 6;
constexpr int chain = 5, directions = 2, restarts = 2;
#endif
const std::string met = "centroids that all rows meet", products = "products multiplied";

template <class T>
std::vector<T> loose(int d, unsigned seed) {
  return near_directions<T>(n, d, seed, {.rank = 3, .offset = 0, .groups = 3});
}

/// Chains of clusters, through which one row falls after another, as dominoes do: of each chain in each iteration one,
/// and always one of a cluster that nothing has touched, to a centroid that has come nearer; `backwards`: one of a
/// higher index. `times`: of each row so many. The first k rows are the centroids to begin with.
constexpr int chains = k / chain;
std::vector<float> dominoes(bool backwards, int times) {
  std::vector<float> points;
  const auto add = [&](float offset) {
    for (int j = 0; j < k; ++j) {
      const int place = backwards ? chain - 1 - j / chains : j / chains, own = j % chains;
      const float along = float(place) + (place > 0 ? offset : offset / 2);  // nothing of the first one falls
      points.insert(points.end(), {along, 3 * float(own % 8), 3 * float(own / 8), 0});
    }
  };
  for (int time = 0; time < times; ++time) add(-0.45f);
  for (int time = 0; time < times; ++time) add(0), add(-0.9f);  // what stays, and what falls
  return points;
}

/// The rung and its base; where `whole` is there, the rung once more, each of its assignments made again at once: the
/// second one meets no dirty cluster, so it multiplies all rows with all centroids, by the thresholds of the first.
template <class T>
struct Both {
  Rung<T> rung;
  std::unique_ptr<Rung<T>> base, whole;
  Both(const std::vector<T>& points, int d)
      : rung("v44_active_set", 32, points, k, d),
        base(with_base ? std::make_unique<Rung<T>>("v43_segmented_sums", 32, points, k, d) : nullptr) {}
  template <class Act>
  void each(const Act& act) {
    for (Rung<T>* const one : {&rung, base.get(), whole.get()})
      if (one) act(**one);
  }

  /// Iterations from a restart, in which a phase may be made twice.
  void expect_same() {
    each([](DirectDriver<T>& run) { run.restart(0); });
    for (int iteration = 0; iteration < iterations; ++iteration) {
      SCOPED_TRACE("iteration " + std::to_string(iteration));
      const auto centroids = rung.centroids();
      each([&](DirectDriver<T>& run) {
        const int times = (iteration % 3 == 1 ? 2 : 1) * (whole && &run == &**whole ? 2 : 1);
        for (int time = 0; time < times; ++time) run.poison_labels(), run.assign_or_iterate();
      });
      const auto labels = rung.labels();
      if (base) {
        ASSERT_EQ(labels, base->labels());
      }
      const auto rows = sample_rows((*rung).problem().n, 1'000, unsigned(iteration));
      const Rules rules{.arithmetic = {.form = Arithmetic::Form::exact}};
      const auto report = check_labels((*rung).problem(), centroids.data(), labels.data(), rules, rows);
      ASSERT_TRUE(report.ok()) << report.first;
      each([&](DirectDriver<T>& run) {
        for (int again = iteration % 4 == 2; again >= 0; --again) run.call(Act::update);
      });
      if (base) {
        ASSERT_EQ(rung.centroids(), base->centroids());
      }
    }
  }
};

class ActiveSet : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    const Rung<float> tried("v44_active_set", 32, loose<float>(36, 1), k, 36);
    if (!tried.refused.empty()) GTEST_SKIP() << tried.refused;
  }
};

/// More than once, for a restart forgets all.
template <class T>
void expect_less(const std::vector<T>& points, int d, int times) {
  Both<T> both(points, d);
  both.whole = std::make_unique<Rung<T>>("v44_active_set", 32, points, k, d);
  for (int time = 0; time < times; ++time) {
    SCOPED_TRACE("time " + std::to_string(time));
    ASSERT_NO_FATAL_FAILURE(both.expect_same());
    Counters counted = both.rung.counters();
    const std::vector<int64_t> least = counted[products], of = counted[met];
    constexpr int64_t all = int64_t(n) * k;
    ASSERT_EQ(least.size(), counted["rows compared"].size());
    ASSERT_EQ(of.size(), least.size());
    EXPECT_EQ(least[0], all);
    EXPECT_EQ(least[1], all) << "every row has joined a cluster";
    EXPECT_EQ(least[2], all) << "nothing has happened since the assignment before";
    EXPECT_LT(*std::min_element(least.begin(), least.end()), all * 2 / 3);
    for (size_t i = 0; i < least.size(); ++i) {
      EXPECT_LE(least[i], all);
      EXPECT_GE(least[i], of[i] * n);
      EXPECT_EQ(least[i] == all, of[i] == k);
    }
    if (both.base) {
      EXPECT_EQ(counted["points moved"], both.base->counters()["points moved"]);
    }
    both.whole->labels();  // downloads
    const auto expected = both.whole->counters()["candidates compared"];
    ASSERT_EQ(expected.size(), 2 * least.size());
    for (size_t i = 0; i < least.size(); ++i)
      EXPECT_LE(counted["candidates compared"][i], expected[2 * i + 1]) << "a row was compared with a clean centroid";
  }
}

TEST_F(ActiveSet, IsTheBasesAndLess) {
  expect_less(loose<float>(36, 2), 36, restarts);
  if (on_gpu) expect_less(loose<double>(36, 3), 36, 1);  // for the CPU device that would be much of the same
}

TEST_F(ActiveSet, FindsWhoHasComeNearer) {
  for (int backwards = 0; backwards < directions; ++backwards) {
    SCOPED_TRACE(backwards);
    const int times = on_gpu ? 120 : 1;
    const auto points = dominoes(backwards, times);
    Both<float> both(points, 4);
    both.expect_same();
    Counters counted = both.rung.counters();
    const auto moved = counted["points moved"], multiplied = counted[products];
    EXPECT_EQ(std::count(moved.begin(), moved.end(), chains * times), chain - 2);  // one falls in the first iteration
    EXPECT_EQ(multiplied.back(), 0) << "nothing has moved any more";
  }
}

// Whole numbers: many points are equal, and many centroids, and as near as others.
TEST_F(ActiveSet, GivesTiesToTheLowestIndex) {
  auto points = loose<float>(4, 4);
  for (float& value : points) value = std::round(value);
  Both<float> both(points, 4);
  both.expect_same();
}

TEST_F(ActiveSet, IsTheSameInALoopOnTheDevice) {
  const auto points = dominoes(false, on_gpu ? 120 : 1);
  Rung<float> rung("v46_graph_loop", 32, points, k, 4);
  (*rung).restart(0);  // what is found ahead is its first restart's alone
  (*rung).restart(0);
  for (int iteration = 0; iteration < iterations; ++iteration) (*rung).step();
  const auto labels = rung.labels();
  const auto centroids = rung.centroids();
  const Counters counted = rung.counters();
  (*rung).choose_stop({.rule = Stop::Rule::fixed, .iterations = iterations});
  for (int time = 0; time < (on_gpu ? 3 : 1); ++time) {
    (*rung).restart(0);
    (*rung).solve();
    EXPECT_EQ(rung.labels(), labels);
    EXPECT_EQ(rung.centroids(), centroids);
    EXPECT_EQ(rung.counters(), counted);
  }
}

}  // namespace
