// Rungs that split their rows: on one to four devices of one process the same labels and centroids, to the last bit, in
// as many iterations. tests/runner/test_several_gpus.py tries several processes.
#include <gtest/gtest.h>
#ifndef LADDER_WORKER_CUDA
#include <simt.h>
#endif

#include <cmath>

#include "base/files.hpp"
#include "session_helper.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

constexpr int n = 44, d = 5, k = 5;
#ifdef __SANITIZE_ADDRESS__
const std::vector<int> numbers = {1, 3};
const Stop to_the_end{.rule = Stop::Rule::fixed, .iterations = 3};  // checked code is some hundred times slower
#else
const std::vector<int> numbers = {1, 2, 3, 4};
const Stop to_the_end;
#endif

/// Loose groups, of which each device gets an uneven part, in order of the groups. The first device has whole numbers,
/// and the last one a row that is much longer than all others: a format of the sums for its values alone would be
/// wrong.
template <class T>
std::vector<T> points() {
  std::vector<T> values;
  uint64_t state = 5;
  for (int e = 0; e < n * d; ++e) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = double(state >> 11) * 0x1p-52;
    values.push_back(T(3 * (e / d * 7 / n) * (e % 3) + (e / d < n / 2 ? std::floor(4 * value) : value)));
  }
  for (int f = 0; f < d; ++f) values[size_t(n - 2) * d + f] *= 4096;
  return values;
}

class SeveralDevices : public testing::TestWithParam<std::string> {
 public:
  void SetUp() override {
    int here = 0;
#ifdef LADDER_WORKER_CUDA
    if (cudaGetDeviceCount(&here) != cudaSuccess || here < 2) GTEST_SKIP() << "there is one GPU at most";
#else
    here = numbers.back();
    before_ = simt_set_devices(here);
#endif
    here_ = here;
    for (const auto& [kind, variant] : built("variants")) {
      if (variant.id == GetParam()) kind_ = kind, variant_ = variant;
    }
    if (variant_.id.empty()) GTEST_SKIP() << "not built";
  }
  void TearDown() override {
#ifndef LADDER_WORKER_CUDA
    cudaSetDevice(0);
    if (before_ > 0) simt_set_devices(before_);
#endif
  }

  template <class T>
  Outcome on(int devices, const std::vector<T>& rows, std::vector<std::string> scopes = {}) {
    folder_ = std::filesystem::temp_directory_path() / ("ladder-several-" + std::to_string(getpid()));
    const auto adapt = [&](Request& request) {
      request.ordinals.clear();
      for (int device = 0; device < devices; ++device) request.ordinals.push_back(device);
      request.dump = folder_.string();
      request.axes["short_row_width"] = 32;  // few features: a pilot would not prune
      request.check_only = scopes.empty();
      if (GetParam() == "v32e_chunks_on_several") request.axes["chunk_rows"] = 33;
    };
    return validate_variant(kind_, variant_, rows, {rows.begin(), rows.begin() + std::min<int>(k, rows.size() / d) * d},
                            d, to_the_end, scopes, adapt);
  }
  /// Labels and centroids of the last run, as they were written.
  std::string results() const { return read_whole(folder_ / "labels.npy") + read_whole(folder_ / "centroids.npy"); }

  template <class T>
  void same_bits(const std::vector<int>& numbers) {
    const std::vector<T> rows = points<T>();
    std::string of_one;
    nlohmann::json reassigned;
    for (const int devices : numbers) {
      if (devices > here_) break;
      SCOPED_TRACE(std::to_string(devices) + " devices");
      const Outcome outcome = on<T>(devices, rows);
      if (!outcome.refused.empty()) GTEST_SKIP() << outcome.refused;
      ASSERT_EQ(outcome.fault, "");
      ASSERT_EQ(outcome.result["validation"]["labels_wrong"], 0);
      if (devices == 1) of_one = results(), reassigned = outcome.result["reassigned"];
      EXPECT_EQ(results(), of_one);
      EXPECT_EQ(outcome.result["reassigned"], reassigned);
      EXPECT_GT(reassigned.size(), 2u) << "a solve so short shows little";
    }
    std::filesystem::remove_all(folder_);
  }

 protected:
  int before_ = 0, here_ = 0;
  DeviceKind kind_ = DeviceKind::cpu;
  Variant variant_;
  std::filesystem::path folder_;
};

TEST_P(SeveralDevices, GiveTheBitsOfOneInFloat) { same_bits<float>(numbers); }
TEST_P(SeveralDevices, GiveTheBitsOfOneInDouble) {
  if (GetParam() == "v32e_chunks_on_several")
    GTEST_SKIP() << "what differs in double is tried by Chunks in large_data.cpp";
  same_bits<double>({1, 3});
}

TEST_P(SeveralDevices, AreTimedWithTheirCommunication) {
  if (GetParam() != "v33b_overlapped_sum") GTEST_SKIP() << "v33b_overlapped_sum has all kinds of sums";
  const Outcome outcome = on<float>(2, points<float>(), {"solve", "download"});
  if (!outcome.refused.empty()) GTEST_SKIP() << outcome.refused;
  ASSERT_EQ(outcome.fault, "");
  const Timed& solve = outcome.timed.at("solve");
  ASSERT_TRUE(solve.communication_ms);
  EXPECT_GT(*solve.communication_ms, 0);
  EXPECT_LE(*solve.communication_ms, 2 * *solve.median_ms) << "sums of two streams may overlap";
  EXPECT_EQ(outcome.timed.at("download").communication_ms, 0);
  std::filesystem::remove_all(folder_);
}

TEST_P(SeveralDevices, WantAPointEach) {
  const Outcome outcome = on<float>(2, std::vector<float>(size_t(d), 1.0f));
  EXPECT_NE(outcome.refused.find("points for 2 devices, and N is 1"), std::string::npos) << outcome.refused;
}

TEST_P(SeveralDevices, NameARowThatIsNotFiniteByItsPlaceAmongAll) {
  std::vector<float> rows = points<float>();
  rows[size_t(n - 1) * d + 2] = std::numeric_limits<float>::infinity();
  const Outcome outcome = on<float>(2, rows);
  EXPECT_NE((outcome.fault + outcome.refused).find("row " + std::to_string(n - 1) + ", column 2 holds inf"),
            std::string::npos)
      << outcome.fault << outcome.refused;
}

INSTANTIATE_TEST_SUITE_P(OfChapters8And9, SeveralDevices,
                         testing::Values("v33a_split_rows", "v33b_overlapped_sum", "v44a_pruned_on_several",
                                         "v32e_chunks_on_several"),
                         [](const auto& of) { return of.param; });

}  // namespace
