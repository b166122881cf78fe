// Points that are worked on while they arrive: the parts that v45_overlapped_upload is made of, with the assignment of
// v40_rank_selection.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "../../../variants/common/certified/assign_sm80.cuh"
#include "../../../variants/common/certified/bound_columns.cuh"
#include "../../../variants/common/overlap/chunk_state.cuh"
#include "../../../variants/common/overlap/chunked_upload.cuh"
#include "../../fixtures/low_rank.hpp"
#include "../on_device.cuh"

namespace {
using namespace ladder;
using ladder::test::near_directions;
using Values = std::vector<float>;

/// Points: several chunks of some warpgroups' rows each, the last of which ends in the midst of one; fewer than a
/// sample has. Checked code is some hundred times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr int several = 330, iterations = 1;
#else
constexpr int several = 700, iterations = 2;
#endif

/// Late, so that what nothing waits for is not there.
class LateStreams : public testing::Test {
 protected:
  void SetUp() override { before_ = simt_set_late_streams(1); }
  void TearDown() override { simt_set_late_streams(before_); }

 private:
  int before_ = 0;
};
using Upload = LateStreams;

std::vector<int32_t> nearest(const Values& points, const Values& centroids, int d) {
  std::vector<int32_t> label(points.size() / d);
  for (size_t i = 0; i < label.size(); ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < centroids.size() / d; ++j) {
      double distance = 0;
      for (int f = 0; f < d && distance < least; ++f)
        distance += std::pow(double(points[i * d + f]) - double(centroids[j * d + f]), 2);
      if (distance < least) least = distance, label[i] = int32_t(j);
    }
  }
  return label;
}

struct ProjectedState : RankedState<float> {
  WarpgroupOperands<float> warpgroup;
  CandidateRows undecided;
  ChunkedUpload<float> chunks;
};
using ProjectedRun = Run<float, ProjectedState>;

/// v40_rank_selection, with its upload or with that of v45_overlapped_upload.
struct Projected {
  Problem<float> problem;
  Device device;
  std::unique_ptr<ProjectedRun> state;
  cudaStream_t stream = nullptr;

  Projected(const Values& points, const Values& centroids, int d, int width) {
    problem.n = int(points.size()) / d, problem.k = int(centroids.size()) / d, problem.d = d;
    problem.points = points.data(), problem.centroids = centroids.data();
    device.kind = DeviceKind::simt;
    device.multiprocessors = 2;
    check(cudaStreamCreate(&stream), "making a stream");
    state = std::make_unique<ProjectedRun>(problem, device);
    ProjectedRun& s = *state;
    s.stream = stream;
    s.axes.value = {{"short_row_width", width}};
    prepare_ranked(s);
    prepare_chunks(s, wants_filter(s));
  }
  ~Projected() {
    cudaStreamSynchronize(stream);
    state.reset();
    cudaStreamDestroy(stream);
  }

  auto& filter() { return state->ws.filter; }
  auto& certified_rows() { return state->ws.certified; }
  auto& chunks() { return state->ws.chunks; }
  /// The sample is to have so many rows.
  void sample(int rows) { chunks().sampled_rows = state->ws.subspace.count = rows; }
  void upload_whole() { upload_ranked(*state); }
  void upload_by(int count) {
    const auto& view = certified_rows().frame;
    upload_chunks(
        *state, view, count, [&](const RowRange& range) { quantize_full_dimension(*state, range); },
        [&](const float* sample, int rows) { find_projection(*state, sample, rows); },
        [&](const RowRange& range) { project_rows(*state, range); }, [] {});
  }
  void restart() {
    send_initial(*state, stream);
    finish_upload(*state, [&] { prepare_points(*state); });
    reset_filter(*state);
  }
  void assign() { assign_filtered<FilterSm80>(*state); }
  std::vector<int32_t> labels() {
    download_filter(*state);
    report_upload(*state);
    return {state->result.label, state->result.label + state->n};
  }
  Values centroids() const { return {state->result.centroids, state->result.centroids + size_t(state->k) * state->d}; }

  /// What lies at these places of the device.
  template <class E>
  std::vector<E> at(const E* from, size_t count) {
    std::vector<E> values(count);
    check(cudaMemcpyAsync(values.data(), from, count * sizeof(E), cudaMemcpyDeviceToHost, stream), "downloading");
    check(cudaStreamSynchronize(stream), "downloading");
    return values;
  }
  int top() { return at(certified_rows().frame.max_exponent, 1)[0]; }
};

template <class E>
bool same_bits(const std::vector<E>& a, const std::vector<E>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(E)) == 0;
}

/// All that an upload leaves for the assignments, beside the view.
void expect_same_rows(Projected& a, Projected& b) {
  ASSERT_EQ(a.filter().width, b.filter().width);
  const auto n = size_t(a.state->n);
  const auto &one = a.certified_rows(), &other = b.certified_rows();
  const auto all = size_t(certified::Tile::padded_rows(int(n)));
  const auto words = [](const uint4* from) { return reinterpret_cast<const uint32_t*>(from); };
  EXPECT_TRUE(same_bits(a.at(a.state->x, n * a.state->d), b.at(b.state->x, n * b.state->d))) << "points";
  EXPECT_TRUE(same_bits(a.at(words(one.x.part[0]), all * one.x.pitch * 4),
                        b.at(words(other.x.part[0]), all * other.x.pitch * 4)))
      << "halves";
  EXPECT_TRUE(same_bits(a.at(one.point, all), b.at(other.point, all))) << "what halves lost";
  if (a.filter().width == 0) return;
  const size_t short_rows = size_t(padded_short_rows(int(n))) * (a.filter().width / 8) * 4;
  EXPECT_TRUE(same_bits(a.at(words(a.filter().x), short_rows), b.at(words(b.filter().x), short_rows))) << "short rows";
  EXPECT_TRUE(same_bits(a.at(a.filter().square, n), b.at(b.filter().square, n))) << "lengths";
}

TEST(ChunkedUpload, AreAllRowsOnceAndBeginWithAWarpgroups) {
  for (const int n : {1, 63, 64, 65, 700, 1025})
    for (const int pieces : {1, 3, 12, max_chunks}) {
      int64_t next = 0, padded = 0;
      for (int p = 0; p < pieces; ++p) {
        const RowRange range = chunk_range(n, pieces, p);
        ASSERT_EQ(range.first, next);
        if (range.count > 0) {
          ASSERT_EQ(range.first % RowRange::alignment, 0);
          padded += range.padded(2048, n);
        }
        next += range.count;
      }
      EXPECT_EQ(next, n);
      EXPECT_GT(chunk_range(n, pieces, pieces - 1).count, 0);
      EXPECT_EQ(padded, 2048) << "the last one has the rows behind it";
    }
  const int most = std::numeric_limits<int>::max();
  EXPECT_EQ(chunk_range(most, 12, 11).first + chunk_range(most, 12, 11).count, most);
}

TEST_F(Upload, InPiecesLeavesWhatOneOfAllPointsDoes) {
  constexpr int d = 40, n = several;  // fewer than the sample has: it is all of them
  const Values points = near_directions<float>(n, d, 3), centroids = near_directions<float>(60, d, 4);
  Projected whole(points, centroids, d, 32);
  for (const int pieces : {5, 12}) {  // of 6 or 11 warpgroups' rows
    Projected run(points, centroids, d, 32);
    whole.upload_whole();
    run.upload_by(pieces);
    run.restart();
    EXPECT_FALSE(run.chunks().again);
    EXPECT_EQ(run.top(), whole.top() + headroom_exponents);
    EXPECT_TRUE(
        same_bits(run.at(run.certified_rows().frame.centre, d), whole.at(whole.certified_rows().frame.centre, d)));
    const auto directions = [&](Projected& of) {
      return of.at(of.state->ws.directions.value, size_t(d) * max_directions);
    };
    EXPECT_TRUE(same_bits(directions(run), directions(whole))) << "of a unit twice as large";
    const FixedPoint a = run.state->ws.sums.format, b = whole.state->ws.sums.format;
    EXPECT_EQ(std::tie(a.low, a.bits, a.words), std::tie(b.low, b.bits, b.words));
    // In the same unit, all is the same.
    const int top = run.top();
    check(cudaMemcpy(whole.certified_rows().frame.max_exponent, &top, sizeof top, cudaMemcpyHostToDevice), "uploading");
    quantize_rows(*whole.state, all_rows(*whole.state));
    project_rows(*whole.state, all_rows(*whole.state));
    expect_same_rows(run, whole);
  }
}

TEST_F(Upload, HasTheWidthBeforeAllPointsAreThere) {
  constexpr int d = 64;
  const Values points = near_directions<float>(300, d, 5), centroids = near_directions<float>(600, d, 6);
  Projected run(points, centroids, d, by_pilot);
  run.upload_by(4);
  EXPECT_EQ(run.filter().width, 32);
}

class Widths : public LateStreams, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Upload, Widths, testing::Values(0, 32), testing::PrintToStringParamName());

/// Of so many points a sample of `few_sampled` has every other one, and not the last ones.
constexpr int few_sampled = 128, many = 2 * few_sampled + 100;

TEST_P(Widths, OfASampleGiveExactLabels) {
  constexpr int d = 40;
  const Values points = near_directions<float>(many, d, 7), centroids = near_directions<float>(20, d, 8);
  Projected run(points, centroids, d, GetParam());
  run.sample(few_sampled);
  run.upload_by(5);
  run.restart();
  run.assign();
  EXPECT_EQ(run.labels(), nearest(points, centroids, d));
  EXPECT_EQ(run.state->counters["points prepared twice"], std::vector<int64_t>{0});
}

TEST_P(Widths, WherePointsLeaveTheUnitAllIsDoneAgain) {
  constexpr int d = 40;
  Values points = near_directions<float>(many, d, 9);
  for (const int row : {151, 153, 155}) points[row * d + 3] = 1e3f;
  Values centroids = near_directions<float>(20, d, 10);
  Projected run(points, centroids, d, GetParam()), whole(points, centroids, d, GetParam());
  for (Projected* each : {&run, &whole}) each->sample(few_sampled);
  run.upload_by(5);
  run.restart();
  EXPECT_TRUE(run.chunks().again);
  whole.upload_whole();
  whole.restart();
  EXPECT_EQ(run.top(), whole.top()) << "that of all points, without room to spare";
  expect_same_rows(run, whole);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (Projected* each : {&run, &whole}) {
      each->assign();
      EXPECT_EQ(each->labels(), nearest(points, centroids, d));
      update_sorted(*each->state);
      each->labels();
    }
    centroids = run.centroids();
    EXPECT_TRUE(same_bits(centroids, whole.centroids()));
  }
  EXPECT_EQ(run.state->counters["points prepared twice"], std::vector<int64_t>(iterations, many));
}

TEST_P(Widths, OnePointBeyondTheUnitIsAnOutlierRow) {
  constexpr int d = 40;
  for (const float far : {1e3f, 1e12f}) {  // the second one is beyond what halves have bounds for, too
    Values points = near_directions<float>(many, d, 9);
    points[151 * d + 3] = far;
    const Values centroids = near_directions<float>(20, d, 10);
    Projected run(points, centroids, d, GetParam());
    run.sample(few_sampled);
    run.upload_by(5);
    run.restart();
    run.assign();
    EXPECT_EQ(run.labels(), nearest(points, centroids, d));
    EXPECT_EQ(run.state->counters["points prepared twice"], std::vector<int64_t>{0});
    EXPECT_LE(run.state->counters["rows of all features"][0], GetParam() == 0 ? many : 1);
  }
}

TEST_F(Upload, HasRoomToSpareAndForFewOutlierRows) {
  constexpr int d = 40;
  const Values centroids = near_directions<float>(1, d, 9);
  const auto again = [&](float value, int rows) {
    Values points = near_directions<float>(many, d, 9);
    for (const int row : {0, 2, 4}) points[row * d + 3] = 50;  // of the sample: too many for outlier rows
    for (int e = 0; e < rows; ++e) points[(151 + 2 * e) * d + 3] = value;
    Projected run(points, centroids, d, 0);
    run.sample(few_sampled);
    run.upload_by(5);
    run.restart();
    return run.chunks().again;
  };
  EXPECT_FALSE(again(100, 20)) << "there is room to spare";
  EXPECT_FALSE(again(1000, 2)) << "outlier rows";
  EXPECT_TRUE(again(1000, 3));
}

TEST_F(Upload, RefusesAValueThatIsNotFiniteByRowAndColumn) {
  constexpr int d = 40;
  Values points = near_directions<float>(several, d, 11);
  const int row = several - 100;
  points[row * d + 17] = std::numeric_limits<float>::infinity();
  const Values centroids(points.begin(), points.begin() + 20 * d);
  Projected run(points, centroids, d, 32);
  run.upload_by(5);
  for (int time = 0; time < 2; ++time) {
    try {
      run.restart();
      FAIL() << "an infinite value must be refused";
    } catch (const Error& error) {
      const std::string place = "row " + std::to_string(row) + ", column 17 holds inf";
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
    }
  }
}

TEST_F(Upload, WaitsForThoseWhoLookAtThePointsOfBefore) {
  constexpr int d = 40;
  const Values points = near_directions<float>(several, d, 12), centroids = near_directions<float>(20, d, 13);
  Projected run(points, centroids, d, 32);
  run.upload_by(5);
  run.restart();
  run.assign();
  float* const pinned = const_cast<float*>(run.state->points);
  std::fill_n(pinned, points.size(), 0.0f);
  run.upload_by(5);
  check(cudaStreamSynchronize(run.chunks().copies.stream), "copying");  // first of all
  EXPECT_EQ(run.labels(), nearest(points, centroids, d));
}

TEST_F(Upload, InitialCentroidsStayUntilTheyAreTaken) {
  constexpr int d = 40;
  const Values points = near_directions<float>(several, d, 14), first = near_directions<float>(20, d, 15),
               second = near_directions<float>(20, d, 16);
  Projected run(points, first, d, 32);
  run.upload_by(5);
  run.restart();
  for (const Values* centroids : {&second, &first}) {
    run.problem.centroids = centroids->data();
    run.restart();
    run.assign();
    run.problem.centroids = (centroids == &first ? second : first).data();
    run.restart();  // the assignment is still to come
    EXPECT_EQ(run.labels(), nearest(points, *centroids, d));
  }
}

/// The halves of warpgroups, which the rung itself takes: their places, piece by piece.
template <class By>
void halves_come_to_their_places(Projected& run) {
  ProjectedRun& s = *run.state;
  prepare_sm90<float, By>(s);
  auto& own = s.ws.warpgroup;
  own.frame = run.certified_rows().frame;
  const auto all = size_t(MainloopSm90<128>::padded_rows(s.n)), words = all * own.rows.shape.steps * mma_depth / 2;
  const auto facts = own.rows.point ? all : 0;
  const auto halved = [&](int pieces) {
    check(cudaMemsetAsync(own.rows.x, 0xff, words * sizeof(uint32_t), s.stream), "poisoning");
    if (facts) check(cudaMemsetAsync(own.rows.point, 0xff, facts * sizeof(PointBound), s.stream), "poisoning");
    for (int p = 0; p < pieces; ++p) {
      const RowRange range = chunk_range(s.n, pieces, p);
      if (range.count > 0) quantize_rows_sm90<By>(s, range);
    }
    return std::pair(run.at(reinterpret_cast<const uint32_t*>(own.rows.x), words), run.at(own.rows.point, facts));
  };
  const auto whole = halved(1);
  for (const int pieces : {3, 5, 12}) {
    const auto in_pieces = halved(pieces);
    EXPECT_TRUE(same_bits(in_pieces.first, whole.first)) << pieces;
    EXPECT_TRUE(same_bits(in_pieces.second, whole.second)) << pieces;
  }
}

TEST_F(Upload, HalvesOfWarpgroupsComeToTheirPlaces) {
  constexpr int d = 40, k = 20;
  const Values points = near_directions<float>(several, d, 17), centroids = near_directions<float>(k, d, 18);
  for (const bool within : {false, true}) {
    SCOPED_TRACE(within ? "bounds within the products" : "bounds beside the products");
    Projected run(points, centroids, d, 32);
    run.upload_by(5);
    run.restart();
    within ? halves_come_to_their_places<EpilogueBoundColumns>(run) : halves_come_to_their_places<SeparateBounds>(run);
  }
}

}  // namespace
