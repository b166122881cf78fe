#include "worker/ceilings.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

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

#if __has_include(<cublas_v2.h>)
/// cuBLAS, loaded when it is needed: linked with it, every worker would start some tenths of a second later.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream) {
    for (const std::string name : {LADDER_CUBLAS, "libcublas.so"}) {
      if (!library_) library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (!library_) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library_, name));
      return function != nullptr;
    };
    if (!find(create_, "cublasCreate_v2") || !find(destroy_, "cublasDestroy_v2") ||
        !find(set_stream_, "cublasSetStream_v2") || !find(gemm_, "cublasGemmEx"))
      return;
    if (create_(&handle_) != CUBLAS_STATUS_SUCCESS) handle_ = nullptr;
    if (handle_) set_stream_(handle_, stream);
  }
  ~Cublas() {
    if (handle_) destroy_(handle_);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }

  /// C = A^T B of square matrices; false where this GPU has no such product.
  template <class Scalar>
  bool multiply(int side, const void* a, const void* b, cudaDataType operands, void* c, cudaDataType result,
                cublasComputeType_t compute) const {
    const Scalar one = 1, zero = 0;
    return gemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, side, side, side, &one, a, operands, side, b, operands, side, &zero,
                 c, result, side, compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  void* library_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  cublasStatus_t (*create_)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy_)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream_)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*gemm_)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                          cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
                          cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
};

/// The rates of matrix products by type of their operands. `from` and `to` are device memory of so many bytes each.
nlohmann::json tensor_rates(Bench& bench, const void* from, void* to, size_t bytes) {
  nlohmann::json found = nlohmann::json::object();
  const Cublas cublas(bench.stream);
  if (!cublas) return found;
  const auto measure = [&](const char* name, size_t element, int most, auto multiply) {
    int side = most;
    while (side > 256 && 2 * element * side * side > bytes) side /= 2;
    const void* const b = static_cast<const char*>(from) + element * side * side;
    if (2 * element * side * side > bytes || !multiply(side, b)) return;
    if (cudaStreamSynchronize(bench.stream) != cudaSuccess) return;
    const double seconds = bench.best(5, [&] { multiply(side, b); });
    found[name] = 2.0 * side * side * side / seconds * 1e-9;
  };
  measure("tensor_fp16_gflops", 2, 8192, [&](int side, const void* b) {
    return cublas.multiply<float>(side, from, b, CUDA_R_16F, to, CUDA_R_16F, CUBLAS_COMPUTE_32F);
  });
  measure("tensor_tf32_gflops", 4, 8192, [&](int side, const void* b) {
    return cublas.multiply<float>(side, from, b, CUDA_R_32F, to, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
  });
  measure("tensor_int8_gflops", 1, 8192, [&](int side, const void* b) {
    return cublas.multiply<int>(side, from, b, CUDA_R_8I, to, CUDA_R_32I, CUBLAS_COMPUTE_32I);
  });
  measure("tensor_fp64_gflops", 8, 4096, [&](int side, const void* b) {
    return cublas.multiply<double>(side, from, b, CUDA_R_64F, to, CUDA_R_64F, CUBLAS_COMPUTE_64F);
  });
  double fastest = 0;
  for (const char* name : {"tensor_fp16_gflops", "tensor_tf32_gflops"})
    fastest = std::max(fastest, found.value(name, 0.0));
  if (fastest > 0) found["tensor_gflops"] = fastest;
  return found;
}
#else
nlohmann::json tensor_rates(Bench&, const void*, void*, size_t) { return nlohmann::json::object(); }
#endif

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
    // On a GPU without tensor cores the library's products are no more than its ordinary arithmetic.
    if (p.major >= 7) found.update(tensor_rates(bench, from, to, bytes));
  }
  cudaFree(from);
  cudaFree(to);
  cudaFreeHost(pinned);
  return found;
}

}  // namespace ladder
