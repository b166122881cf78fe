// Variants that keep the loop of a solve on the device, and have its steps beside it: their solves against a loop on
// the host of these steps, to the last bit, over and over.
#include <gtest/gtest.h>

#include "../../fixtures/low_rank.hpp"
#include "session_helper.hpp"
#include "worker/apart/direct.hpp"
#include "worker/module.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;

constexpr bool on_gpu = std::string_view(HOME_KIND) == "cuda";
constexpr int times = on_gpu ? 10 : 1;

/// In loose groups; by no direction where there is nothing but noise.
LowRank loose(double noise) { return {.rank = noise < 1 ? 3 : 0, .noise = noise, .offset = 0, .groups = 3}; }

/// All that a solve leaves.
template <class T>
struct Left {
  std::vector<int32_t> label;
  std::vector<T> centroids;
  std::vector<int64_t> reassigned;
  std::map<std::string, std::vector<int64_t>> counters;
};

/// The variant on points of which the first k are the centroids to begin with.
template <class T>
class Solver {
 public:
  Solver(const Card& card, const Device& device, const Axes& axes, const std::vector<T>& points, int k, int d)
      : driver_(problem(points, k, d), device, card, axes) {
    driver_.restart(0);  // what an upload finds ahead is its first restart's alone
  }

  /// Other points, as many, in the place of these.
  void upload(const std::vector<T>& points) {
    driver_.synchronize();
    std::copy(points.begin(), points.end(), const_cast<T*>(driver_.state().points));  // the variant's page-locked copy
    driver_.call(Act::upload);
    driver_.restart(0);
  }
  Left<T> by_host(const Stop& stop) {
    driver_.restart(0);
    std::vector<int64_t> reassigned;
    do {
      driver_.step();
      reassigned.push_back(driver_.count_changed());
    } while (!stop.reached(int(reassigned.size()), reassigned.back(), driver_.problem().n));
    return left(reassigned);
  }
  Left<T> by_device(const Stop& stop) {
    driver_.choose_stop(stop);
    driver_.restart(0);
    driver_.solve();
    return left(driver_.state().reassigned);
  }

  /// The same in all bits; how many iterations it took.
  int expect_same(const Stop& stop) {
    SCOPED_TRACE(to_string(stop) + ", at most " + std::to_string(stop.max_iterations));
    const Left<T> host = by_host(stop);
    for (int time = 0; time < times && !testing::Test::HasFailure(); ++time) {
      const Left<T> device = by_device(stop);
      EXPECT_EQ(device.reassigned, host.reassigned);
      EXPECT_EQ(device.label, host.label);
      EXPECT_EQ(device.centroids, host.centroids);
      EXPECT_EQ(device.counters, host.counters);
    }
    return int(host.reassigned.size());
  }

 private:
  static Problem<T> problem(const std::vector<T>& points, int k, int d) {
    Problem<T> p;
    p.n = int(points.size()) / d, p.k = k, p.d = d;
    p.element_bytes = sizeof(T);
    p.points = p.centroids = points.data();
    return p;
  }
  Left<T> left(const std::vector<int64_t>& reassigned) {
    driver_.download();
    return {driver_.labels(), driver_.centroids(), reassigned, driver_.state().counters};
  }

  DirectDriver<T> driver_;
};

/// Each rule, where it ends a solve and where max_iterations does.
std::vector<Stop> stops() {
  using Rule = Stop::Rule;
  std::vector<Stop> all;
  for (const int most : on_gpu ? std::vector{300, 1, 2, 5} : std::vector{300, 2}) {
    all.push_back({.rule = Rule::exact, .max_iterations = most});
    for (const double fraction : {0.01, 0.3})
      all.push_back({.rule = Rule::reassigned, .fraction = fraction, .max_iterations = most});
    for (const int iterations : {1, 2, 7})
      all.push_back({.rule = Rule::fixed, .iterations = iterations, .max_iterations = most});
  }
  return all;
}

class Loops : public testing::Test {
 public:
  Loops(DeviceKind kind, Variant variant) : kind_(kind), variant_(std::move(variant)) {}

 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = why_left_out(kind_, variant_.id); !why.empty()) GTEST_SKIP() << why;
    card_ = load_card(variant_.modules.at(kind_));
    device_ = device_of(kind_, {0}, false);
    for (const Axis& axis : card_->axes) standard_.value[axis.name] = axis.standard;
    if (const std::string why = refusal(1); !why.empty()) GTEST_SKIP() << why;
  }
  /// Why the variant refuses points of d features; empty where it takes them.
  std::string refusal(int d) const {
    Shape shape;
    shape.n = shape.k = 1, shape.d = d;
    return card_->refuse ? card_->refuse(shape, device_, standard_) : "";
  }
  /// Of the points: many, or 3 for who takes no more.
  int features() const { return refusal(36).empty() ? 36 : 3; }
  /// With the ways that an iteration may go, where an axis chooses: by short rows, and without.
  template <class Body>
  void each_way(const Body& body) const {
    if (!standard_.value.count("short_row_width")) return body(standard_);
    for (const int width : {32, 0}) {
      SCOPED_TRACE("width " + std::to_string(width));
      Axes axes = standard_;
      axes.value["short_row_width"] = width;
      body(axes);
    }
  }

  DeviceKind kind_;
  Variant variant_;
  const Card* card_ = nullptr;
  Device device_;
  Axes standard_;
};

template <class T>
class EveryRule : public Loops {
 public:
  using Loops::Loops;
  void TestBody() override {
    const int n = on_gpu ? 700 : 250, k = on_gpu ? 24 : 12, d = features();
    each_way([&](const Axes& axes) {
      const auto points = near_directions<T>(n, d, 3, loose(0.05));
      Solver<T> solver(*card_, device_, axes, points, k, d);
      int longest = 0;
      for (const Stop& stop : stops()) longest = std::max(longest, solver.expect_same(stop));
      EXPECT_GT(longest, 7) << "a solve that is over before there is something to see";
    });
  }
};

/// More iterations than are kept one by one, by the loop as by who counts.
class LongSolves : public Loops {
 public:
  using Loops::Loops;
  void TestBody() override {
    const int n = 30, k = 3, d = 2;
    each_way([&](const Axes& axes) {
      const auto points = near_directions<float>(n, d, 4, loose(1));
      Solver<float> solver(*card_, device_, axes, points, k, d);
      for (const int iterations : {1023, 1024, 1025, 2049}) {
        solver.expect_same({.rule = Stop::Rule::fixed, .iterations = iterations, .max_iterations = 5000});
      }
    });
  }
};

/// Points with sums of another format, or for another width, come to where a loop was made already.
class OtherPoints : public Loops {
 public:
  using Loops::Loops;
  void TestBody() override {
    const int n = on_gpu ? 300 : 125, k = 12, d = features();
    const auto points = near_directions<float>(n, d, 5, loose(0.05));
    auto others = near_directions<float>(n, d, 6, loose(0.3));
    for (float& value : others) value = std::round(value * 64) / 64;
    each_way([&](const Axes& axes) {
      Solver<float> solver(*card_, device_, axes, points, k, d);
      for (const auto& now : {points, others, points}) {
        solver.upload(now);
        solver.expect_same(Stop());
      }
    });
    if (!on_gpu || !standard_.value.count("short_row_width")) return;
    const int many = 20000, centroids = 400, wide = 160;  // enough of them for a choice of the width
    const auto near_three = near_directions<float>(many, wide, 7, loose(0.01)),
               anywhere = near_directions<float>(many, wide, 8, loose(1));
    Solver<float> solver(*card_, device_, standard_, near_three, centroids, wide);
    const Stop stop{.rule = Stop::Rule::reassigned, .fraction = 0.01};
    const auto width = [&] { return solver.by_device(stop).counters.at("halves of a short row").at(0); };
    const int64_t first = width();
    solver.expect_same(stop);
    solver.upload(anywhere);
    EXPECT_NE(width(), first) << "both sets of points have the same width";
    solver.expect_same(stop);
  }
};

template <class Test>
void add(const char* name, DeviceKind kind, const Variant& variant) {
  testing::RegisterTest((std::string("Loops_") + to_string(kind)).c_str(), (variant.id + "_" + name).c_str(), nullptr,
                        nullptr, __FILE__, __LINE__, [=]() -> Loops* { return new Test(kind, variant); });
}

const bool registered = [] {
  for (const char* const folder : {"variants", "tests/fixtures/contract"}) {
    for (const auto& [kind, variant] : built(folder)) {
      const auto phases = variant.card["phases"].get<std::vector<std::string>>();
      const auto has = [&](const char* phase) {
        return std::find(phases.begin(), phases.end(), phase) != phases.end();
      };
      if (kind == DeviceKind::cpu || !has("assign") || !has("solve") || variant.card["arithmetic"] != "exact") continue;
      add<EveryRule<float>>("ends_by_every_rule_f32", kind, variant);
      add<OtherPoints>("knows_other_points", kind, variant);
      if (!on_gpu) continue;  // for the CPU device that would be much of the same
      add<EveryRule<double>>("ends_by_every_rule_f64", kind, variant);
      add<LongSolves>("outlasts_what_is_kept", kind, variant);
    }
  }
  return true;
}();

}  // namespace
