// Each variant of tests/wrong has one planted fault. Validation must reject it, and for that reason: the file's line
// `// rejected: WORDS` says which words the fault must bring up.
#include <gtest/gtest.h>

#include "session_helper.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

/// Points and centroids on which every planted fault shows: far from the origin, on a fine grid, with two centroids at
/// one place, and one centroid so far away that it has no points.
struct Trap {
  static constexpr int n = 5000, d = 3, k = 12;
  std::vector<float> points, centroids;
  Trap() {
    uint64_t state = 1;
    for (int e = 0; e < n * d; ++e) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      points.push_back(4096 + float(state >> 52) / 4096 + float(e % 7) / 3);
    }
    for (int j = 0; j < k; ++j) {
      for (int f = 0; f < d; ++f) centroids.push_back(points[(j * 400) * d + f]);
    }
    for (int f = 0; f < d; ++f) {
      centroids[5 * d + f] = centroids[3 * d + f];
      centroids[11 * d + f] = -1e6f;
    }
  }
};

std::string rejected_for(const std::string& id) {
  std::ifstream in(std::string(SOURCE_FOLDER) + "/tests/wrong/" + id + ".cu");
  const std::string key = "// rejected: ";
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "";
}

class WrongVariant : public testing::Test {
 public:
  WrongVariant(DeviceKind kind, Variant variant) : kind_(kind), variant_(std::move(variant)) {}
  void TestBody() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    const Trap trap;
    const std::string words = rejected_for(variant_.id);
    ASSERT_NE(words, "") << "the file must say what validation is to reject";
    const Outcome outcome =
        follow(kind_, variant_, trap.points, trap.centroids, Trap::d, Stop{.max_iterations = 20}, {"solve"});
    EXPECT_EQ(outcome.refused, "");
    EXPECT_NE(outcome.fault.find(words), std::string::npos) << "rejected, but for: '" << outcome.fault << "'";
  }

 private:
  DeviceKind kind_;
  Variant variant_;
};

const bool registered = [] {
  for (const auto& [kind, variant] : built("tests/wrong")) {
    testing::RegisterTest("Wrong", variant.id.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=] { return new WrongVariant(kind, variant); });
  }
  return true;
}();

/// The trap catches what is wrong, and nothing else.
TEST(Trap, RightVariantsPass) {
  if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  const Trap trap;
  for (const auto& [kind, variant] : built("variants")) {
    SCOPED_TRACE(variant.id);
    EXPECT_EQ(follow(kind, variant, trap.points, trap.centroids, Trap::d, Stop{.max_iterations = 20}, {"solve"}).fault,
              "");
  }
}

}  // namespace
