// Every variant, in float and double, on sizes that break tiles, against the fp64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <set>

#include "base/philox.hpp"
#include "protocol/scopes.hpp"
#include "session_helper.hpp"
#include "validation/reference.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

// N x K x D. A session computes them some five times, a CPU some 1e9 of them in a second. Checked code, which looks for
// races too, is some hundred times slower; a GPU does not notice.
#if defined(__SANITIZE_ADDRESS__)
constexpr double largest = 3e4;
constexpr int wide = 130;  // features: more than a tile of 16 KB holds of any
constexpr int trials = 10;
#else
constexpr int wide = 408, trials = 100;
constexpr double largest = std::string_view(HOME_KIND) == "cuda" ? 1e9 : 7e6;
#endif
constexpr int few = 33;  // so few points are always tried

// Special points go the same ways through a kernel's memory in both types, and whole runs through all phases: unless
// all is asked for, checked code is tried on the floats, and timed in whole runs, alone.
#if defined(__SANITIZE_ADDRESS__) && !defined(SANITIZE_ALL)
constexpr bool all_ways = false;
#else
constexpr bool all_ways = true;
#endif
#ifdef LADDER_FLOATS_ALONE
constexpr bool floats_alone = true;  // doubles are left out of rungs that have them
#else
constexpr bool floats_alone = false;
#endif

/// Seconds of CPU time that a session may take. One that would take longer, by what the one before, or those
/// with few features, took for each pair of a point and a centroid, is left out: shuffles, of which some revisions need
/// many, are slow on the CPU device. CPU time, so that the choice is the same on a busy machine.
#if defined(__SANITIZE_ADDRESS__)
constexpr double longest = 0.2, longest_superseded = longest;  // on a busy machine, too, enough sizes are tried
#else
constexpr double longest = 0.04;
constexpr double longest_superseded = 0.05;  // preset ci optimises these less: as many sizes are tried
#endif

// Neighbours of the sizes of warps, blocks and tiles, and these sizes themselves.
const std::vector<int> sizes = {1, 31, 32, 33, 127, 128, 129, 256, 512, 1024, 1025};
// Doubles go through the templates that floats have gone through, and the rung that builds upon this one is tried on
// all sizes: fewer sizes do. A GPU, which does not notice, has all of them for floats.
const std::vector<int> fewer_sizes = {1, 33, 128, 129, 1025};
// All pairs of N and K are tried with the first of these.
template <class T>
constexpr std::array<int, 5> features = {3, wide, 33, 2, 1};
template <>
constexpr std::array<int, 5> features<double> = {2, 33, wide, 1, 3};
const Stop two_steps{.rule = Stop::Rule::fixed, .iterations = 2};
const Stop to_the_end = all_ways ? Stop() : two_steps;

/// Values in [-1, 1), the same in every run.
template <class T>
std::vector<T> draw(size_t count, uint64_t seed) {
  std::vector<T> values(count);
  uint64_t state = seed;
  for (T& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = T(double(state >> 11) * 0x1p-52 - 1);
  }
  return values;
}

/// What "near" means to a variant: one of its card's metrics, or one of the kernels, which are tried in turn.
struct Sense {
  std::string metric;  ///< empty: a kernel
  int turn = 0;        ///< which of the kernels
  bool kernel() const { return metric.empty(); }
  void operator()(Request& request) const {
    static const char* const kernels[] = {"linear", "polynomial:0.5,1,3", "gaussian:0.7"};
    if (kernel())
      request.kernel = kernel_named(kernels[turn % 3]);
    else
      request.metric = metric_named(metric);
  }
};

/// The same with 11 significant binary digits: values that fp16 holds, for variants that take no others.
template <class T>
std::vector<T> rounded(std::vector<T> values) {
  for (T& value : values) value = T(std::nearbyint(std::ldexp(value, 10))) / 1024;
  return values;
}

/// validate_variant, and once more with such values where the variant takes no others.
template <class T>
Outcome validate_any(DeviceKind kind, const Variant& variant, const std::vector<T>& points,
                     const std::vector<T>& centroids, int d, const Stop& stop, const std::vector<std::string>& scopes,
                     const Sense& sense) {
  Outcome outcome = validate_variant(kind, variant, points, centroids, d, stop, scopes, sense);
  if (outcome.refused.find("fp16") == std::string::npos) return outcome;
  return validate_variant(kind, variant, rounded(points), rounded(centroids), d, stop, scopes, sense);
}

/// For K = N every point is its own centroid, where features are few; elsewhere no centroid is so near to a point that
/// it could not be lost to a wrong distance.
bool own_centroids(int n, int k, int d) { return k == n && d <= 3; }

/// Tiles break where a size ends, or two sizes do together: a triple of sizes is tried only for a pair of N and K, of N
/// and D, or of K and D that was not yet. Labels that wrong distances leave as they are, of one centroid or of a
/// point's own, say nothing of D.
class Pairs {
 public:
  bool tried(int n, int k, int d) const {
    return n_k_.count({n, k}) && (!shows_k(n, k, d) || k_d_.count({k, d})) && (!shows_n(n, k, d) || n_d_.count({n, d}));
  }
  void add(int n, int k, int d) {
    n_k_.insert({n, k});
    if (shows_k(n, k, d)) k_d_.insert({k, d});
    if (shows_n(n, k, d)) n_d_.insert({n, d});
  }

 private:
  static bool shows_k(int n, int k, int d) { return !own_centroids(n, k, d); }
  static bool shows_n(int n, int k, int d) { return k > 1 && !own_centroids(n, k, d); }

  std::set<std::pair<int, int>> n_k_, n_d_, k_d_;
};

template <class T>
void awkward_sizes(DeviceKind kind, const Variant& variant, const Sense& sense, bool superseded) {
  Pairs pairs;
  const bool second_type = sizeof(T) == 8 && variant.card.at("types").size() == 2;
  const bool fewer = second_type || (superseded && kind == DeviceKind::simt);
  const std::vector<int>& tried_sizes = fewer ? fewer_sizes : sizes;
  const double most = superseded ? longest_superseded : longest;
  int ran = 0;
  std::string refused;
  double few_features_seconds = 0;
  for (const int d : features<T>) {
    double pair_seconds = few_features_seconds;
    for (const int n : tried_sizes) {
      const std::vector<T> points = draw<T>(size_t(n) * d, 1 + n);
      for (const int k : tried_sizes) {
        // Kernel k-means reads all pairs of points, and its validation does so several times.
        const double distances = sense.kernel() ? 7.0 * n * n : double(n) * k;
        if (k > n || (n > few && distances * d > largest) || distances * pair_seconds > most) continue;
        if (pairs.tried(n, k, d)) continue;
        SCOPED_TRACE("N = " + std::to_string(n) + ", K = " + std::to_string(k) + ", D = " + std::to_string(d));
        const std::vector<T> centroids = own_centroids(n, k, d) ? points : draw<T>(size_t(k) * d, 1000 + k);
        const std::clock_t begin = std::clock();
        const Sense here{sense.metric, sense.turn + ran};
        const Outcome outcome = validate_any(kind, variant, points, centroids, d, two_steps, {}, here);
        if (n >= few && k >= few - 2) pair_seconds = double(std::clock() - begin) / CLOCKS_PER_SEC / distances;
        if (d == features<T>.front()) few_features_seconds = pair_seconds;
        ASSERT_EQ(outcome.fault, "");
        if (!outcome.refused.empty()) {
          refused = outcome.refused;
          continue;
        }
        ASSERT_EQ(outcome.result["validation"]["labels_wrong"], 0);
        ASSERT_GT(outcome.result["validation"]["rows_checked"], 0);
        pairs.add(n, k, d);
        ++ran;
      }
    }
  }
  if (ran == 0 && refused.find("a GPU of compute capability") != std::string::npos) GTEST_SKIP() << refused;
  EXPECT_GT(ran, fewer ? 5 : 12) << "refused nearly everything";
}

template <class T>
void special_points(DeviceKind kind, const Variant& variant, const Sense& measured) {
  const int n = 129, d = 3, k = 7;
  const std::clock_t begin = std::clock();
  double seconds = 0;  // of CPU time, of a session on these few points
  {
    SCOPED_TRACE("all points equal");
    const Outcome outcome = validate_any(kind, variant, std::vector<T>(n * d, T(0.1)), std::vector<T>(k * d, T(0.1)), d,
                                         Stop(), {}, measured);
    if (!outcome.refused.empty()) GTEST_SKIP() << outcome.refused;  // a type or a library that is not there
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.result["validation"]["labels_wrong"], 0);
    seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  }
  if (!is_peer(variant.modules.at(kind))) {
    SCOPED_TRACE("every centroid is there twice, far apart");
    const int twins = 75, many = 3 * twins;
    const std::vector<T> points = draw<T>(many * d, 9);
    std::vector<T> centroids(points.begin(), points.begin() + twins * d);
    for (int j = 0; j < twins; ++j) {  // the twin of j in an order of its own: other threads, tiles and chunks have it
      const T* const twin = &points[size_t(j * 31 % twins) * d];
      centroids.insert(centroids.end(), twin, twin + d);
    }
    const Outcome outcome = validate_any(kind, variant, points, centroids, d, two_steps, {}, measured);
    EXPECT_EQ(outcome.fault, "");
  }
  // Libraries that move the origin to the mean lose the small distances to an outlier: that is theirs to lose.
  if (!is_peer(variant.modules.at(kind))) {
    std::vector<T> points = draw<T>(n * d, 5), small = points;
    points[10 * d] = T(1e6);
    for (T& value : small) value *= T(1e-7);
    for (const auto& [what, rows] : {std::pair("one far outlier", points), {"all points near the origin", small}}) {
      SCOPED_TRACE(what);
      const Outcome outcome =
          validate_any(kind, variant, rows, {rows.begin(), rows.begin() + k * d}, d, to_the_end, {}, measured);
      EXPECT_EQ(outcome.fault, "");
    }
  }
  if (sizeof(T) == 8) {
    SCOPED_TRACE("near ties that only doubles separate");
    const std::vector<T> points = draw<T>(n * d, 7);
    std::vector<T> centroids(points.begin(), points.begin() + k * d);
    for (int j = 1; j < k; j += 2) {
      for (int f = 0; f < d; ++f) centroids[j * d + f] = centroids[(j - 1) * d + f] + T(1e-11);
    }
    const Outcome outcome = validate_any(kind, variant, points, centroids, d, two_steps, {}, measured);
    EXPECT_EQ(outcome.fault, "");
  }
  {
    SCOPED_TRACE("nine of ten coordinates are zero");
    const int many = 70;
    std::vector<T> points = draw<T>(n * many, 8);
    for (size_t e = 0; e < points.size(); ++e) {
      // No row of a metric of directions may be zero.
      if (e % 10 != 3 || (measured.metric != "cosine" && e / many == 5)) points[e] = 0;
    }
    const Outcome outcome =
        validate_any(kind, variant, points, {points.begin(), points.begin() + k * many}, many, two_steps, {}, measured);
    EXPECT_EQ(outcome.fault, "");
  }
  {
    SCOPED_TRACE("timed in every scope");
    // Close to the first centroids: three iterations, as each scope has some solves, and those of some rungs are slow.
    const std::vector<T> noise = draw<T>(n * d, 15);
    std::vector<T> points = noise;
    for (int e = 0; e < n * d; ++e) points[e] = noise[e] / 8 + noise[e / d % k * d + e % d];
    const bool every = all_ways && (sizeof(T) == 8 || variant.card.at("types").size() == 1);
    std::vector<std::string> scopes = {"end_to_end"};
    if (every) scopes = seconds < 0.1 ? scope_names() : std::vector<std::string>{"assign", "update", "end_to_end"};
    const Outcome outcome =
        validate_any(kind, variant, points, {points.begin(), points.begin() + k * d}, d, Stop(), scopes, measured);
    EXPECT_EQ(outcome.fault, "");
    // A library that does not tell how many labels changed is held against its fixed point instead.
    if (outcome.result["reassigned"].empty()) return;
    EXPECT_EQ(outcome.result["reassigned"].back(), 0) << "an exact solve ends when no label changes";
    EXPECT_EQ(outcome.result["iterations"], outcome.result["reassigned"].size());
  }
}

class OneVariant : public testing::Test {
 public:
  OneVariant(DeviceKind kind, Variant variant, bool is_float, bool awkward, bool superseded)
      : kind_(kind), variant_(std::move(variant)), is_float_(is_float), awkward_(awkward), superseded_(superseded) {}
  void TestBody() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    if (!is_float_ && variant_.card["types"].size() == 2) {
      if (const std::string why = why_left_out(kind_, variant_.id); !why.empty()) GTEST_SKIP() << why;
    }
    std::vector<Sense> senses;
    if (variant_.card["implicit"]) {
      senses.push_back({});
      if (!awkward_) senses.insert(senses.end(), {{"", 1}, {"", 2}});
    } else {
      for (const std::string metric : variant_.card["metrics"]) senses.push_back({metric});
    }
    for (const Sense& sense : senses) {
      SCOPED_TRACE(sense.kernel() ? "kernel " + std::to_string(sense.turn) : "metric " + sense.metric);
      if (awkward_)
        is_float_ ? awkward_sizes<float>(kind_, variant_, sense, superseded_)
                  : awkward_sizes<double>(kind_, variant_, sense, superseded_);
      else
        is_float_ ? special_points<float>(kind_, variant_, sense) : special_points<double>(kind_, variant_, sense);
    }
  }

 private:
  DeviceKind kind_;
  Variant variant_;
  bool is_float_, awkward_, superseded_;
};

/// What prunes must go the very way of what does not: as many iterations, as many changed labels in each. In double,
/// where a tie that rounding decides is no matter of chance; labels in float are held against fp64 as everywhere.
class PruningVariant : public testing::Test {
 public:
  PruningVariant(DeviceKind kind, Variant variant) : kind_(kind), variant_(std::move(variant)) {}
  void TestBody() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = why_left_out(kind_, variant_.id); !why.empty()) GTEST_SKIP() << why;
    // Who counts no distances rules out tiles: of problems so small hardly any, and slowly.
    for (int trial = 0; trial < (counts_ || trial == 0 ? trials : trials / 40); ++trial) {
      SCOPED_TRACE("trial " + std::to_string(trial));
      validate_lloyd<double>(trial);
      validate_lloyd<float>(trial);
      if (HasFatalFailure() || IsSkipped()) return;
    }
    if (counts_) {
      EXPECT_GT(skipped_, computed_ / 4) << "hardly a distance was left out";
    }
  }

 private:
  /// N points around 2 K places, K of them the first centroids.
  template <class T>
  void validate_lloyd(int trial) {
    Sequence random(uint64_t(trial), Stream::noise);
    const int n = 50 + int(random.below(400)), k = 2 + int(random.below(48)), d = 1 + int(random.below(12));
    const std::vector<double> places = draw<double>(size_t(2) * k * d, 100 + trial);
    std::vector<T> points = draw<T>(size_t(n) * d, 300 + trial);
    for (int i = 0; i < n; ++i) {
      const size_t place = random.below(2 * k);
      for (int f = 0; f < d; ++f) points[size_t(i) * d + f] = T(points[size_t(i) * d + f] / 8 + places[place * d + f]);
    }
    const std::vector<T> centroids(points.begin(), points.begin() + std::ptrdiff_t(k) * d);
    const Outcome outcome = validate_variant(kind_, variant_, points, centroids, d, Stop(), {},
                                             [](Request& request) { request.check_only = true; });
    ASSERT_EQ(outcome.fault, "");
    if (!outcome.refused.empty()) GTEST_SKIP() << outcome.refused;  // a device that it is not for
    if (const auto& counters = outcome.result["counters"]; counters.contains("distances")) {
      counts_ = true;
      for (const int64_t count : counters["distances"]) computed_ += count;
      for (const int64_t count : counters["distances skipped"]) skipped_ += count;
    }
    if constexpr (sizeof(T) == 8) {
      Problem<T> problem;
      problem.n = n, problem.k = k, problem.d = d;
      problem.points = points.data(), problem.centroids = centroids.data();
      ASSERT_EQ(outcome.result["reassigned"].get<std::vector<int64_t>>(), lloyd_reference(problem, Stop()).reassigned);
    }
  }

  DeviceKind kind_;
  Variant variant_;
  bool counts_ = false;  // distances one by one: what rules centroids out by the tile has none to count
  int64_t computed_ = 0, skipped_ = 0;
};

/// One test per variant, element type and kind of trouble.
const bool registered = [] {
  // Threads of OpenMP spin while they wait, and on a machine with other work they spin away the time of those that they
  // wait for: twenty times as long. It is read when a variant's module brings the library in.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const std::set<std::string> built_upon = rungs_built_upon();
  for (const auto& [kind, variant] : built("variants")) {
    const bool superseded = built_upon.count(variant.id);
    const std::string suite = std::string("Variants_") + to_string(kind);
    // What a library leaves out is not told.
    if (variant.card["prunes"] && !is_peer(variant.modules.at(kind))) {
      testing::RegisterTest((std::string("Prunes_") + to_string(kind)).c_str(), variant.id.c_str(), nullptr, nullptr,
                            __FILE__, __LINE__, [=] { return new PruningVariant(kind, variant); });
    }
    for (const bool is_float : {true, false}) {
      const auto types = variant.card["types"].get<std::vector<std::string>>();
      if (std::find(types.begin(), types.end(), is_float ? "f32" : "f64") == types.end()) continue;
      const bool has_both = types.size() == 2 || floats_alone;
      for (const bool awkward : {true, false}) {
        // A peer's Python takes a second to begin; tests/runner/test_peers.py tries its sizes.
        if (awkward && is_peer(variant.modules.at(kind))) continue;
        if (!awkward && !is_float && !all_ways && has_both) continue;
        if ((!awkward || !is_float) && has_both && !why_left_out(kind, variant.id).empty()) continue;
        const std::string name =
            variant.id + (is_float ? "_f32" : "_f64") + (awkward ? "_awkward_sizes" : "_special_points");
        testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [=] { return new OneVariant(kind, variant, is_float, awkward, superseded); });
      }
    }
  }
  return true;
}();

}  // namespace
