// How fast the tensor cores of this GPU multiply, and nothing else: a loop of wgmma on halves and one on signed bytes,
// both on random data in registers and shared memory, each for some seconds, with the power that it draws. What an
// assignment by bytes (variants/5_pruning/v38a_integers.cu) can gain over one by halves is bounded by their ratio; on
// random data the power limit may lower it. Needs compute capability 9.0. From the root of the project, where build/ is
// configured with CUDA:
//     cmake --build build --target bare_products && build/bare_products [SECONDS, 5 by default]
#include <chrono>
#include <random>
#include <vector>

#include "../../harness/base/power.hpp"
#include "../../variants/common/gemm/wgmma_widths_sm90.cuh"
#include "../../variants/common/integers/wgmma_bytes.cuh"
#include "../simt/on_device.cuh"

namespace {
using namespace ladder;

constexpr int groups = 2, steps = 14;  // warpgroups of a block; steps of 16 halves or 32 bytes that a group holds
constexpr int64_t points = 300'000, centroids = 5'000, features = 408;

/// Each warpgroup multiplies its A, random registers, `rounds` times with all of B. The sums are stored, so that they
/// are computed. Product: float for halves, int for bytes.
template <int columns, class Product>
__global__ void __launch_bounds__(groups* warpgroup_threads, 1)
    bare_kernel(const uint4* a, const uint4* b, Product* sums, int rounds) {
  uint4* const shared = dynamic_shared<uint4>();
  for (int e = threadIdx.x; e < steps * step_bytes<columns> / 16; e += blockDim.x) shared[e] = b[e];
  fence_async_proxy();
  __syncthreads();
  FragmentA rows[steps];
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    const uint4 words = a[s * groups * warpgroup_threads + threadIdx.x];
    rows[s] = {words.x, words.y, words.z, words.w};
  }
  const uint64_t tile = descriptor<columns>(uint32_t(__cvta_generic_to_shared(shared)));
  Product sum = 0;
  for (int round = 0; round < rounds; ++round) {
    Product product[columns / 2];
    warpgroup_arrive();
#pragma unroll
    for (int s = 0; s < steps; ++s)
      wgmma<columns>(product, rows[s], tile + s * descriptor_offset(step_bytes<columns>), s > 0);
    warpgroup_commit();
    warpgroup_wait_for(product);
    sum += product[0];
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// `count` words of normal random numbers: halves, or bytes whose largest is some 3 to 4 standard deviations.
std::vector<uint4> random_words(size_t count, bool bytes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<uint4> words(count);
  auto* const raw = reinterpret_cast<unsigned char*>(words.data());
  for (size_t e = 0; e < count * 16; e += bytes ? 1 : 2) {
    if (bytes)
      raw[e] = uint8_t(int(std::clamp(normal(random) * most_byte / 3.3f, -127.f, 127.f)));
    else
      reinterpret_cast<__half*>(raw)[e / 2] = __float2half(normal(random));
  }
  return words;
}

template <int columns, class Product>
double measure(const char* what, int depth, int multiprocessors, double seconds, const PowerMeter& power) {
  const bool bytes = std::is_same_v<Product, int>;
  const OnDevice<uint4> a(random_words(size_t(steps) * groups * warpgroup_threads, bytes));
  const OnDevice<uint4> b(random_words(size_t(steps) * step_bytes<columns> / 16, bytes));
  const OnDevice<Product> sums(size_t(multiprocessors) * groups * warpgroup_threads);
  constexpr int rounds = 20'000;
  const auto run = [&] {
    launch(bare_kernel<columns, Product>, multiprocessors, groups * warpgroup_threads, steps * step_bytes<columns>,
           nullptr, static_cast<const uint4*>(a), static_cast<const uint4*>(b), static_cast<Product*>(sums), rounds);
    check(cudaDeviceSynchronize(), "multiplying");
  };
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  const auto begun = Clock::now();
  while (since(begun) < seconds / 2) run();  // clocks and power settle
  const auto from = Clock::now();
  int launches = 0;
  while (since(from) < seconds / 2) run(), ++launches;
  const double each = since(from) / launches;
  const double products = double(multiprocessors) * groups * warpgroup_rows * columns * steps * depth * rounds;
  const double padded = double((features + depth - 1) / depth * depth), wanted = double(points) * centroids * padded;
  std::printf("%-7s m64n%dk%d: %7.1f TOPS, %.3f ms for %lld x %lld x %g", what, columns, depth, 2e-12 * products / each,
              1e3 * each * wanted / products, (long long)points, (long long)centroids, padded);
  if (const auto drawn = power.read()) std::printf(", %.0f of %.0f W", drawn->watts, drawn->limit);
  std::printf("\n");
  return each * wanted / products;
}
}  // namespace

int main(int count, char** words) try {
  const double seconds = count > 1 ? std::atof(words[1]) : 5;
  if (!(seconds > 0) || count > 2) {
    std::fprintf(stderr, "bare_products takes one number, the seconds of each measurement; '%s' is none above 0\n",
                 words[count - 1]);
    return 2;
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
  if (device.major != 9 || device.minor != 0) {
    std::fprintf(stderr, "products of warpgroups need compute capability 9.0; %s has %d.%d\n", device.name,
                 device.major, device.minor);
    return 2;
  }
  char bus[32] = {};
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), "asking for the device's address");
  const PowerMeter power(bus);
  std::printf("%s, %g s each\n", device.name, seconds);
  const int multiprocessors = device.multiProcessorCount;
  const double halves = measure<168, float>("halves", mma_depth, multiprocessors, seconds, power);
  const double bytes = measure<byte_columns, int>("bytes", byte_step_depth, multiprocessors, seconds, power);
  std::printf("bytes take %.2f of the time of halves\n", bytes / halves);
  return 0;
} catch (const ladder::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
