// Barriers, divergence, shared and constant memory on the CPU device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "../on_device.cuh"

namespace {

std::vector<int> counting(int n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

// Tree reduction: wrong as soon as one thread passes a barrier early.
template <int block>
__global__ void sum_static_kernel(const int* x, int* sums, int n) {
  __shared__ int part[block];
  const int i = blockIdx.x * block + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  for (int step = block / 2; step > 0; step /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < step) part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void sum_dynamic_kernel(const int* x, int* sums, int n) {
  int* part = ladder::dynamic_shared<int>();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < step) part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

void expect_sums(const std::vector<int>& sums, int n, int block) {
  for (int b = 0; b < int(sums.size()); ++b) {
    int expected = 0;
    for (int i = b * block; i < std::min(n, (b + 1) * block); ++i) expected += i + 1;
    EXPECT_EQ(sums[b], expected) << "block " << b;
  }
}

TEST(SimtBlock, StaticSharedMemory) {
  const int n = 5000;
  OnDevice<int> x(counting(n)), sums(ladder::blocks(n, 256)), small(ladder::blocks(n, 64));
  ladder::launch(sum_static_kernel<256>, ladder::blocks(n, 256), 256, 0, nullptr, x, sums, n);
  expect_sums(sums.values(), n, 256);
  ladder::launch(sum_static_kernel<64>, ladder::blocks(n, 64), 64, 0, nullptr, x, small, n);
  expect_sums(small.values(), n, 64);
}

TEST(SimtBlock, DynamicSharedMemory) {
  const int n = 5000;
  OnDevice<int> x(counting(n)), sums(ladder::blocks(n, 512));
  ladder::launch(sum_dynamic_kernel, ladder::blocks(n, 512), 512, 512 * sizeof(int), nullptr, x, sums, n);
  expect_sums(sums.values(), n, 512);
}

__global__ void last_word_kernel(int* out, int words) {
  int* shared = ladder::dynamic_shared<int>();
  shared[words - 1] = 7;
  *out = shared[words - 1];
}

TEST(SimtBlock, MoreThan48KilobytesOfDynamicSharedMemory) {
  OnDevice<int> out(1);
  ladder::launch(last_word_kernel, 1, 1, 100 << 10, nullptr, out, 25 << 10);
  EXPECT_EQ(out.values()[0], 7);
}

__global__ void count_kernel(int* out, int limit) {
  const int below = int(threadIdx.x) < limit;
  const int count = __syncthreads_count(below);
  const int any = __syncthreads_or(below), all = __syncthreads_and(below);
  if (threadIdx.x == blockDim.x - 1) out[0] = count, out[1] = any != 0, out[2] = all != 0;
}

TEST(SimtBlock, BarriersThatVote) {
  OnDevice<int> out(3);
  for (const int limit : {0, 1, 65, 100}) {
    ladder::launch(count_kernel, 1, 100, 0, nullptr, out, limit);
    EXPECT_EQ(out.values(), (std::vector<int>{limit, limit > 0, limit == 100}));
  }
}

// Each thread loops a different number of times between two barriers, some not at all.
__global__ void diverge_kernel(const int* trips, int* out) {
  __shared__ int done;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  int sum = 0;
  for (int t = 0; t < trips[threadIdx.x]; ++t) sum += t % 3 == 0 ? 2 : 1;
  if (threadIdx.x % 2 == 0)
    atomicAdd(&done, sum);
  else
    atomicSub(&done, sum);
  __syncthreads();
  out[threadIdx.x] = done;
}

TEST(SimtBlock, DivergentLoopsMeetAtTheBarrier) {
  std::vector<int> trips(96);
  int expected = 0;
  for (int i = 0; i < 96; ++i) {
    trips[i] = i * 7 % 13;
    for (int t = 0; t < trips[i]; ++t) expected += (i % 2 == 0 ? 1 : -1) * (t % 3 == 0 ? 2 : 1);
  }
  OnDevice<int> device_trips(trips), out(96);
  ladder::launch(diverge_kernel, 1, 96, 0, nullptr, device_trips, out);
  EXPECT_EQ(out.values(), std::vector<int>(96, expected));
}

// Some threads wait, others end at once after their part: a fiber is handed on from thread to thread.
__global__ void rotate_kernel(int* x, int rounds) {
  __shared__ int tile[128];
  for (int r = 0; r < rounds; ++r) {
    tile[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * 128 + threadIdx.x] = tile[(threadIdx.x + 1) % 128];
    __syncthreads();
  }
}

TEST(SimtBlock, ManyBarriersInManyBlocks) {
  const int blocks = 40, rounds = 130;
  OnDevice<int> x(counting(blocks * 128));
  ladder::launch(rotate_kernel, blocks, 128, 0, nullptr, x, rounds);
  const auto values = x.values();
  for (int i = 0; i < blocks * 128; ++i) ASSERT_EQ(values[i], i / 128 * 128 + (i % 128 + rounds) % 128 + 1);
}

__constant__ float factors[64];
__constant__ int offset;
__device__ int total;

__global__ void scale_kernel(float* out) { out[threadIdx.x] = factors[threadIdx.x] * 2 + float(offset); }
__global__ void total_kernel() { atomicAdd(&total, int(threadIdx.x)); }

TEST(SimtBlock, ConstantMemory) {
  std::vector<float> host(64);
  std::iota(host.begin(), host.end(), 0.0f);
  const int shift = 100;
  ASSERT_EQ(cudaMemcpyToSymbol(factors, host.data(), 32 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpyToSymbol(factors, host.data() + 32, 32 * sizeof(float), 32 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpyToSymbol(offset, &shift, sizeof shift), cudaSuccess);
  OnDevice<float> out(64);
  ladder::launch(scale_kernel, 1, 64, 0, nullptr, out);
  const auto values = out.values();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[i], 2.0f * float(i) + 100.0f);

  float back[2] = {};
  ASSERT_EQ(cudaMemcpyFromSymbol(back, factors, sizeof back, 62 * sizeof(float)), cudaSuccess);
  EXPECT_EQ(back[1], 63.0f);
  EXPECT_EQ(cudaMemcpyToSymbol(factors, host.data(), 65 * sizeof(float)), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(SimtBlock, DeviceVariables) {
  int value = 5;
  ASSERT_EQ(cudaMemcpyToSymbol(total, &value, sizeof value), cudaSuccess);
  ladder::launch(total_kernel, 1, 10, 0, nullptr);
  ASSERT_EQ(cudaMemcpyFromSymbol(&value, total, sizeof value), cudaSuccess);
  EXPECT_EQ(value, 50);
}

}  // namespace
