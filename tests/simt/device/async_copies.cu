// Asynchronous copies on the CPU device: right where they are waited for, and otherwise not there in a drawn order.
#include <cuda_pipeline.h>
#include <gtest/gtest.h>
#include <simt.h>

#include <numeric>
#include <string>
#include <vector>

#include "../on_device.cuh"

namespace {

constexpr int threads = 64;

/// Straight, and in a drawn order.
class SimtAsyncCopies : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { before_ = simt_set_shuffle(GetParam()); }
  void TearDown() override { simt_set_shuffle(before_); }

 private:
  unsigned long long before_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Orders, SimtAsyncCopies, testing::Values(0, 5));
using SimtLateAsyncCopies = SimtAsyncCopies;
INSTANTIATE_TEST_SUITE_P(Orders, SimtLateAsyncCopies, testing::Values(7));

template <class T>
std::vector<T> numbers(int count) {
  std::vector<T> all(count);
  std::iota(all.begin(), all.end(), T(1));
  return all;
}

// A ring of three stages: while one is added up, each thread reading what its neighbours copied, two are on their way.
// `left_out`: a wait (1), a commit (2), or the barrier behind the wait (3).
__global__ void ring_kernel(const unsigned* x, unsigned* out, int rounds, int left_out) {
  constexpr int stages = 3;
  __shared__ unsigned ring[stages][threads];
  const int t = int(threadIdx.x);
  const auto load = [&](int round) {
    if (round < rounds) __pipeline_memcpy_async(&ring[round % stages][t], &x[round * threads + t], sizeof(unsigned));
    if (left_out != 2) __pipeline_commit();
  };
  for (int round = 0; round < stages - 1; ++round) load(round);
  unsigned sum = 0;
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();  // nobody reads the stage that is filled next
    load(round + stages - 1);
    if (left_out != 1) __pipeline_wait_prior(stages - 1);
    if (left_out != 3) __syncthreads();
    sum += ring[round % stages][t] + ring[round % stages][(t + 1) % threads];
  }
  out[t] = sum;
}

std::vector<unsigned> ring(int rounds, int left_out) {
  OnDevice<unsigned> x(numbers<unsigned>(rounds * threads)), out(threads);
  ladder::launch(ring_kernel, 1, threads, 0, nullptr, x, out, rounds, left_out);
  return out.values();
}
std::vector<unsigned> expected_of_ring(int rounds) {
  std::vector<unsigned> sums(threads);
  for (int round = 0; round < rounds; ++round) {
    for (int t = 0; t < threads; ++t) sums[t] += unsigned(2 * round * threads + t + (t + 1) % threads + 2);
  }
  return sums;
}

TEST_P(SimtAsyncCopies, AreThereWhenTheyHaveBeenWaitedFor) {
  for (const int rounds : {1, 2, 3, 8}) EXPECT_EQ(ring(rounds, 0), expected_of_ring(rounds)) << rounds;
}

TEST_P(SimtLateAsyncCopies, AreNotThereWithoutAWaitOrACommit) {
  const bool races = simt_set_races(0);
  for (const int left_out : {1, 2, 3}) EXPECT_NE(ring(8, left_out), expected_of_ring(8)) << left_out;
  simt_set_races(races);
}

// Groups end in their order, the last `pending` of four are not waited for; what is on its way is a NaN till then.
__global__ void groups_kernel(const float* x, int* arrived, int pending) {
  __shared__ float parts[4][threads];
  const int t = int(threadIdx.x);
  for (int g = 0; g < 4; ++g) {
    parts[g][t] = -1;
    __pipeline_memcpy_async(&parts[g][t], &x[t], sizeof(float));
    __pipeline_commit();
  }
  if (pending == 0) __pipeline_wait_prior(0);
  if (pending == 1) __pipeline_wait_prior(1);
  if (pending == 3) __pipeline_wait_prior(3);
  for (int g = 0; g < 4; ++g) {
    const float value = parts[g][t];
    arrived[g * threads + t] = value == x[t] ? 1 : value != value ? 0 : -1;
  }
  __pipeline_wait_prior(0);
}

TEST_P(SimtLateAsyncCopies, ComeGroupByGroup) {
  const bool races = simt_set_races(0);  // who reads what is on its way races with the copy
  for (const int pending : {0, 1, 3, 4}) {
    OnDevice<float> x(std::vector<float>(threads, 2));
    OnDevice<int> arrived(4 * threads);
    ladder::launch(groups_kernel, 1, threads, 0, nullptr, x, arrived, pending);
    std::vector<int> expected(4 * threads, 0);
    std::fill_n(expected.begin(), (4 - pending) * threads, 1);
    EXPECT_EQ(arrived.values(), expected) << pending;
  }
  simt_set_races(races);
}

__global__ void sizes_kernel(const int* x, int* out) {
  __shared__ __align__(16) int part[12];
  if (threadIdx.x > 0) return;
  for (int& word : part) word = -1;
  __pipeline_memcpy_async(&part[0], &x[0], 4);
  __pipeline_memcpy_async(&part[2], &x[2], 8);
  __pipeline_memcpy_async(&part[4], &x[4], 16);
  __pipeline_memcpy_async(&part[8], &x[8], 16, 8);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  for (int i = 0; i < 12; ++i) out[i] = part[i];
}

TEST_P(SimtAsyncCopies, HaveThreeSizesAndEndInZeros) {
  OnDevice<int> x(numbers<int>(12)), out(12);
  ladder::launch(sizes_kernel, 1, 32, 0, nullptr, x, out);
  EXPECT_EQ(out.values(), (std::vector<int>{1, -1, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0}));
}

__global__ void misplaced_kernel(int* x, int offset, int bytes, bool to_global) {
  __shared__ __align__(16) int part[8];
  if (threadIdx.x == 0) __pipeline_memcpy_async(to_global ? &x[4] : &part[offset], &x[0], bytes);
}

TEST_P(SimtAsyncCopies, AreRefusedInWordsWhereAGpuCannot) {
  const auto said = [](int offset, int bytes, bool to_global) {
    int* x = nullptr;
    ladder::check(cudaMalloc(&x, 64), "allocating");
    try {
      ladder::launch(misplaced_kernel, 1, 32, 0, nullptr, x, offset, bytes, to_global);
      cudaDeviceSynchronize();
    } catch (const ladder::Error&) {
    }
    const std::string sentence = simt_last_fault();
    sentence.empty() ? cudaFree(x) : cudaDeviceReset();
    return sentence;
  };
  EXPECT_EQ(said(4, 16, false), "");
  EXPECT_NE(said(1, 8, false).find("4, 8 or 16 can be copied"), std::string::npos);
  EXPECT_NE(said(0, 12, false).find("an asynchronous copy of 12 bytes"), std::string::npos);
  EXPECT_NE(said(0, 16, true).find("an asynchronous copy to global memory"), std::string::npos);
}

#ifdef __SANITIZE_ADDRESS__
TEST_P(SimtLateAsyncCopies, RaceWithWhoReadsThemBeforeTheBarrier) {
  EXPECT_THROW(ring(8, 3), ladder::Error);
  const std::string sentence = simt_last_fault();
  EXPECT_NE(sentence.find("a race: "), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("'ring'"), std::string::npos) << sentence;
  cudaDeviceReset();
}
#endif

}  // namespace
