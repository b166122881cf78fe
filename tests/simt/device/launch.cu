// Launches on the CPU device: every thread of every block runs once and knows its place; what cannot run is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "../on_device.cuh"

namespace {

__global__ void count_kernel(int* hits, uint3* block_of, uint3* thread_of) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int i = block * int(blockDim.x * blockDim.y * blockDim.z) + thread;
  atomicAdd(&hits[i], 1);
  block_of[i] = blockIdx;
  thread_of[i] = threadIdx;
}

void expect_each_thread_once(dim3 grid, dim3 block) {
  const size_t threads = size_t(block.x) * block.y * block.z, n = size_t(grid.x) * grid.y * grid.z * threads;
  OnDevice<int> hits(n);
  OnDevice<uint3> blocks(n), places(n);
  ladder::launch(count_kernel, grid, block, 0, nullptr, hits, blocks, places);
  EXPECT_EQ(hits.values(), std::vector<int>(n, 1));
  const auto block_of = blocks.values(), thread_of = places.values();
  for (size_t i = 0; i < n; ++i) {
    const auto b = block_of[i], t = thread_of[i];
    ASSERT_EQ((size_t(b.z) * grid.y + b.y) * grid.x + b.x, i / threads);
    ASSERT_EQ((size_t(t.z) * block.y + t.y) * block.x + t.x, i % threads);
    ASSERT_TRUE(b.x < grid.x && b.y < grid.y && t.x < block.x && t.y < block.y);
  }
}

TEST(SimtLaunch, EveryThreadRunsOnceAndKnowsItsPlace) {
  expect_each_thread_once(1, 1);
  expect_each_thread_once(3, 33);
  expect_each_thread_once(2, 1024);
  expect_each_thread_once(dim3(3, 4, 5), dim3(7, 3, 2));
  expect_each_thread_once(5000, 32);
}

template <class T>
__global__ void store_kernel(T* out, T a, int b, double c) {
  *out = a + T(b) + T(c);
}

TEST(SimtLaunch, ArgumentsBecomeTheKernelsTypes) {
  OnDevice<float> out(1);
  ladder::launch(store_kernel<float>, 1, 1, 0, nullptr, out, 1.5, 2u, 4);  // double, unsigned, int
  EXPECT_EQ(out.values()[0], 7.5f);
}

__global__ void __launch_bounds__(256, 2) nothing_kernel() {}

std::string launch_error(dim3 grid, dim3 block, size_t shared) {
  try {
    ladder::launch(nothing_kernel, grid, block, shared, nullptr);
  } catch (const ladder::Error& error) {
    return error.what();
  }
  return "";
}

TEST(SimtLaunch, RefusesWhatDoesNotFit) {
  EXPECT_EQ(launch_error(1, 256, 0), "");
  for (const auto& [grid, block] : {std::pair<dim3, dim3>{1, 1025}, {0, 32}, {1, 0}, {dim3(1, 65536), 32}}) {
    EXPECT_NE(launch_error(grid, block, 0).find("invalid configuration"), std::string::npos);
  }
  const std::string error = launch_error(dim3(7, 2), 64, 1 << 20);
  EXPECT_NE(error.find("nothing_kernel"), std::string::npos) << error;
  EXPECT_NE(error.find("(7, 2, 1)"), std::string::npos) << error;
  EXPECT_NE(error.find("1048576 bytes"), std::string::npos) << error;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(SimtLaunch, SaysWhatDoesNotFitAndWhatWould) {
  const auto says = [](dim3 grid, dim3 block, size_t shared, const std::string& words) {
    const std::string error = launch_error(grid, block, shared);
    EXPECT_NE(error.find(words), std::string::npos) << words << " is not in: " << error;
  };
  says(1, 2048, 0, "a block of 2048 threads: the limit is 1024 (invalid configuration argument)");
  says(1, dim3(32, 64), 0, "a block of 2048 threads: the limit is 1024");
  says(1, dim3(1, 1, 65), 0, "block (1, 1, 65): its size in z is 65, it must be 1 to 64");
  says(0, 32, 0, "grid (0, 1, 1): its size in x is 0, it must be 1 to 2147483647");
  says(dim3(1, 65536), 32, 0, "its size in y is 65536, it must be 1 to 65535");
  says(1, 32, 232449, "232449 bytes of dynamic shared memory: a block can have 232448 at most");
  EXPECT_EQ(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") << "another error has its own words";
  cudaGetLastError();
}

template <class T>
__global__ void large_kernel(T* out) {
  __shared__ T tile[8192];
  tile[threadIdx.x] = T(threadIdx.x);
  __syncthreads();
  *out = tile[0];
}
__global__ void beside_kernel(int* out) {
  __shared__ int tile[8192];
  tile[threadIdx.x] = ladder::dynamic_shared<int>()[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) *out = tile[0];
}

// ptxas refuses it; so must the CPU device.
TEST(SimtLaunch, RefusesMoreThan48KilobytesOfStaticSharedMemory) {
  OnDevice<double> out(1);
  std::string error;
  try {
    ladder::launch(large_kernel<double>, 1, 1, 0, nullptr, out);
  } catch (const ladder::Error& caught) {
    error = caught.what();
  }
  EXPECT_NE(
      error.find("kernel large_kernel<double> declares 65536 bytes of static __shared__ memory, a block has 49152: "
                 "use dynamic_shared<T>() and pass the bytes to launch(...)"),
      std::string::npos)
      << error;
  OnDevice<float> fits(1);
  EXPECT_NO_THROW(ladder::launch(large_kernel<float>, 1, 1, 0, nullptr, fits)) << "another kernel's are its own";
  OnDevice<int> beside(1);
  EXPECT_NO_THROW(ladder::launch(beside_kernel, 1, 32, 16384, nullptr, beside));
  int* raw = beside;
  void* arguments[] = {&raw};
  EXPECT_EQ(cudaLaunchKernel(beside_kernel, dim3(1), dim3(32), arguments, 16385), cudaErrorInvalidValue);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorInvalidValue))
                .find("16385 bytes of dynamic shared memory beside "
                      "32768 bytes of __shared__ variables"),
            std::string::npos);
  cudaGetLastError();
}

__global__ void print_kernel() { std::printf("thread %d\n", int(threadIdx.x)); }

TEST(SimtLaunch, WhatAKernelPrintsIsThereWhenTheLaunchEnds) {
  std::fflush(stdout);
  std::FILE* const file = std::tmpfile();
  const int before = dup(STDOUT_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  const unsigned long long shuffle = simt_set_shuffle(0);
  ladder::launch(print_kernel, 1, 2, 0, nullptr);
  simt_set_shuffle(shuffle);
  dup2(before, STDOUT_FILENO);
  close(before);
  char text[64] = "";
  std::rewind(file);
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  EXPECT_EQ(std::string(text, length), "thread 0\nthread 1\n");
}

TEST(SimtLaunch, TypedRuntimeLaunch) {
  OnDevice<float> device(1);
  float *out = device, a = 1;
  int b = 2;
  double c = 3;
  void* arguments[] = {&out, &a, &b, &c};
  ASSERT_EQ(cudaLaunchKernel(store_kernel<float>, dim3(1), dim3(1), arguments), cudaSuccess);
  EXPECT_EQ(device.values()[0], 6.0f);
}

}  // namespace
