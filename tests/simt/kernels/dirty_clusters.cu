// Dirty clusters and the order that stays, parts of v44_active_set, against the same iterations without them, as in
// v43_segmented_sums: labels and centroids have the same bits, and what was kept is still right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "../../../variants/common/pruning/active_set.cuh"
#include "../../fixtures/low_rank.hpp"
#include "../on_device.cuh"

namespace {
using namespace ladder;
using ladder::test::near_directions;

constexpr int width = 32;

constexpr ladder::test::LowRank loose{.rank = 3, .offset = 0, .groups = 3};

/// What v44_active_set keeps between iterations.
struct Kept {
  bool dirty = true;
  int resort_share = 8;
};

template <class T>
struct BoundedWorkspace : BoundedState<T> {};

template <class T>
class Iterations {
 public:
  Iterations(const std::vector<T>& points, const std::vector<T>& centroids, int d, int of_row, const Kept* kept) {
    problem_.n = int(points.size()) / d, problem_.k = int(centroids.size()) / d, problem_.d = d;
    problem_.points = points.data(), problem_.centroids = centroids.data();
    device_.kind = DeviceKind::simt;
    device_.multiprocessors = 2;
    state_ = std::make_unique<Run<T, BoundedWorkspace<T>>>(problem_, device_);
    state_->axes.value = {{"short_row_width", of_row}, {"slack_permille", 10}, {"full_update_share", 4}};
    prepare_bounds(*state_);
    sums().full_update_share = 4;
    if (kept && kept->dirty) sums().dirty = allocate_dirty(*state_, state_->k);
    if (kept) state_->ws.order.sort.resort_share = kept->resort_share;
    upload_ranked(*state_);
    restart();
  }
  ~Iterations() { cudaDeviceSynchronize(); }

  Run<T, BoundedWorkspace<T>>& state() { return *state_; }
  IncrementalSums& sums() { return state_->ws.sums; }
  ProjectionFilter& filter() { return state_->ws.filter; }
  /// Labels are what the harness leaves of them: none.
  void restart() {
    check(cudaMemsetAsync(state_->label, -1, state_->n * sizeof(int32_t), state_->stream), "poisoning the labels");
    restart_bounds(*state_);
  }
  void assign() { assign_with_bounds(*state_); }
  void update() {
    move_or_sum_segments(*state_, state_->x, list_and_sort(*state_));
    step_to_means(*state_);
  }

  template <class E>
  std::vector<E> at(const E* from, size_t count) {
    std::vector<E> values(count);
    check(cudaMemcpyAsync(values.data(), from, count * sizeof(E), cudaMemcpyDeviceToHost, state_->stream),
          "downloading");
    check(cudaStreamSynchronize(state_->stream), "downloading");
    return values;
  }
  std::vector<int32_t> labels() { return at(state_->label, state_->n); }
  std::vector<T> centroids() { return at(state_->c, size_t(state_->k) * state_->d); }
  std::vector<int> order() { return at(state_->ws.order.rows.row, state_->n); }
  std::vector<uint32_t> thresholds() { return at(filter().threshold, state_->n); }
  /// Short rows of centroids, and of those of the last tile that are none.
  std::vector<unsigned> short_rows() {
    const size_t words = size_t(padded_short_rows(state_->k)) * width / 2;
    return at(reinterpret_cast<const unsigned*>(filter().c), words);
  }
  /// No product of a row with a centroid that is as near as its guess may be below 0.
  void expect_thresholds(const std::vector<T>& points, const std::vector<T>& centroids,
                         const std::vector<int32_t>& guess) {
    const int d = state_->d;
    const auto square = at(filter().square, state_->n);
    const auto found = thresholds();
    const auto shift = [](uint32_t threshold) {
      float halves[2];
      simt::widen(threshold, halves);
      return double(halves[0]) + double(halves[1]);
    };
    const int unit = 2 * ((-1 - std::max(at(frame_of(*state_).max_exponent, 1)[0], -1000)) + short_exponent(d));
    for (int i = 0; i < state_->n; ++i) {
      long double distance = 0;
      for (int f = 0; f < d; ++f) {
        const long double off =
            static_cast<long double>(points[size_t(i) * d + f]) - centroids[size_t(guess[i]) * d + f];
        distance += off * off;
      }
      const double least = std::ldexp(double(distance * (1 - 1e-12L)), unit);
      ASSERT_GE(shift(found[i]), shift(threshold(square[i], least, width))) << "row " << i;
    }
  }

 private:
  Problem<T> problem_;
  Device device_;
  std::unique_ptr<Run<T, BoundedWorkspace<T>>> state_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void expect_each_row_once(std::vector<T> rows) {
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], int(i));
}

template <class T>
class DirtyClustersOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(DirtyClustersOf, Types);

constexpr int n = 250, k = 37, d = 36;

/// The last centroid is so far away that it never has a point.
template <class T>
std::vector<T> initial(const std::vector<T>& points) {
  std::vector<T> centroids(points.begin(), points.begin() + k * d);
  std::fill(centroids.end() - d, centroids.end(), T(1e4));
  return centroids;
}

// Assignments and updates in any order: each may be made twice. Twice over, for a restart forgets all.
TYPED_TEST(DirtyClustersOf, GivesTheSameBitsIterationByIteration) {
  const auto points = near_directions<TypeParam>(n, d, 3, loose);
  const auto first = initial(points);
  for (const int of_row : {width, 0})
    for (const Kept& kept : {Kept{}, Kept{true, 2}, Kept{false, 64}}) {
      SCOPED_TRACE("width " + std::to_string(of_row) + ", resort_share " + std::to_string(kept.resort_share));
      Iterations<TypeParam> base(points, first, d, of_row, nullptr), changed(points, first, d, of_row, &kept);
      int standing = 0;
      std::vector<std::vector<TypeParam>> left;  // by the iterations of the first time
      for (int time = 0; time < 2; ++time) {
        auto guess = changed.labels();
        for (int iteration = 0; iteration < 8; ++iteration) {
          SCOPED_TRACE("time " + std::to_string(time) + ", iteration " + std::to_string(iteration));
          const auto before = changed.centroids();
          for (auto* const one : {&base, &changed})
            for (int again = iteration % 3 == 1; again >= 0; --again) one->assign();
          ASSERT_EQ(changed.labels(), base.labels());
          if (of_row > 0) {
            ASSERT_TRUE(same_bits(changed.short_rows(), base.short_rows()));
            if (iteration > 0) changed.expect_thresholds(points, before, guess);
            standing += changed.order() != base.order();
            expect_each_row_once(changed.order());
          }
          for (auto* const one : {&base, &changed})
            for (int again = iteration % 4 == 2; again >= 0; --again) one->update();
          const auto now = changed.centroids();
          ASSERT_TRUE(same_bits(now, base.centroids()));
          if (time == 0) left.push_back(now);
          ASSERT_TRUE(same_bits(now, left[iteration]));
          guess = changed.labels();
        }
        for (auto* const one : {&base, &changed}) one->restart();
      }
      if (of_row > 0 && kept.resort_share < 64) {
        EXPECT_GT(standing, 0) << "the order never stood";
      }
    }
}

// Where nobody moves, nothing is made anew: whatever lies there remains. Here these are thresholds so far below 0 that
// all products are, which leaves every row its guess, and short rows of nothing but what thresholds are multiplied by.
TYPED_TEST(DirtyClustersOf, DoesNotTouchWhatHasNotChanged) {
  const auto points = near_directions<TypeParam>(n, d, 4, loose);
  const auto first = initial(points);
  for (const bool dirty : {true, false}) {
    const Kept kept{dirty};
    Iterations<TypeParam> it(points, first, d, width, &kept);
    std::vector<int32_t> before;
    do {
      before = it.labels();
      it.assign(), it.update();
    } while (it.labels() != before);
    it.assign(), it.update();
    const auto order = it.order();
    const std::vector<uint32_t> low(n, 0xf800f800u);  // twice -2^15
    std::vector<unsigned> none(it.short_rows().size(), 0u);
    for (size_t last = width / 2 - 1; last < none.size(); last += width / 2) none[last] = 0x6c006c00u;  // twice 2^12
    to_device(it.state(), it.filter().threshold, low.data(), n, "spoiling thresholds");
    to_device(it.state(), reinterpret_cast<unsigned*>(it.filter().c), none.data(), none.size(), "spoiling short rows");
    it.assign(), it.update();
    EXPECT_EQ(it.thresholds() == low, dirty);
    const auto rows = it.short_rows();
    EXPECT_EQ(std::equal(rows.begin(), rows.begin() + 32 * width / 2, none.begin()), dirty);
    EXPECT_EQ(it.labels(), before);
    EXPECT_EQ(it.order(), order);
  }
}

// One point moves: two clusters are touched, and all others stay as they are.
TYPED_TEST(DirtyClustersOf, TouchesTheClustersThatAPointLeavesAndJoins) {
  const auto points = near_directions<TypeParam>(n, d, 5, loose);
  const Kept kept;
  Iterations<TypeParam> it(points, initial(points), d, width, &kept);
  it.assign(), it.update();
  it.assign();
  auto label = it.labels();
  const int from = label[0], to = (from + 1) % (k - 1);
  it.update();
  it.assign();
  label = it.at(it.sums().previous_label, n);
  const auto centroids = it.centroids();
  label[0] = label[0] == to ? from : to;
  const int left = it.at(it.sums().previous_label, n)[0];
  to_device(it.state(), it.state().label, label.data(), n, "moving a point");
  it.update();
  const auto at = it.at(it.sums().dirty.stamp, k + 1);
  const auto now = it.centroids();
  for (int j = 0; j < k; ++j) {
    const bool is = j == left || j == label[0];
    EXPECT_EQ(at[j] == at[k], is) << "cluster " << j;
    EXPECT_EQ(!std::equal(now.begin() + j * d, now.begin() + (j + 1) * d, centroids.begin() + j * d), is);
  }
}

}  // namespace
