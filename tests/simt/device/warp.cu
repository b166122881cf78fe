// Warp operations and cooperative groups on the CPU device.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "../on_device.cuh"

namespace cg = cooperative_groups;

namespace {

constexpr unsigned all_lanes = 0xffffffffu;

template <class T>
__global__ void shuffle_kernel(T* out) {
  const int lane = threadIdx.x % 32;
  const T own = T(threadIdx.x) + T(0.5);
  T* row = out + threadIdx.x * 6;
  row[0] = __shfl_sync(all_lanes, own, 5);
  row[1] = __shfl_sync(all_lanes, own, lane + 3, 8);
  row[2] = __shfl_up_sync(all_lanes, own, 2);
  row[3] = __shfl_down_sync(all_lanes, own, 3, 16);
  row[4] = __shfl_xor_sync(all_lanes, own, 9);
  row[5] = __shfl_xor_sync(all_lanes, own, 16, 16);
}

template <class T>
void expect_shuffles() {
  OnDevice<T> out(64 * 6);
  ladder::launch(shuffle_kernel<T>, 1, 64, 0, nullptr, out);
  const auto values = out.values();
  for (int i = 0; i < 64; ++i) {
    const int base = i / 32 * 32, lane = i % 32;
    const int from[6] = {base + 5, base + lane / 8 * 8 + (lane + 3) % 8, lane < 2 ? i : i - 2,
                         lane % 16 + 3 < 16 ? i + 3 : i, base + (lane ^ 9),
                         // Part 1 may read part 0; part 0 keeps its own.
                         lane < 16 ? i : i - 16};
    for (int s = 0; s < 6; ++s) EXPECT_EQ(values[i * 6 + s], T(from[s]) + T(0.5)) << "thread " << i << " shuffle " << s;
  }
}

TEST(SimtWarp, ShufflesOfEveryTypeAndWidth) {
  expect_shuffles<int>();
  expect_shuffles<unsigned>();
  expect_shuffles<long long>();
  expect_shuffles<unsigned long long>();
  expect_shuffles<float>();
  expect_shuffles<double>();
}

__global__ void vote_kernel(unsigned* out) {
  const int lane = threadIdx.x % 32;
  unsigned* row = out + threadIdx.x * 6;
  row[0] = __ballot_sync(all_lanes, lane % 3 == 0);
  row[1] = __any_sync(all_lanes, threadIdx.x == 40);
  row[2] = __all_sync(all_lanes, threadIdx.x >= 32);
  row[3] = __match_any_sync(all_lanes, lane / 5);
  int equal = 0;
  row[4] = __match_all_sync(all_lanes, threadIdx.x / 32 == 0 ? 1 : lane, &equal);
  row[5] = unsigned(equal);
}

TEST(SimtWarp, VotesAndMatches) {
  OnDevice<unsigned> out(64 * 6);
  ladder::launch(vote_kernel, 1, 64, 0, nullptr, out);
  const auto values = out.values();
  for (int i = 0; i < 64; ++i) {
    const bool second = i >= 32;
    const int group = i % 32 / 5;
    EXPECT_EQ(values[i * 6], 0x49249249u);
    EXPECT_EQ(values[i * 6 + 1], unsigned(second));
    EXPECT_EQ(values[i * 6 + 2], unsigned(second));
    EXPECT_EQ(values[i * 6 + 3], group == 6 ? 3u << 30 : 0x1fu << (5 * group));
    EXPECT_EQ(values[i * 6 + 4], second ? 0u : all_lanes);
    EXPECT_EQ(values[i * 6 + 5], unsigned(!second));
  }
}

__global__ void reduce_kernel(int* out) {
  const int value = int(threadIdx.x) - 10;
  if (threadIdx.x % 2 == 0) {  // half of the lanes, in a branch of their own
    const unsigned even = 0x55555555u;
    const int results[] = {__reduce_add_sync(even, value),
                           __reduce_min_sync(even, value),
                           __reduce_max_sync(even, value),
                           int(__reduce_min_sync(even, unsigned(value))),
                           int(__reduce_max_sync(even, unsigned(value))),
                           int(__reduce_or_sync(even, threadIdx.x)),
                           int(__reduce_and_sync(even, threadIdx.x | 64)),
                           int(__reduce_xor_sync(even, threadIdx.x))};
    if (threadIdx.x < 16) out[threadIdx.x / 2] = results[threadIdx.x / 2];
  }
}

TEST(SimtWarp, ReductionsInABranch) {
  OnDevice<int> out(8);
  ladder::launch(reduce_kernel, 1, 32, 0, nullptr, out);
  EXPECT_EQ(out.values(), (std::vector<int>{80, -10, 20, 0, -2, 30, 64, 0}));
}

__global__ void active_kernel(unsigned* out) {
  if (threadIdx.x < 20) out[threadIdx.x] = __activemask();
}

TEST(SimtWarp, ActiveLanesAreThoseOfTheBranch) {
  OnDevice<unsigned> out(32);
  ladder::launch(active_kernel, 1, 32, 0, nullptr, out);
  std::vector<unsigned> expected(32);
  std::fill_n(expected.begin(), 20, 0xfffffu);
  EXPECT_EQ(out.values(), expected);
}

// Lanes that have ended are not waited for.
__global__ void early_exit_kernel(int* out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = int(__ballot_sync(all_lanes, threadIdx.x % 2));
}

TEST(SimtWarp, EndedLanesAreNotWaitedFor) {
  OnDevice<int> out(16);
  ladder::launch(early_exit_kernel, 1, 32, 0, nullptr, out);
  EXPECT_EQ(out.values(), std::vector<int>(16, 0xaaaa));
}

template <unsigned N>
__global__ void tile_kernel(const float* x, float* sums, float* largest, int* ranks) {
  const auto tile = cg::tiled_partition<N>(cg::this_thread_block());
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = x[i];
  for (unsigned step = N / 2; step > 0; step /= 2) sum += tile.shfl_down(sum, step);
  sum = tile.shfl(sum, 0);
  sums[i] = sum;
  largest[i] = cg::reduce(tile, x[i], cg::greater<float>());
  ranks[i] = int(tile.thread_rank() + 100 * tile.meta_group_rank());
}

template <unsigned N>
void expect_tiles() {
  std::vector<float> x(192);
  for (int i = 0; i < 192; ++i) x[i] = float(i * 37 % 101);
  OnDevice<float> device(x), sums(192), largest(192);
  OnDevice<int> ranks(192);
  ladder::launch(tile_kernel<N>, 2, 96, 0, nullptr, device, sums, largest, ranks);
  const auto sum = sums.values(), top = largest.values();
  const auto rank = ranks.values();
  for (int i = 0; i < 192; ++i) {
    const int first = i / int(N) * int(N);
    EXPECT_EQ(sum[i], std::accumulate(x.begin() + first, x.begin() + first + N, 0.0f));
    EXPECT_EQ(top[i], *std::max_element(x.begin() + first, x.begin() + first + N));
    EXPECT_EQ(rank[i], i % int(N) + 100 * (i % 96 / int(N)));
  }
}

TEST(SimtWarp, TilesOfEachSize) {
  expect_tiles<1>();
  expect_tiles<2>();
  expect_tiles<4>();
  expect_tiles<8>();
  expect_tiles<16>();
  expect_tiles<32>();
}

// Every block reads what its neighbour wrote in the round before.
__global__ void ring_kernel(int* a, int* b, int rounds) {
  const auto grid = cg::this_grid();
  const auto n = grid.size(), i = grid.thread_rank();
  for (int r = 0; r < rounds; ++r) {
    b[i] = a[(i + 1) % n] + 1;
    grid.sync();
    a[i] = b[i];
    grid.sync();
  }
}

TEST(SimtWarp, GridBarrier) {
  int blocks = 0, multiprocessors = 0;
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, ring_kernel, 64, 0), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  ASSERT_GE(blocks, 4);
  const int n = 4 * 64, rounds = 9;
  std::vector<int> start(n);
  std::iota(start.begin(), start.end(), 0);
  OnDevice<int> a(start), b(n);
  int *from = a, *to = b, times = rounds;
  void* arguments[] = {&from, &to, &times};
  ASSERT_EQ(cudaLaunchCooperativeKernel(ring_kernel, 4, 64, arguments), cudaSuccess);
  const auto values = a.values();
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], (i + rounds) % n + rounds);

  EXPECT_EQ(cudaLaunchCooperativeKernel(ring_kernel, blocks * multiprocessors + 1, 64, arguments),
            cudaErrorCooperativeLaunchTooLarge);
}

}  // namespace
