// The loop of a solve by the kernel that ends an iteration on the device, around iterations that do nothing but count:
// its rule, its changes, its histories. The CPU device has no graphs: session/device_loop.cpp tries them on a GPU.
#include <gtest/gtest.h>

#include "../../../variants/common/overlap/graph_loop.cuh"
#include "../on_device.cuh"

namespace {
using namespace ladder;

constexpr int n = 1000, places = 5;

/// Labels that iteration i, from 0, changes: all at first, then ever fewer, and some always.
__host__ __device__ unsigned long long changed_in(int i) { return i == 0 ? n : 3 + n / (i + 1); }

struct Count {
  unsigned iteration, twice;
};

/// Counts an iteration where it is told to, and the changes where it is told to: from 0, as who counts one by one.
__global__ void count_kernel(int* iteration, unsigned long long* changed, Count* count) {
  const int i = (*iteration)++;
  *changed += changed_in(i);
  count->iteration += unsigned(i), count->twice += 2 * unsigned(i);
}

struct Done {
  std::vector<int64_t> reassigned;
  std::vector<Count> history;
  int told;  // at the end
};

struct Looping {
  GraphLoop loop;
};

Done solve(const Stop& stop) {
  Problem<float> problem;
  problem.n = n, problem.k = problem.d = 1;
  problem.stop = stop;
  Device device;
  Run<float, Looping> s(problem, device);
  check(cudaStreamCreate(&s.stream), "making a stream");
  prepare_loop(s);
  const OnDevice<int> iteration(1);
  const OnDevice<unsigned long long> changed(places);
  const OnDevice<Count> counts(places + 1);  // one more, which nobody has
  int done = 0;                              // as the host knows it
  const auto iterate = [&] {
    const int place = std::min(done++, places - 1);
    launch(count_kernel, 1, 1, 0, s.stream, iteration, changed + place, counts + place);
  };
  const auto history = [](auto* first, int words) {
    return History{reinterpret_cast<unsigned*>(first), words, places};
  };
  const LoopBody looped{
      {history(static_cast<Count*>(counts), 2), history(static_cast<unsigned long long*>(changed), 2)},
      changed + (places - 1),
      {}};
  solve_on_device(s, looped, iterate, [&](int now) { done = now; });
  EXPECT_EQ(iteration.values()[0], done) << "iterations that were done, and those that the host is told of";
  const auto kept = changed.values();
  for (int i = 0; i < std::min(done, places - 1); ++i) EXPECT_EQ(kept[i], changed_in(i)) << "iteration " << i;
  cudaStreamDestroy(s.stream);
  return {s.reassigned, counts.values(), done};
}

/// As a loop on the host.
void expect_right(const Stop& stop) {
  SCOPED_TRACE("rule " + std::to_string(int(stop.rule)) + ", at most " + std::to_string(stop.max_iterations));
  std::vector<int64_t> reassigned;
  do reassigned.push_back(int64_t(changed_in(int(reassigned.size()))));
  while (!stop.reached(int(reassigned.size()), reassigned.back(), n));
  const Done found = solve(stop);
  EXPECT_EQ(found.reassigned, reassigned);
  ASSERT_EQ(found.told, int(reassigned.size()));
  EXPECT_EQ(found.history[places].twice, 0u) << "behind the last place";
  for (int i = 0; i < std::min(found.told, places); ++i) {
    const unsigned expected = i < places - 1 ? i : found.told - 1;  // at the last place, the last one's
    EXPECT_EQ(found.history[i].iteration, expected);
    EXPECT_EQ(found.history[i].twice, 2 * expected);
  }
}

TEST(GraphLoop, EndsByTheRuleAndKeepsWhatIterationsCounted) {
  using Rule = Stop::Rule;
  for (const int most : {1, 2, 3, 4, 5, 6, 7, 300}) {
    expect_right({.rule = Rule::exact, .max_iterations = most});
    for (const double fraction : {0.004, 0.1, 0.503, 0.5029})
      expect_right({.rule = Rule::reassigned, .fraction = fraction, .max_iterations = most});
    for (const int iterations : {1, 2, 6})
      expect_right({.rule = Rule::fixed, .iterations = iterations, .max_iterations = most});
  }
}

TEST(GraphLoop, GoesOnWhereTheChangesOfMoreIterationsHaveNoPlace) {
#ifdef __SANITIZE_ADDRESS__
  const auto beyond = {0, 1};  // the last place, and one behind it; more rounds go over the same memory
#else
  const auto beyond = {-1, 0, 1, kept_changes, kept_changes + 1};
#endif
  for (const int iterations : beyond)
    expect_right(
        {.rule = Stop::Rule::fixed, .iterations = kept_changes + iterations, .max_iterations = 5 * kept_changes});
}

}  // namespace
