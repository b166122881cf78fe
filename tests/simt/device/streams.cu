// Streams, events and several devices on the CPU device; late streams, which show what nothing waits for.
#include <gtest/gtest.h>
#include <simt.h>

#include <string>
#include <vector>

#include "../on_device.cuh"

namespace {

constexpr int n = 1000;

__global__ void set_kernel(int* x, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
__global__ void double_kernel(int* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
__global__ void failing_kernel() {
  if (threadIdx.x == 3) __trap();
}

void set(int* x, int value, cudaStream_t stream) { ladder::launch(set_kernel, 4, 256, 0, stream, x, value); }

class SimtStreams : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    before_ = simt_set_late_streams(1);
    cudaStreamCreate(&blocking_);
    cudaStreamCreateWithFlags(&apart_, cudaStreamNonBlocking);
    cudaMalloc(&x_, n * sizeof(int));
    cudaMemset(x_, 0, n * sizeof(int));
    cudaMallocHost(&pinned_, n * sizeof(int));
  }
  void TearDown() override {
    cudaStreamDestroy(blocking_), cudaStreamDestroy(apart_);
    if (observer_) cudaStreamDestroy(observer_);
    cudaDeviceReset();
    cudaFreeHost(pinned_);
    simt_set_late_streams(before_);
  }
  /// As a stream apart sees it, without waiting for any other.
  int last() {
    int value = -1;
    cudaMemcpyAsync(&value, x_ + n - 1, sizeof value, cudaMemcpyDeviceToHost, observer());
    return value;
  }
  cudaStream_t observer() {
    if (!observer_) cudaStreamCreateWithFlags(&observer_, cudaStreamNonBlocking);
    return observer_;
  }

  int before_ = 0;
  cudaStream_t blocking_ = nullptr, apart_ = nullptr, observer_ = nullptr;
  int *x_ = nullptr, *pinned_ = nullptr;
};

TEST_F(SimtStreams, WorkThatNothingWaitsForIsMissing) {
  set(x_, 1, apart_);
  EXPECT_EQ(last(), 0);
  int value = -1;
  cudaMemcpy(&value, x_, sizeof value, cudaMemcpyDeviceToHost);
  EXPECT_EQ(value, 0) << "the legacy stream does not wait for a non-blocking one";
  cudaStreamSynchronize(blocking_);
  EXPECT_EQ(last(), 0) << "another stream was waited for";
  EXPECT_EQ(cudaStreamSynchronize(apart_), cudaSuccess);
  EXPECT_EQ(last(), 1);
  simt_set_late_streams(0);
  set(x_, 2, apart_);
  EXPECT_EQ(last(), 2) << "streams that are not late run at once";
}

TEST_F(SimtStreams, TheLegacyStreamWaitsForBlockingOnes) {
  set(x_, 1, blocking_);
  EXPECT_EQ(last(), 0);
  ladder::launch(double_kernel, 4, 256, 0, nullptr, x_);
  EXPECT_EQ(last(), 2);
  set(x_, 5, blocking_);
  int value = -1;
  cudaMemcpy(&value, x_, sizeof value, cudaMemcpyDeviceToHost);
  EXPECT_EQ(value, 5);
}

TEST_F(SimtStreams, WhatWaitsForAllRunsAll) {
  set(x_, 1, apart_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(last(), 1);
  set(x_, 2, apart_);
  void* other = nullptr;
  cudaMalloc(&other, 8);
  EXPECT_EQ(last(), 1) << "cudaMalloc waits for nothing";
  cudaFree(other);
  EXPECT_EQ(last(), 2);
  set(x_, 3, apart_);
  cudaStreamDestroy(apart_);
  EXPECT_EQ(last(), 2) << "to destroy a stream waits for nothing";
  cudaDeviceSynchronize();
  EXPECT_EQ(last(), 3);
  cudaStreamCreateWithFlags(&apart_, cudaStreamNonBlocking);
}

TEST_F(SimtStreams, EventsJoinStreams) {
  cudaEvent_t event;
  cudaEventCreate(&event);
  EXPECT_EQ(cudaStreamWaitEvent(blocking_, event), cudaSuccess) << "not recorded: nothing to wait for";
  set(x_, 3, apart_);
  cudaEventRecord(event, apart_);
  set(x_, 100, apart_);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  cudaStreamWaitEvent(blocking_, event);
  ladder::launch(double_kernel, 4, 256, 0, blocking_, x_);
  cudaStreamSynchronize(blocking_);
  EXPECT_EQ(last(), 6) << "up to the event, and no further";
  cudaStreamSynchronize(apart_);
  EXPECT_EQ(last(), 100);

  cudaEventRecord(event, apart_);
  cudaEvent_t end;
  cudaEventCreate(&end);
  set(x_, 4, apart_);
  cudaEventRecord(end, apart_);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, event, end), cudaErrorNotReady);
  cudaGetLastError();
  while (cudaEventQuery(end) == cudaErrorNotReady) {
  }
  EXPECT_EQ(cudaEventElapsedTime(&ms, event, end), cudaSuccess);
  EXPECT_GT(ms, 0);
  EXPECT_EQ(last(), 4);
  set(x_, 5, apart_);
  cudaEventRecord(end, apart_);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(last(), 5);
  set(x_, 6, apart_);
  set(x_, 7, apart_);
  EXPECT_EQ(cudaStreamQuery(apart_), cudaErrorNotReady);
  while (cudaStreamQuery(apart_) == cudaErrorNotReady) {
  }
  EXPECT_EQ(last(), 7);
  cudaEventDestroy(event), cudaEventDestroy(end);
}

TEST_F(SimtStreams, CopiesTakeTheirSourceWhenCudaDoes) {
  std::vector<int> pageable(n, 1);
  cudaMemcpyAsync(x_, pageable.data(), n * sizeof(int), cudaMemcpyHostToDevice, apart_);
  std::fill_n(pageable.begin(), n, 2);
  cudaStreamSynchronize(apart_);
  EXPECT_EQ(last(), 1) << "pageable memory is staged at the call";
  std::fill_n(pinned_, n, 3);
  cudaMemcpyAsync(x_, pinned_, n * sizeof(int), cudaMemcpyHostToDevice, apart_);
  std::fill_n(pinned_, n, 4);
  cudaStreamSynchronize(apart_);
  EXPECT_EQ(last(), 4) << "page-locked memory is read when the copy runs";
  set(x_, 8, apart_);
  cudaMemcpyAsync(pinned_, x_, n * sizeof(int), cudaMemcpyDeviceToHost, apart_);
  EXPECT_EQ(pinned_[0], 4);
  cudaMemcpyAsync(pageable.data(), x_, n * sizeof(int), cudaMemcpyDeviceToHost, apart_);
  EXPECT_EQ(pageable[0], 8) << "a copy into pageable memory is done when the call returns";
  EXPECT_EQ(pinned_[0], 8);
  cudaMemsetAsync(x_, 0, n * sizeof(int), apart_);
  EXPECT_EQ(last(), 8);
  EXPECT_EQ(cudaMemcpyAsync(x_, pinned_, 2 * n * sizeof(int), cudaMemcpyHostToDevice, apart_), cudaErrorInvalidValue)
      << "what cannot be is refused at the call";
  cudaGetLastError();
}

TEST_F(SimtStreams, ArgumentsAreThoseOfTheCall) {
  int value = 1;
  set(x_, value, apart_);
  value = 2;
  set(x_ + 0, value, blocking_);
  cudaStreamSynchronize(apart_);
  EXPECT_EQ(last(), 1);
}

TEST_F(SimtStreams, FaultsSurfaceWhereTheStreamIsWaitedFor) {
  EXPECT_NO_THROW(ladder::launch(failing_kernel, 1, 32, 0, apart_));
  EXPECT_STREQ(simt_last_fault(), "");
  EXPECT_EQ(cudaStreamSynchronize(apart_), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("kernel failing_kernel"), std::string::npos);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
}

void count(void* data) { ++*static_cast<int*>(data); }

TEST_F(SimtStreams, HostFunctionsRunInTheirTurn) {
  int calls = 0;
  EXPECT_EQ(cudaLaunchHostFunc(apart_, count, &calls), cudaSuccess);
  EXPECT_EQ(calls, 0);
  cudaStreamSynchronize(apart_);
  EXPECT_EQ(calls, 1);
  cudaLaunchHostFunc(nullptr, count, &calls);
  EXPECT_EQ(calls, 2);
}

// ---------------------------------------------------------------------------------------------------- several devices

class SimtDevices : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    before_ = simt_set_devices(3);
  }
  void TearDown() override {
    cudaSetDevice(0);
    cudaDeviceReset();
    simt_set_devices(before_);
  }
  int before_ = 1;
};

TEST_F(SimtDevices, EachHasItsMemoryAndStreams) {
  int devices = 0, current = -1;
  cudaGetDeviceCount(&devices);
  EXPECT_EQ(devices, 3);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  cudaGetLastError();
  int* x[3];
  cudaStream_t stream[3];
  size_t free_before = 0, free_after = 0, total = 0;
  cudaSetDevice(1);
  cudaMemGetInfo(&free_before, &total);
  for (int d = 0; d < 3; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    cudaGetDevice(&current);
    EXPECT_EQ(current, d);
    simt_peak_bytes(d, 1);
    ASSERT_EQ(cudaMalloc(&x[d], n * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream[d]), cudaSuccess);
    set(x[d], d, stream[d]);
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, x[d] + 5);
    EXPECT_EQ(attributes.device, d);
    cudaDeviceProp properties;
    EXPECT_EQ(cudaGetDeviceProperties(&properties, d), cudaSuccess);
    EXPECT_EQ(properties.totalGlobalMem, total);
  }
  cudaSetDevice(1);
  cudaMemGetInfo(&free_after, &total);
  EXPECT_EQ(free_before - free_after, n * sizeof(int));
  EXPECT_THROW(set(x[0], 1, stream[0]), ladder::Error) << "a stream of another device";
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaMemcpyPeerAsync(x[1], 1, x[2], 1, 4, stream[1]), cudaErrorInvalidValue);
  cudaGetLastError();
  cudaSetDevice(2);
  cudaDeviceSynchronize();
  cudaSetDevice(1);
  ASSERT_EQ(cudaMemcpyPeerAsync(x[1], 1, x[2], 2, n * sizeof(int), stream[1]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream[1]), cudaSuccess);
  int value = 0;
  cudaMemcpy(&value, x[1], sizeof value, cudaMemcpyDeviceToHost);
  EXPECT_EQ(value, 2);
  for (int d = 0; d < 3; ++d) cudaStreamDestroy(stream[d]), cudaFree(x[d]);
}

TEST_F(SimtDevices, PeakMemoryIsKept) {
  void *a = nullptr, *b = nullptr;
  simt_peak_bytes(0, 1), simt_peak_bytes(1, 1);
  const auto start = simt_peak_bytes(0, 0);
  cudaMalloc(&a, 1000), cudaMalloc(&b, 500);
  cudaFree(a);
  EXPECT_EQ(simt_peak_bytes(0, 0), start + 1500);
  EXPECT_EQ(simt_peak_bytes(0, 1), start + 1500);
  EXPECT_EQ(simt_peak_bytes(0, 0), start + 500) << "from now on";
  EXPECT_EQ(simt_peak_bytes(1, 0), 0u);
  cudaFree(b);
}

}  // namespace
