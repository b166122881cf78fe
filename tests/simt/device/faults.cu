// What kernels do wrong, and how the CPU device says so. For the CPU device only: a GPU has other words, or hangs.
// Accesses are checked where the build has AddressSanitizer; barriers and warp operations always.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <simt.h>

#include <pthread.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../on_device.cuh"

namespace {

class SimtFaults : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    shuffle_ = simt_set_shuffle(0);  // threads in their own order: which one fails first is known
  }
  void TearDown() override {
    cudaDeviceReset();
    simt_set_shuffle(shuffle_);
  }

  /// Launches, and expects the launch to fail with `error` and a sentence that holds all of `parts`.
  template <class... P, class... A>
  void expect_fault(cudaError_t error, const std::vector<std::string>& parts, void (*kernel)(P...), dim3 grid,
                    dim3 block, size_t shared, A... args) {
    std::string thrown;
    try {
      ladder::launch(kernel, grid, block, shared, nullptr, args...);
    } catch (const ladder::Error& caught) {
      thrown = caught.what();
    }
    const std::string sentence = simt_last_fault();
    EXPECT_FALSE(sentence.empty());
    EXPECT_NE(thrown.find(sentence), std::string::npos) << thrown;
    for (const auto& part : parts)
      EXPECT_NE(sentence.find(part), std::string::npos) << part << " is not in: " << sentence;
    EXPECT_EQ(cudaGetLastError(), error);
    EXPECT_EQ(cudaDeviceSynchronize(), error);
    void* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, 1), error) << "a lost context stays lost";
    cudaDeviceReset();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_STREQ(simt_last_fault(), "");
  }

 private:
  unsigned long long shuffle_ = 0;
};

// ------------------------------------------------------------------------------------------------------ unwritten
// reads

constexpr int unwritten_line = __LINE__ + 3;
__global__ void unwritten_kernel(int* x, int written) {
  __shared__ int counts[32];
  if (int(threadIdx.x) < written) counts[threadIdx.x] = 1;
  x[threadIdx.x] = counts[threadIdx.x];
}

TEST_F(SimtFaults, TheFirstReadOfSharedMemoryThatNobodyWroteIsNamed) {
  OnDevice<int> x(32);
  for (const int written : {32, 31}) {
    ladder::launch(unwritten_kernel, 1, 32, 0, nullptr, static_cast<int*>(x), written);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the value may go unused: it is no fault";
    const std::string said = simt_unwritten_read();
    EXPECT_EQ(said.empty(), written == 32 || !simt_is_checked()) << said;
    if (said.empty()) continue;
    EXPECT_NE(said.find("the __shared__ variable 'counts'"), std::string::npos) << said;
    EXPECT_NE(said.find("faults.cu:" + std::to_string(unwritten_line + 1)), std::string::npos) << said;
  }
  cudaDeviceReset();
  EXPECT_STREQ(simt_unwritten_read(), "");
}

// ---------------------------------------------------------------------------------------- barriers and warp operations

__global__ void some_wait_kernel(int waiting) {
  if (int(threadIdx.x) < waiting) __syncthreads();
}
__global__ void wait_apart_kernel(int* x) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    x[threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x == 40 ? __syncthreads_count(1) : 0, 0);
}

TEST_F(SimtFaults, SomeThreadsNeverComeToTheBarrier) {
  expect_fault(cudaErrorLaunchFailure,
               {"a barrier that not all threads come to", "40 wait at __syncthreads()", "(the first: thread (0, 0, 0))",
                "24 have ended (the first: thread (40, 0, 0))", "in kernel some_wait_kernel, block (0, 0, 0)"},
               some_wait_kernel, 1, 64, 0, 40);
  OnDevice<int> x(64);
  expect_fault(cudaErrorLaunchFailure,
               {"32 wait at __syncthreads() at", "1 wait at __syncthreads() at", "31 wait in a warp operation at"},
               wait_apart_kernel, 1, 64, 0, static_cast<int*>(x));
}

std::string at(int line) { return "faults.cu:" + std::to_string(line); }

constexpr int first_barrier = __LINE__ + 4, second_barrier = __LINE__ + 7;
__global__ void divergent_kernel(int few, int both) {
  if (int(threadIdx.x) < few) {
    // Some threads come here, the others only to the next one.
    __syncthreads();
    if (!both) return;
  }
  __syncthreads();
}
constexpr int late_barrier = __LINE__ + 3;
__global__ void early_return_kernel(int n) {
  if (int(threadIdx.x) >= n) return;
  __syncthreads();
}

// Also where the barriers would be enough for all: the hardware may count them, the language forbids it.
TEST_F(SimtFaults, BarriersInDifferentPlaces) {
  for (const int both : {0, 1}) {
    expect_fault(cudaErrorLaunchFailure,
                 {"the threads of a block wait at different barriers: of 256 threads 200 wait at __syncthreads() at ",
                  at(second_barrier) + " (the first: thread (56, 0, 0)), 56 wait at __syncthreads() at ",
                  at(first_barrier) + " (the first: thread (0, 0, 0)); in kernel divergent_kernel, block (0, 0, 0)"},
                 divergent_kernel, 1, 256, 0, 56, both);
  }
  expect_fault(
      cudaErrorLaunchFailure,
      {"of 64 threads 40 wait at __syncthreads() at ", at(late_barrier), "24 have ended", "no return before it"},
      early_return_kernel, 1, 64, 0, 40);
}

__global__ void wrong_mask_kernel() { __syncwarp(0xffff0000u); }
__global__ void outside_mask_kernel(int* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0xffffu, 1, 8);
}
__global__ void wrong_width_kernel(int* x) { x[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0, 12); }

TEST_F(SimtFaults, WarpOperationsWithAWrongMask) {
  expect_fault(cudaErrorLaunchFailure, {"wrong_mask_kernel", "leaves out the calling lane 0"}, wrong_mask_kernel, 1, 32,
               0);
  {
    OnDevice<int> x(32);
    expect_fault(cudaErrorLaunchFailure, {"lane 8 reads lane 16", "thread (8, 0, 0)"}, outside_mask_kernel, 1, 32, 0,
                 static_cast<int*>(x));
  }
  OnDevice<int> x(32);
  expect_fault(cudaErrorLaunchFailure, {"width 12"}, wrong_width_kernel, 1, 32, 0, static_cast<int*>(x));
}

__global__ void grid_barrier_kernel() { cooperative_groups::this_grid().sync(); }
__global__ void one_block_leaves_kernel() {
  if (blockIdx.x != 1) cooperative_groups::this_grid().sync();
}
__global__ void trap_kernel() {
  if (blockIdx.x == 2 && threadIdx.x == 5) __trap();
}

TEST_F(SimtFaults, GridBarriers) {
  expect_fault(cudaErrorLaunchFailure, {"grid_barrier_kernel", "not cooperative"}, grid_barrier_kernel, 2, 32, 0);
  EXPECT_EQ(cudaLaunchCooperativeKernel(one_block_leaves_kernel, 3, 32, nullptr), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(simt_last_fault()).find("32 wait at a grid barrier"), std::string::npos) << simt_last_fault();
}

TEST_F(SimtFaults, Traps) {
  expect_fault(cudaErrorLaunchFailure, {"__trap()", "block (2, 0, 0), thread (5, 0, 0)"}, trap_kernel, 4, 32, 0);
}

TEST_F(SimtFaults, TheDeviceWorksAgainAfterAReset) {
  for (int round = 0; round < 3; ++round) {
    expect_fault(cudaErrorLaunchFailure, {"32 wait at __syncthreads()"}, some_wait_kernel, 8, 64, 0, 32);
    ladder::launch(some_wait_kernel, 8, 64, 0, nullptr, 64);
  }
}

__global__ void endless_kernel(volatile int* began) {
  for (*began = 1; *began == 1;) {
  }
}

/// Device memory is not the host's to read, so the check is told not to look.
__attribute__((noinline, no_sanitize("address"))) bool has_begun(const volatile int* flag) { return *flag != 0; }

// A request to end comes from outside, as when a session has had its time.
TEST(SimtFaultsDeathTest, ARequestToEndSaysWhatWasRunning) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice<int> flag(1);
  volatile int* const began = flag;
  EXPECT_DEATH(
      {
        std::thread([main = pthread_self(), began] {
          while (!has_begun(began)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          pthread_kill(main, SIGTERM);
        }).detach();
        ladder::launch(endless_kernel, 1, 32, 0, nullptr, began);
      },
      "simt: kernel endless_kernel, block \\(0, 0, 0\\), thread \\(.*, 0, 0\\) was still running");
}

// ---------------------------------------------------------------------------------------------------- checked accesses

#ifdef __SANITIZE_ADDRESS__

constexpr int write_line = __LINE__ + 2;
__global__ void write_kernel(float* x, int n) {
  if (int(blockIdx.x * blockDim.x + threadIdx.x) < n) x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
constexpr int add_line = __LINE__ + 1;
__global__ void add_kernel(float* x) { atomicAdd(&x[threadIdx.x], 1); }
constexpr int vector_line = __LINE__ + 1;
__global__ void vector_kernel(const float4* x, float* y) { y[threadIdx.x] = x[threadIdx.x].w; }
constexpr int copy_line = __LINE__ + 1;
__global__ void copy_kernel(char* to, const char* from, int bytes) { memcpy(to, from, bytes); }
constexpr int swap_line = __LINE__ + 1;
__global__ void swap_kernel(float* x) { std::swap(x[threadIdx.x], x[threadIdx.x + 32]); }

TEST_F(SimtFaults, OutsideAnAllocation) {
  const auto fault = cudaErrorIllegalAddress;
  const auto fresh = [](size_t bytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    return p;
  };
  auto* x = static_cast<float*>(fresh(100 * sizeof(float)));
  ladder::launch(write_kernel, 4, 32, 0, nullptr, x, 100);
  expect_fault(fault,
               {"a write of 4 bytes just past the end of a device allocation of 400 bytes", "kernel write_kernel",
                "block (3, 0, 0), thread (4, 0, 0)", at(write_line)},
               write_kernel, 4, 32, 0, x, 101);
  x = static_cast<float*>(fresh(8));
  expect_fault(fault, {"an atomic on 4 bytes", "thread (2, 0, 0)", at(add_line)}, add_kernel, 1, 32, 0, x);
  x = static_cast<float*>(fresh(5 * sizeof(float4)));
  expect_fault(fault, {"a read of", "thread (5, 0, 0)", at(vector_line)}, vector_kernel, 1, 32, 0,
               reinterpret_cast<float4*>(x), static_cast<float*>(fresh(32 * sizeof(float))));
  x = static_cast<float*>(fresh(64));
  expect_fault(fault, {"a write of 65 bytes running over the end of a device allocation of 64 bytes", at(copy_line)},
               copy_kernel, 1, 1, 0, reinterpret_cast<char*>(x), static_cast<char*>(fresh(100)), 65);
  x = static_cast<float*>(fresh(34 * sizeof(float)));
  expect_fault(fault, {"just past the end", "kernel swap_kernel", "thread (2, 0, 0)", at(swap_line)}, swap_kernel, 1,
               32, 0, x);
  x = static_cast<float*>(fresh(400));
  cudaFree(x);
  expect_fault(fault, {"not allocated"}, write_kernel, 1, 32, 0, x, 32);
  expect_fault(fault, {"a null pointer"}, write_kernel, 1, 32, 0, static_cast<float*>(nullptr), 32);
}

float host_variable[64];

TEST_F(SimtFaults, HostPointers) {
  const auto fault = cudaErrorIllegalAddress;
  const std::vector<std::string> place = {"a write of 4 bytes of host memory", "kernel write_kernel",
                                          "block (0, 0, 0), thread (0, 0, 0)", at(write_line)};
  std::vector<float> heap(64);
  expect_fault(fault, place, write_kernel, 1, 64, 0, heap.data(), 64);
  float stack[64] = {};
  expect_fault(fault, {"a write of 4 bytes of the host's stack", at(write_line)}, write_kernel, 1, 64, 0, stack, 64);
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof stack), cudaSuccess);
  std::memset(pinned, 0, sizeof stack);
  expect_fault(fault, place, write_kernel, 1, 64, 0, pinned, 64);
  cudaFreeHost(pinned);
  expect_fault(fault, {"the host's variable 'host_variable'", at(write_line)}, write_kernel, 1, 64, 0, host_variable,
               64);
  expect_fault(fault, {at(add_line)}, add_kernel, 1, 64, 0, heap.data());
  expect_fault(fault, {"a read of 8 bytes of host memory", at(copy_line)}, copy_kernel, 1, 1, 0,
               static_cast<char*>(nullptr), reinterpret_cast<const char*>(heap.data()), 8);
  EXPECT_EQ(heap, std::vector<float>(64)) << "nothing was written";
}

__global__ void tell_kernel(char** where) { *where = ladder::dynamic_shared<char>(); }

// What lies beside dynamic shared memory is called so when a kernel touches it: it must be nobody else's.
TEST_F(SimtFaults, NothingOfTheHostLiesBesideDynamicSharedMemory) {
  OnDevice<char*> where(1);
  ladder::launch(tell_kernel, 1, 1, 256, nullptr, static_cast<char**>(where));
  const auto shared = reinterpret_cast<uintptr_t>(where.values()[0]);
  constexpr uintptr_t guard = 256 << 10;
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  uintptr_t end_of_shared = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char access[5] = "";
    ASSERT_EQ(std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, access), 3) << line;
    if (begin <= shared && shared < end) {
      ++found;
      end_of_shared = end;
      EXPECT_EQ(begin, shared) << "another mapping begins before it: " << line;
    } else if (end > shared - guard && begin < (end_of_shared ? end_of_shared : shared) + guard) {
      EXPECT_EQ(access[0], '-') << line;
    }
  }
  EXPECT_EQ(found, 1);
}

__global__ void static_kernel(float* y, int shift) {
  __shared__ float first[64];
  __shared__ float second[64];
  first[threadIdx.x] = second[threadIdx.x] = 1;
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = second[threadIdx.x + shift] + first[threadIdx.x + shift];
}
__global__ void dynamic_kernel(float* y, int shift) {
  float* tile = ladder::dynamic_shared<float>();
  tile[threadIdx.x + shift] = 1;
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x + shift];
}
__constant__ float first_constants[32];
__constant__ float second_constants[32];
__global__ void constant_kernel(float* y, int shift) {
  y[blockIdx.x * blockDim.x + threadIdx.x] =
      first_constants[threadIdx.x + shift] + second_constants[threadIdx.x + shift];
}
__global__ void local_kernel(float* y, int shift) {
  float local[16];
  for (int i = 0; i < 16; ++i) local[i * 7 % 16] = float(i);
  y[blockIdx.x * blockDim.x + threadIdx.x] = local[threadIdx.x % 16 + shift];
}

TEST_F(SimtFaults, OutsideSharedConstantAndLocalVariables) {
  const auto fault = cudaErrorIllegalAddress;
  const auto clean = [](void (*kernel)(float*, int), unsigned block, size_t shared) {
    OnDevice<float> y(128);
    EXPECT_NO_THROW(ladder::launch(kernel, 2, block, shared, nullptr, y, 0)) << simt_last_fault();
  };
  clean(static_kernel, 64, 0);
  clean(dynamic_kernel, 64, 256);
  clean(constant_kernel, 32, 0);
  clean(local_kernel, 32, 0);
  {
    OnDevice<float> y(64);
    expect_fault(fault, {"a read of 4 bytes outside the __shared__ variable", "of 256 bytes", "thread (63, 0, 0)"},
                 static_kernel, 1, 64, 0, static_cast<float*>(y), 1);
  }
  {
    OnDevice<float> y(64);
    expect_fault(fault, {"a write of 4 bytes past the 256 bytes of dynamic shared memory", "thread (63, 0, 0)"},
                 dynamic_kernel, 1, 64, 256, static_cast<float*>(y), 1);
  }
  {
    OnDevice<float> y(64);
    expect_fault(fault, {"a read of 4 bytes outside a __constant__ variable", "thread (31, 0, 0)"}, constant_kernel, 1,
                 32, 0, static_cast<float*>(y), 1);
  }
  OnDevice<float> y(64);
  expect_fault(fault, {"outside the thread's local variables", "thread (15, 0, 0)"}, local_kernel, 1, 32, 0,
               static_cast<float*>(y), 1);
}

TEST_F(SimtFaults, ConstantMemoryIsReadOnly) {
  void* address = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&address, first_constants), cudaSuccess);
  expect_fault(cudaErrorIllegalAddress, {"a write of 4 bytes in constant memory"}, write_kernel, 1, 32, 0,
               static_cast<float*>(address), 32);
}

__global__ void uninitialised_kernel(float* y) {
  __shared__ float tile[32];
  if (y == nullptr) tile[threadIdx.x] = 1;  // what is never written g++ takes to be 0
  y[threadIdx.x] = isnan(tile[threadIdx.x]);
  y[threadIdx.x + 32] = isnan(ladder::dynamic_shared<float>()[threadIdx.x]);
}

TEST_F(SimtFaults, SharedMemoryStartsAsNonsense) {
  OnDevice<float> y(64);
  ladder::launch(uninitialised_kernel, 1, 32, 128, nullptr, y);
  EXPECT_EQ(y.values(), std::vector<float>(64, 1)) << "not all are NaNs";
}

__global__ void all_but_one_pair_kernel(float2* y, unsigned but) {
  if (threadIdx.x != but) y[threadIdx.x] = {1, 2};
}

TEST_F(SimtFaults, WhatNobodyHasWrittenIsNotCopiedToTheHost) {
  float2* y = nullptr;
  ASSERT_EQ(cudaMalloc(&y, 64 * sizeof(float2)), cudaSuccess);
  ladder::launch(all_but_one_pair_kernel, 1, 64, 0, nullptr, y, 40);
  std::vector<float2> host(64);
  EXPECT_EQ(cudaMemcpy(host.data(), y, 40 * sizeof(float2), cudaMemcpyDefault), cudaSuccess);
  float2* copy = nullptr;
  ASSERT_EQ(cudaMalloc(&copy, 64 * sizeof(float2)), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(copy, y, 64 * sizeof(float2), cudaMemcpyDeviceToDevice), cudaSuccess) << "as on a GPU";
  EXPECT_EQ(cudaMemcpy2D(host.data(), 16, copy, 16, 8, 32, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
  const std::string where = "a device allocation of 512 bytes (from its byte 320 on)";
  EXPECT_EQ(simt_last_fault(), "a copy of 8 bytes to the host reads memory that was never written: " + where);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress) << "late or not, no call succeeds any more";
}

TEST(SimtFaultsDeathTest, HostCodeMayNotTouchDeviceMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice<float> x(4);
  float* device = x;
  EXPECT_DEATH(device[1] = 2, "host code writes 4 bytes of device memory");
  EXPECT_DEATH(std::memset(device, 0, x.values().size()), "host code writes 4 bytes of device memory");
}

#else

// ------------------------------------------------------------------------------------------- accesses, not checked

__global__ void overrun_kernel(int* out, int index) {
  int* const tile = ladder::dynamic_shared<int>();
  tile[index + int(threadIdx.x)] = 1;
  *out = tile[index];
}
__global__ void divide_kernel(int* out, int by) { *out = 7 / by; }

TEST(SimtFaultsDeathTest, ASignalInAKernelSaysWhere) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  OnDevice<int> out(1);
  int* const to = out;
  ladder::launch(overrun_kernel, 1, 32, 256, nullptr, to, 32);
  EXPECT_DEATH(ladder::launch(overrun_kernel, 1, 32, 256, nullptr, to, 60),
               "kernel overrun_kernel, block \\(0, 0, 0\\), thread \\(4, 0, 0\\) touches memory past the 256 bytes of "
               "dynamic shared memory of the launch");
  EXPECT_DEATH(ladder::launch(overrun_kernel, 1, 32, 256, nullptr, nullptr, 0), "touches a null pointer");
  EXPECT_DEATH(ladder::launch(divide_kernel, 1, 32, 0, nullptr, to, 0), "divides an integer by zero");
}

#endif

}  // namespace
