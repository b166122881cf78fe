// Atomics on the CPU device: every type, with all blocks and threads on the same few words.
#include <gtest/gtest.h>

#include <vector>

#include "../on_device.cuh"

namespace {

constexpr int blocks = 64, block = 96, n = blocks * block;

template <class T>
__global__ void add_kernel(T* sum) {
  atomicAdd(&sum[threadIdx.x % 3], T(1 + blockIdx.x % 2));
}

template <class T>
void expect_add() {
  OnDevice<T> sum(3);
  ladder::launch(add_kernel<T>, blocks, block, 0, nullptr, sum);
  EXPECT_EQ(sum.values(), std::vector<T>(3, T(n / 3 * 3 / 2)));
}

TEST(SimtAtomics, Add) {
  expect_add<int>();
  expect_add<unsigned>();
  expect_add<unsigned long long>();
  expect_add<float>();
  expect_add<double>();
}

template <class T>
__global__ void extremes_kernel(T* low_high) {
  const T value = T((blockIdx.x * blockDim.x + threadIdx.x) * 7919 % 6143) + T(1);
  atomicMin(&low_high[0], value);
  atomicMax(&low_high[1], value);
}
__global__ void negative_kernel(int* low_high) {
  atomicMin(&low_high[0], -int(threadIdx.x));
  atomicMax(&low_high[1], -int(threadIdx.x) - 1);
}

template <class T>
void expect_extremes() {
  T low = T(1) << 30, high = 0;
  OnDevice<T> device(std::vector<T>{low, high});
  for (unsigned i = 0; i < unsigned(n); ++i) {
    const T value = T(i * 7919 % 6143) + T(1);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  ladder::launch(extremes_kernel<T>, blocks, block, 0, nullptr, device);
  EXPECT_EQ(device.values(), (std::vector<T>{low, high}));
}

TEST(SimtAtomics, MinAndMax) {
  expect_extremes<int>();
  expect_extremes<unsigned>();
  expect_extremes<long long>();
  expect_extremes<unsigned long long>();
  OnDevice<int> signs(std::vector<int>{5, -100});
  ladder::launch(negative_kernel, 1, 50, 0, nullptr, signs);
  EXPECT_EQ(signs.values(), (std::vector<int>{-49, -1}));
}

__global__ void bits_kernel(unsigned* x) {
  atomicOr(&x[0], 1u << threadIdx.x);
  atomicAnd(&x[1], ~(1u << threadIdx.x));
  atomicXor(&x[2], 1u << threadIdx.x);
  atomicSub(&x[3], 1u);
  atomicInc(&x[4], 4u);
  atomicDec(&x[5], 4u);
}

TEST(SimtAtomics, BitsAndCounters) {
  OnDevice<unsigned> x(std::vector<unsigned>{0, ~0u, 0xf0u, 100, 0, 0});
  ladder::launch(bits_kernel, 1, 12, 0, nullptr, x);
  // 12 steps over 0..4 upwards end at 2; downwards from 0 they end at 3.
  EXPECT_EQ(x.values(), (std::vector<unsigned>{0xfff, ~0xfffu, 0xf0fu, 88, 2, 3}));
}

// A lock by compare-and-swap protects a sum that is not atomic.
__global__ void lock_kernel(int* lock, int* sum, int* old_values) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *sum += 1;
    __threadfence();
    old_values[blockIdx.x] = atomicExch(lock, 0);
  }
}

TEST(SimtAtomics, CompareAndSwapAndExchange) {
  OnDevice<int> lock(1), sum(1), old_values(blocks);
  ladder::launch(lock_kernel, blocks, block, 0, nullptr, lock, sum, old_values);
  EXPECT_EQ(sum.values()[0], blocks);
  EXPECT_EQ(old_values.values(), std::vector<int>(blocks, 1));
}

// Each old value is handed out once: what queues and compactions rest on.
__global__ void ticket_kernel(int* next, int* taken) { taken[atomicAdd(next, 1)] += 1; }

TEST(SimtAtomics, OldValuesAreUnique) {
  OnDevice<int> next(1), taken(n);
  ladder::launch(ticket_kernel, blocks, block, 0, nullptr, next, taken);
  EXPECT_EQ(taken.values(), std::vector<int>(n, 1));
}

}  // namespace
