#include "worker/ceilings.hpp"

#include <cstring>
#include <functional>

#include "contract/launch.cuh"
#include "worker/device_helpers.hpp"

namespace ladder {
namespace {

constexpr int chains = 8;  // independent multiply-adds per thread: more than their latency needs

template <class T>
__global__ void fma_kernel(T* out, int steps) {
  T value[chains];
  for (int c = 0; c < chains; ++c) value[c] = T(threadIdx.x + c);
#pragma unroll 16  // the loop's own instructions take the place of multiply-adds
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int c = 0; c < chains; ++c) value[c] = value[c] * T(0.999) + T(0.001);
  }
  T sum = 0;
  for (int c = 0; c < chains; ++c) sum += value[c];
  if (sum == T(-1)) out[0] = sum;  // never: but the compiler does not know
}

__global__ void read_kernel(const float4* from, size_t count, float* out) {
  float sum = 0;
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t e = blockIdx.x * size_t(blockDim.x) + threadIdx.x; e < count; e += 4 * stride) {
    float4 v[4];  // four loads under way at once
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = e + i * stride < count ? from[e + i * stride] : float4{};
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += v[i].x + v[i].y + v[i].z + v[i].w;
  }
  if (sum == -1.f) out[0] = sum;
}

__global__ void empty_kernel() {}

class Bench {
 public:
  Bench() {
    check(cudaStreamCreate(&stream), "making a stream");
    check(cudaEventCreate(&begin_), "making an event");
    check(cudaEventCreate(&end_), "making an event");
  }
  ~Bench() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream);
  }
  /// The least seconds of `times` calls, the device kept busy while each is submitted.
  double best(int times, const std::function<void()>& work) {
    double least = 1e300;
    for (int i = 0; i < times; ++i) {
      device_helpers::keep_busy(50e-6, stream);
      check(cudaEventRecord(begin_, stream), "recording an event");
      work();
      check(cudaEventRecord(end_, stream), "recording an event");
      check(cudaEventSynchronize(end_), "waiting for a measurement");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_), "reading the time");
      least = std::min(least, ms * 1e-3);
    }
    return least;
  }
  cudaStream_t stream = nullptr;

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

template <class T>
double gflops(Bench& bench, T* out, int multiprocessors) {
  constexpr int steps = 1 << 15, threads = 256;
  const int grid = multiprocessors * 8;
  const double seconds = bench.best(20, [&] { launch(fma_kernel<T>, grid, threads, 0, bench.stream, out, steps); });
  return 2.0 * chains * steps * grid * threads / seconds * 1e-9;
}

}  // namespace

nlohmann::json measure_gpu_ceilings(int ordinal) {
  check(cudaSetDevice(ordinal), "choosing a device");
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, ordinal), "reading the properties of the device");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "reading the free memory of the device");
  const size_t bytes = std::min<size_t>(size_t(4) << 30, free / 8) / 4096 * 4096, host_bytes = size_t(256) << 20;
  void *from = nullptr, *to = nullptr, *pinned = nullptr;
  check(cudaMalloc(&from, bytes), "taking device memory for a measurement");
  check(cudaMalloc(&to, bytes), "taking device memory for a measurement");
  check(cudaMallocHost(&pinned, host_bytes), "page-locking memory for a measurement");
  std::memset(pinned, 1, host_bytes);
  std::vector<char> pageable(host_bytes, 1);
  nlohmann::json found;
  {
    Bench bench;
    const auto gbs = [](double moved, double seconds) { return moved / seconds * 1e-9; };
    check(cudaMemsetAsync(from, 1, bytes, bench.stream), "filling device memory");
    const auto copy = [&](void* a, const void* b, size_t n) {
      check(cudaMemcpyAsync(a, b, n, cudaMemcpyDefault, bench.stream), "copying for a measurement");
    };
    const int grid = p.multiProcessorCount * 16;
    found = {
        {"copy_gbs", gbs(2.0 * double(bytes), bench.best(20, [&] { copy(to, from, bytes); }))},
        {"read_gbs", gbs(double(bytes), bench.best(20,
                                                   [&] {
                                                     launch(read_kernel, grid, 256, 0, bench.stream,
                                                            static_cast<const float4*>(from), bytes / 16,
                                                            static_cast<float*>(to));
                                                   }))},
        {"fp32_gflops", gflops<float>(bench, static_cast<float*>(to), p.multiProcessorCount)},
        {"fp64_gflops", gflops<double>(bench, static_cast<double*>(to), p.multiProcessorCount)},
        {"pinned_h2d_gbs", gbs(double(host_bytes), bench.best(5, [&] { copy(to, pinned, host_bytes); }))},
        {"pinned_d2h_gbs", gbs(double(host_bytes), bench.best(5, [&] { copy(pinned, to, host_bytes); }))},
        {"pageable_h2d_gbs", gbs(double(host_bytes), bench.best(3, [&] { copy(to, pageable.data(), host_bytes); }))},
        {"pageable_d2h_gbs", gbs(double(host_bytes), bench.best(3, [&] { copy(pageable.data(), to, host_bytes); }))},
        {"empty_event_us", 1e6 * bench.best(200, [] {})},
        {"empty_launch_us", 1e6 * bench.best(200, [&] { launch(empty_kernel, 1, 1, 0, bench.stream); })},
        {"l2_bytes", p.l2CacheSize}};
  }
  cudaFree(from);
  cudaFree(to);
  cudaFreeHost(pinned);
  return found;
}

}  // namespace ladder
