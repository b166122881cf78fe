// Each variant of tests/fixtures/wrong has one planted fault. Validation must reject it, and for that reason. The
// file's line `// rejected: WORDS` holds words of the expected message; `rejected (cuda)` and `rejected (checked)` hold
// those of a GPU and of the sanitized build, where another check fails first. Without LADDER_SANITIZE_ALL the sanitized
// build has only the variants with a line `// needs: `, `// rejected (checked): ` or `// sanitized: WHY`.
#include <gtest/gtest.h>

#include <ctime>

#include "protocol/scopes.hpp"
#include "session_helper.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

/// Points and centroids on which every planted fault shows: far from the origin, on a fine grid, with two centroids at
/// one place, and one centroid so far away that it has no points. In double, steps that floats cannot tell apart.
template <class T>
struct Trap {
  static constexpr int d = 3, k = 12;
  std::vector<T> points, centroids;
  explicit Trap(int n) {
    uint64_t state = 1;
    for (int e = 0; e < n * d; ++e) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      points.push_back(4096 + T(state >> 52) / 4096 + T(e % 7) / 3 +
                       T(sizeof(T) == 8 ? double(state & 1023) * 1e-8 : 0));
    }
    for (int j = 0; j < k; ++j) {
      for (int f = 0; f < d; ++f) centroids.push_back(points[(j * (n / k)) * d + f]);
    }
    for (int f = 0; f < d; ++f) {
      centroids[5 * d + f] = centroids[3 * d + f];
      centroids[11 * d + f] = T(-1e6);
    }
  }
  /// The same seen from near by, and stretched row by row: directions and lengths of all kinds.
  void look_from_near() {
    for (std::vector<T>* rows : {&points, &centroids}) {
      for (size_t e = 0; e < rows->size(); ++e) (*rows)[e] = ((*rows)[e] - 4095) * T(1 + e / d % 5);
    }
  }
  Outcome outcome(DeviceKind kind, const Variant& variant, const std::vector<std::string>& scopes,
                  const std::function<void(Request&)>& adapt = {}) const {
    return validate_variant(kind, variant, points, centroids, d, Stop{.max_iterations = 20}, scopes, adapt);
  }
};

/// The end of the line `// KEY: WORDS` of the variant's file; empty where there is none.
std::string said_in(const std::string& id, const std::string& key) {
  const std::string begin = "// " + key + ": ";
  for (const char* ending : {".cu", ".cpp"}) {
    std::ifstream in(std::string(SOURCE_FOLDER) + "/tests/fixtures/wrong/" + id + ending);
    for (std::string line; std::getline(in, line);) {
      if (line.rfind(begin, 0) == 0) return line.substr(begin.size());
    }
  }
  return "";
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool is_checked = true;
#else
constexpr bool is_checked = false;
#endif

/// Does this program's device show such faults? Races and late streams are a GPU's, and the sanitized CPU device's.
bool shows(const std::string& needs) {
  return needs.empty() || std::string(HOME_KIND) == (is_checked ? "simt" : "cuda");
}

class WrongVariant : public testing::Test {
 public:
  WrongVariant(DeviceKind kind, Variant variant) : kind_(kind), variant_(std::move(variant)) {}
  void TestBody() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    const std::string &id = variant_.id, needs = said_in(id, "needs");
    if (!shows(needs)) GTEST_SKIP() << "it takes a GPU, or the sanitized build, to show " << needs;
    std::string words = said_in(id, std::string("rejected (") + (is_checked ? "checked" : HOME_KIND) + ")");
    if (words.empty()) words = said_in(id, "rejected");
    ASSERT_NE(words, "") << "the file must say what validation is to reject";
    const std::string scope = said_in(id, "scopes");  // where another scope would show the same fault first
    const std::vector<std::string> scopes = scope.empty() ? scope_names() : std::vector<std::string>{scope};
    const std::string metric = said_in(id, "metric"), kernel = said_in(id, "kernel");
    const auto adapt = [&](Request& request) {
      if (!metric.empty()) request.metric = metric_named(metric);
      if (!kernel.empty()) request.kernel = kernel_named(kernel);
    };
    std::string faults;
    // Kernel k-means looks at all pairs of points.
    for (const int n : kernel.empty() ? std::vector{5000, 1024} : std::vector{360}) {
      const auto caught = [&]<class T>(Trap<T> trap) {
        if (metric == "cosine") trap.look_from_near();
        return trap.outcome(kind_, variant_, scopes, adapt);
      };
      const Outcome outcome = said_in(id, "type") == "f64" ? caught(Trap<double>(n)) : caught(Trap<float>(n));
      EXPECT_EQ(outcome.refused, "");
      faults += outcome.fault + "\n";
    }
    EXPECT_NE(faults.find(words), std::string::npos) << "rejected, but for: '" << faults << "'";
  }

 private:
  DeviceKind kind_;
  Variant variant_;
};

/// The trap catches what is wrong, and nothing else.
class RightVariant : public testing::Test {
 public:
  RightVariant(DeviceKind kind, Variant variant) : kind_(kind), variant_(std::move(variant)) {}
  void TestBody() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = why_left_out(kind_, variant_.id); !why.empty()) GTEST_SKIP() << why;
    const auto look = [](Request& request) {
      request.check_only = true;
      request.stop.max_iterations = 4;
    };
    for (const int n : is_checked ? std::vector{1024} : std::vector{1024, 5000}) {
      const std::clock_t begin = std::clock();
      EXPECT_EQ(Trap<float>(n).outcome(kind_, variant_, scope_names(), look).fault, "");
      EXPECT_EQ(Trap<double>(n).outcome(kind_, variant_, {"solve"}, look).fault, "");
      if (std::clock() - begin > CLOCKS_PER_SEC) break;  // the CPU device is slow at shuffles
    }
  }

 private:
  DeviceKind kind_;
  Variant variant_;
};

const bool registered = [] {
  for (const auto& [kind, variant] : built("tests/fixtures/wrong")) {
    testing::RegisterTest("Wrong", variant.id.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=] { return new WrongVariant(kind, variant); });
  }
  for (const auto& [kind, variant] : built("variants")) {
    if (is_peer(variant.modules.at(kind))) continue;  // their Python takes a second to begin; test_peers.py tries them
    testing::RegisterTest("Right", variant.id.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=] { return new RightVariant(kind, variant); });
  }
  return true;
}();

}  // namespace
