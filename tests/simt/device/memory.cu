// The host side of the CPU device: memory apart from the host's, errors as CUDA gives them, vector types, intrinsics.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../on_device.cuh"

namespace {

TEST(SimtMemory, CopiesAreCheckedAgainstTheirDirection) {
  std::vector<char> host(200);
  OnDevice<char> device(100);
  char* d = device;
  EXPECT_EQ(cudaMemcpy(d, host.data(), 100, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(d, host.data(), 100, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(d + 50, d, 50, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host.data(), d, 100, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host.data(), host.data() + 100, 100, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 100), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(SimtMemory, RowsAreCopiedWithTheirPitch) {
  std::vector<int> host(12), back(20, -1);
  for (int i = 0; i < 12; ++i) host[i] = i;
  OnDevice<int> device(16);
  int* d = device;
  ASSERT_EQ(cudaMemcpy2D(d, 16, host.data(), 12, 12, 4, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(back.data(), 20, d, 16, 12, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(back[i], i % 5 < 3 ? i / 5 * 3 + i % 5 : -1);
  EXPECT_EQ(cudaMemcpy2D(d, 8, host.data(), 12, 12, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(SimtMemory, EventsMeasureAndStreamsFinish) {
  cudaStream_t stream;
  cudaEvent_t start, end;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  OnDevice<int> x(1 << 20);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(x, 1, 4 << 20, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GT(ms, 0);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(x.values()[12345], 0x01010101);
  cudaEventDestroy(start), cudaEventDestroy(end), cudaStreamDestroy(stream);
}

TEST(SimtMemory, PropertiesAndErrorsHaveNames) {
  int count = 0, device = -1;
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_GE(count, 1);
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_GE(properties.multiProcessorCount, 1);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
  cudaGetLastError();
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_LE(free_bytes, total_bytes);
  void* huge = nullptr;
  EXPECT_EQ(cudaMalloc(&huge, total_bytes * 4), cudaErrorMemoryAllocation);
  cudaGetLastError();
}

#ifndef __CUDACC__
// Promises of the CPU device alone.

TEST(SimtMemory, CopiesMustStayInsideOneAllocation) {
  std::vector<char> host(200);
  OnDevice<char> device(100);
  char* d = device;
  EXPECT_EQ(cudaMemcpy(d, host.data(), 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), d + 99, 2, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(d - 1, 0, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(d + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(host.data()), cudaErrorInvalidValue);
  cudaGetLastError();
  void* twice = nullptr;
  ASSERT_EQ(cudaMalloc(&twice, 10), cudaSuccess);
  EXPECT_EQ(cudaFree(twice), cudaSuccess);
  EXPECT_EQ(cudaFree(twice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(twice, 0, 1), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(SimtMemory, FreshMemoryIsNonsenseAndOldMemoryComesBack) {
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  void* first = nullptr;
  for (int round = 0; round < 50; ++round) {
    float* x = nullptr;
    const size_t count = 1000003;
    ASSERT_EQ(cudaMalloc(&x, count * sizeof(float)), cudaSuccess);
    if (round == 0) first = x;
    EXPECT_EQ(x, first) << "what is freed is used again";
    float ends[2] = {};
    cudaMemcpy(&ends[0], x, sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&ends[1], x + count - 1, sizeof(float), cudaMemcpyDeviceToHost);
    EXPECT_TRUE(std::isnan(ends[0]) && std::isnan(ends[1]));
    cudaMemGetInfo(&during, &total);
    EXPECT_EQ(during, before - count * sizeof(float));
    cudaMemset(x, 0, count * sizeof(float));
    ASSERT_EQ(cudaFree(x), cudaSuccess);
  }
  cudaMemGetInfo(&after, &total);
  EXPECT_EQ(after, before);
}
#endif

struct alignas(16) Pair {
  double a;
  int b;
};

__global__ void vector_kernel(const float4* in, float4* out, double2* halves, Pair pair, uint3 parts) {
  const float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  halves[threadIdx.x] = make_double2(v.x / 2, pair.a + pair.b + parts.z);
}

TEST(SimtMemory, VectorTypes) {
  static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(double2) == 16 && sizeof(uchar4) == 4);
  std::vector<float4> in(8);
  for (int i = 0; i < 8; ++i) in[i] = make_float4(float(i), 1, 2, 3);
  OnDevice<float4> device(in), out(8);
  OnDevice<double2> halves(8);
  ladder::launch(vector_kernel, 1, 8, 0, nullptr, device, out, halves, Pair{0.25, 3}, make_uint3(1, 2, 4));
  const auto o = out.values();
  const auto h = halves.values();
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(o[i].x == 3 && o[i].y == 2 && o[i].z == 1 && o[i].w == float(i));
    EXPECT_TRUE(h[i].x == i / 2.0 && h[i].y == 7.25);
  }
}

__global__ void intrinsics_kernel(double* out) {
  out[0] = __popc(0xf0f0u) + __clz(1) + __ffs(8);
  out[1] = __brev(1u);
  out[2] = __int_as_float(__float_as_int(1.5f));
  // 1 + 2^-12 squared: a fused sum keeps the 2^-24 that a rounded product loses.
  const float x = 1.0f + 1.0f / 4096;
  out[3] = __fadd_rn(__fmul_rn(x, x), -1.0f - 1.0f / 2048);
  out[4] = __fmaf_rn(x, x, -1.0f - 1.0f / 2048);
  out[5] = min(3, 5) + max(2.0f, 7.0f);
  out[6] = rsqrtf(4.0f) + rsqrt(16.0);
  out[7] = __umulhi(0x80000000u, 6u);
  out[8] = __float2int_rn(2.5f) + 10 * __float2int_rz(-2.5f);
  out[9] = double(__ldg(out + 7)) + warpSize;
}

TEST(SimtMemory, Intrinsics) {
  OnDevice<double> out(10);
  ladder::launch(intrinsics_kernel, 1, 1, 0, nullptr, out);
  EXPECT_EQ(out.values(),
            (std::vector<double>{8 + 31 + 4, 2147483648.0, 1.5, 0, std::ldexp(1.0, -24), 10, 0.75, 3, -18, 35}));
}

}  // namespace
