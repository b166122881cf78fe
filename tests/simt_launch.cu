// Launches on the CPU device: every thread of every block runs once and knows its place; what cannot run is refused.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "simt_device.cuh"

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
