// Products of short rows by warpgroups, and the filter of v41_filter_wgmma, on a GPU of compute capability 9.0:
// whole numbers, so that one value in a wrong place shows. Built where there is a GPU: cmake --build build --target
// cuda_test
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "../../variants/common/filter/filter_sm90.cuh"
#include "../../variants/common/gemm/narrow_mainloop_sm90.cuh"
#include "../simt/on_device.cuh"

namespace {
using namespace ladder;

class FilterSm90Test : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
    if (device.major != 9 || device.minor != 0) GTEST_SKIP() << device.name << " has no products of warpgroups";
  }
};

/// What was asked for has ended, without an error: that of an access to address 0 is a wait that does not end.
void finish(const char* what) { check(cudaDeviceSynchronize(), what); }

/// Points, centroids and all their products. The last two halves of a row are those of a threshold: 0 of points, 1 of
/// centroids.
struct Problem {
  int n, k;
  std::vector<__half> x;        // n x width
  std::vector<__half> c;        // NarrowMainloopSm90<width>::place(), whole tiles
  std::vector<float> products;  // n x k
  std::vector<int> order;       // of the points, any
};

/// `beyond`: the halves of those centroids that fill the last tile.
template <int width>
Problem problem(int n, int k, float beyond) {
  using Tile = NarrowMainloopSm90<width>;
  std::mt19937 random(n * 31 + k);
  std::vector<int> x(size_t(n) * width), c(size_t(k) * width);
  for (auto* values : {&x, &c})
    for (int& value : *values) value = int(random() % 41) - 20;
  for (size_t at = width - 2; at < x.size(); at += width) x[at] = x[at + 1] = 0;
  for (size_t at = width - 2; at < c.size(); at += width) c[at] = c[at + 1] = 1;
  Problem made{n,
               k,
               std::vector<__half>(x.size()),
               std::vector<__half>(size_t(Tile::padded_columns(k)) * width),
               std::vector<float>(size_t(n) * k),
               std::vector<int>(n)};
  for (size_t e = 0; e < x.size(); ++e) made.x[e] = __float2half(float(x[e]));
  std::fill(made.c.begin(), made.c.end(), __float2half(beyond));
  for (int j = 0; j < k; ++j)
    for (int f = 0; f < width; ++f) made.c[Tile::place(j, f)] = __float2half(float(c[j * width + f]));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) {
      int sum = 0;
      for (int f = 0; f < width; ++f) sum += x[size_t(i) * width + f] * c[size_t(j) * width + f];
      made.products[size_t(i) * k + j] = float(sum);  // below 2^16
    }
  std::iota(made.order.begin(), made.order.end(), 0);
  std::shuffle(made.order.begin(), made.order.end(), random);
  return made;
}

/// The same on the device.
struct Uploaded {
  OnDevice<__half> points, centroids;
  OnDevice<int> rows;
  explicit Uploaded(const Problem& p) : points(p.x), centroids(p.c), rows(p.order) {}
  const uint4* x() const { return reinterpret_cast<const uint4*>(static_cast<__half*>(points)); }
  FilterOperands operands(const Problem& p, int blocks) const {
    FilterOperands o{};
    o.x = x(), o.c = reinterpret_cast<const uint4*>(c()), o.order = rows;
    o.n = p.n, o.k = p.k, o.multiprocessors = blocks, o.blocks = blocks;
    return o;
  }
  const unsigned char* c() const { return reinterpret_cast<const unsigned char*>(static_cast<__half*>(centroids)); }
};

std::string named(int width, const Problem& p) {
  return std::to_string(width) + " halves, N = " + std::to_string(p.n) + ", K = " + std::to_string(p.k);
}

constexpr float far_above = 1000;  // of each sign: about half of the points meet those that do not exist

/// Bundles for one cluster and for several, of which some have none, or one of their blocks has none; tiles that fill
/// the ring more than once, and one tile.
template <int width, class Body>
void for_shapes(float beyond, const Body& body) {
  for (const auto& [n, k, grid] : {std::tuple{1, 1, 2}, {300, 128, 4}, {1500, 129, 2}, {2100, 2000, 6}}) {
    const Problem p = problem<width>(n, k, beyond);
    SCOPED_TRACE(named(width, p) + ", blocks = " + std::to_string(grid));
    ASSERT_NO_FATAL_FAILURE(body(p, grid));
  }
}

template <class Body>
void for_widths(const Body& body) {
  body.template operator()<32>();
  body.template operator()<48>();
  body.template operator()<64>();
  body.template operator()<96>();
  body.template operator()<128>();
}

// ------------------------------------------------------------------------------------------------------------ products

template <int width>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(NarrowMainloopSm90<width>::block, 1)
    matrix_kernel(const uint4* x, const unsigned char* c, const int* order, float* out, int* strangers, int n, int k) {
  using Tile = NarrowMainloopSm90<width>;
  const int thread = threadIdx.x % warpgroup_threads;
  int64_t own = -1;
  Tile::multiply(
      x, nullptr, c, n, k, [&](int i) { return order[i]; }, [&](int64_t first) { own = first; },
      [&](int first, typename Tile::Products& product) {
#pragma unroll
        for (int e = 0; e < Tile::part_columns / 2; ++e) {
          const int j = first + accumulator_column(thread, e);
          const int64_t i = own + accumulator_row(thread, e);
          if (i < n && j < k) out[int64_t(order[i]) * k + j] += product[e];
        }
      },
      [&](int64_t first) {
        if (first != own) atomicAdd(strangers, 1);
      });
}

TEST_F(FilterSm90Test, AllProductsAreThere) {
  for_widths([&]<int width>() {
    using Tile = NarrowMainloopSm90<width>;
    for_shapes<width>(far_above, [&](const Problem& p, int grid) {
      const Uploaded device(p);
      const OnDevice<float> out(p.products.size());  // zeros: what is written twice shows
      const OnDevice<int> strangers(1);
      launch(matrix_kernel<width>, grid, Tile::block, Tile::Ring::bytes, nullptr, device.x(), device.c(), device.rows,
             out, strangers, p.n, p.k);
      finish("multiplying");
      EXPECT_EQ(strangers.values()[0], 0) << "rows that begin and end otherwise";
      const auto found = out.values();
      for (int at = 0; at < p.n; ++at)
        for (int j = 0; j < p.k; ++j) {
          const int64_t e = int64_t(p.order[at]) * p.k + j;
          ASSERT_EQ(found[e], p.products[e])
              << "point " << p.order[at] << ", at " << at << " in the order; centroid " << j;
        }
    });
  });
}

TEST_F(FilterSm90Test, ColumnsOfAThreadAreThoseOfItsProducts) {
  using Tile = NarrowMainloopSm90<48>;
  for (int thread = 0; thread < warpgroup_threads; ++thread)
    for (int own = 0; own < Tile::own_columns; ++own)
      for (int r = 0; r < 2; ++r) {
        const int e = Tile::element(own) + 2 * r;
        ASSERT_EQ(Tile::column(thread, unsigned(own)), accumulator_column(thread, e));
        ASSERT_EQ(accumulator_row(thread, 2 * r), accumulator_row(thread, e));
      }
}

// --------------------------------------------------------------------------------------------------------- the contest

TEST_F(FilterSm90Test, TheGuessHasTheGreatestBound) {
  for_widths([&]<int width>() {
    using Tile = NarrowMainloopSm90<width>;
    for_shapes<width>(0, [&](const Problem& p, int grid) {
      const Uploaded device(p);
      const OnDevice<int> guess(std::vector<int>(p.n, -1)), count(p.k);
      FilterOperands o = device.operands(p, grid);
      o.candidates.guess = guess;
      max_bound(FilterSm90(), width, nullptr, o, RowOrder{count, nullptr, nullptr});
      finish("guessing");
      const auto found = guess.values();
      std::vector<int> of_each(p.k);
      for (int i = 0; i < p.n; ++i) {
        EXPECT_TRUE(found[i] >= 0 && found[i] < p.k) << "point " << i << " has guess " << found[i];
        ++of_each[std::clamp(found[i], 0, p.k - 1)];
      }
      EXPECT_EQ(count.values(), of_each) << "points of each guess";
      for (int i = 0; i < p.n; ++i) {
        const auto own = p.products.begin() + int64_t(i) * p.k;
        const auto best = std::max_element(own, own + p.k);
        ASSERT_EQ(own[found[i]], *best) << "point " << i << " has guess " << found[i] << ", not " << best - own;
      }
    });
  });
}

TEST_F(FilterSm90Test, CandidatesAreFoundAndNothingElse) {
  for_widths([&]<int width>() {
    using Tile = NarrowMainloopSm90<width>;
    for_shapes<width>(far_above, [&](const Problem& p, int grid) {
      // Of row i, so many of its greatest products are not below 0, and its guess is among them, but for every fifth
      // row.
      std::vector<uint32_t> threshold_of(p.n);
      std::vector<int> guess(p.n);
      std::vector<std::set<int>> others(p.n);
      for (int i = 0; i < p.n; ++i) {
        const float* const own = p.products.data() + int64_t(i) * p.k;
        std::vector<int> sorted(p.k);
        std::iota(sorted.begin(), sorted.end(), 0);
        std::sort(sorted.begin(), sorted.end(), [&](int a, int b) { return own[a] > own[b]; });
        const int reached = std::min(p.k, i % 7 == 6 ? i % 97 + 1 : i % 19 + 1);
        const float shift = 0.5f - own[sorted[reached - 1]];
        const __half high = __float2half(shift), low = __float2half(shift - __half2float(high));  // exact
        threshold_of[i] = uint32_t(__half_as_ushort(low)) << 16 | __half_as_ushort(high);
        guess[i] = i % 5 == 4 ? sorted[p.k - 1] : sorted[i % reached];
        for (int j = 0; j < p.k; ++j)
          if (own[j] + shift >= 0 && j != guess[i]) others[i].insert(j);
      }
      const Uploaded device(p);
      const OnDevice<uint32_t> thresholds(threshold_of);
      const OnDevice<int> guesses(guess), list(std::vector<int>(size_t(p.n) * most_candidates, -1)), found(p.n);
      const OnDevice<int> candidate_rows(p.n), overflow(p.n), label(std::vector<int>(p.n, -1));
      const OnDevice<FilterCounters> counters(1);
      FilterOperands o = device.operands(p, grid);
      o.threshold = thresholds, o.candidates = {guesses, list, found};
      o.candidate_rows = candidate_rows, o.overflow = overflow, o.counters = counters, o.label = label;
      FilterSm90::filter(width, nullptr, o, {});
      finish("filtering");

      const FilterCounters told = counters.values()[0];
      const auto rows = [](const OnDevice<int>& of, int count) {
        const auto all = of.values();
        return std::multiset<int>(all.begin(), all.begin() + std::clamp(count, 0, int(all.size())));
      };
      const auto few = rows(candidate_rows, told.candidate_rows), many = rows(overflow, told.overflow);
      const auto lists = list.values(), numbers = found.values(), labels = label.values();
      int candidates = 0;
      for (int i = 0; i < p.n; ++i) {
        const int number = int(others[i].size());
        SCOPED_TRACE("point " + std::to_string(i) + " with guess " + std::to_string(guess[i]) + " and " +
                     std::to_string(number) + " others");
        const bool is_few = number > 0 && number <= most_candidates, is_many = number > most_candidates;
        ASSERT_EQ(labels[i], number == 0 ? guess[i] : -1);
        ASSERT_EQ(few.count(i), size_t(is_few)) << "times in the list of those with a few";
        ASSERT_EQ(many.count(i), size_t(is_many)) << "times in the list of those with too many";
        if (!is_few) continue;
        candidates += number;
        ASSERT_EQ(numbers[i], number);
        const auto own = lists.begin() + int64_t(i) * most_candidates;
        ASSERT_EQ(std::set<int>(own, own + number), others[i]);
      }
      EXPECT_EQ(told.candidates, candidates);
    });
  });
}

}  // namespace
