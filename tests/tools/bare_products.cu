// How fast the tensor cores of this GPU multiply, and nothing else: a loop of wgmma on halves and one on signed bytes,
// both on random data in registers and shared memory, each for some seconds, with clock and power. What an assignment
// by bytes (variants/5_pruning/v38a_integers.cu) can gain over one by halves is bounded by their ratio; on random data
// the power limit may lower it. Needs compute capability 9.0. From the root of the project, where build/ is configured
// with CUDA; the output is a record in JSON:
//     cmake --build build --target bare_products && build/bare_products [SECONDS, 5 by default] > bare_products.json
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
/// clock: cycles and nanoseconds of block 0.
template <int columns, class Product>
__global__ void __launch_bounds__(groups* warpgroup_threads, 1)
    bare_kernel(const uint4* a, const uint4* b, Product* sums, int64_t* clock, int rounds) {
  const auto nanoseconds = [] {
    int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  };
  const bool times = blockIdx.x == 0 && threadIdx.x == 0;
  const int64_t begin_ns = nanoseconds(), begin = clock64();
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
  if (times) clock[0] = clock64() - begin, clock[1] = nanoseconds() - begin_ns;
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

/// Prints an entry of the record; returns milliseconds.
template <int columns, class Product>
double measure(const char* operands, int depth, int multiprocessors, double seconds, const PowerMeter& power) {
  const bool bytes = std::is_same_v<Product, int>;
  const OnDevice<uint4> a(random_words(size_t(steps) * groups * warpgroup_threads, bytes));
  const OnDevice<uint4> b(random_words(size_t(steps) * step_bytes<columns> / 16, bytes));
  const OnDevice<Product> sums(size_t(multiprocessors) * groups * warpgroup_threads);
  const OnDevice<int64_t> clock(2);
  constexpr int rounds = 20'000;
  const auto run = [&] {
    launch(bare_kernel<columns, Product>, multiprocessors, groups * warpgroup_threads, steps * step_bytes<columns>,
           nullptr, static_cast<const uint4*>(a), static_cast<const uint4*>(b), static_cast<Product*>(sums),
           static_cast<int64_t*>(clock), rounds);
    check(cudaDeviceSynchronize(), "multiplying");
  };
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  const auto begun = Clock::now();
  while (since(begun) < seconds / 2) run();  // clocks and power settle
  const auto from = Clock::now();
  int launches = 0;
  int64_t cycles = 0, nanoseconds = 0;
  while (since(from) < seconds / 2) {
    run(), ++launches;
    const auto times = clock.values();
    cycles += times[0], nanoseconds += times[1];
  }
  const double each = 1e-9 * double(nanoseconds) / launches;
  const double products = double(multiprocessors) * groups * warpgroup_rows * columns * steps * depth * rounds;
  const double padded = double((features + depth - 1) / depth * depth), wanted = double(points) * centroids * padded;
  const double milliseconds = 1e3 * each * wanted / products;
  std::printf("  \"%s\": {\"instruction\": \"m64n%dk%d\", \"tops\": %.1f, \"products_per_cycle_and_sm\": %.0f, ",
              operands, columns, depth, 2e-12 * products / each,
              products / multiprocessors / (double(cycles) / launches));
  std::printf("\"ms\": %.3f, \"sm_mhz\": %.0f, ", milliseconds, 1e3 * double(cycles) / double(nanoseconds));
  if (const auto drawn = power.read())
    std::printf("\"watts\": %.0f, \"watt_limit\": %.0f},\n", drawn->watts, drawn->limit);
  else
    std::printf("\"watts\": null, \"watt_limit\": null},\n");
  return milliseconds;
}
}  // namespace

int main(int count, char** words) try {
  char* end = nullptr;
  const double seconds = count > 1 ? std::strtod(words[1], &end) : 5;
  if (count > 2 || !(seconds > 0 && seconds <= 3600) || (end && *end)) {
    std::fprintf(stderr, "bare_products takes one number above 0, the seconds of each measurement; here is '%s'\n",
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
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  const PowerMeter power(bus);
  const int multiprocessors = device.multiProcessorCount;
  std::printf("{\n  \"device\": \"%s\", \"multiprocessors\": %d, \"driver_for_cuda\": \"%d.%d\", \"seconds\": %g,\n",
              device.name, multiprocessors, driver / 1000, driver % 1000 / 10, seconds);
  std::printf("  \"points\": %lld, \"centroids\": %lld, \"features\": %lld,\n", (long long)points, (long long)centroids,
              (long long)features);
  const double halves = measure<168, float>("halves", mma_depth, multiprocessors, seconds, power);
  const double bytes = measure<byte_columns, int>("bytes", byte_step_depth, multiprocessors, seconds, power);
  std::printf("  \"bytes_over_halves\": %.3f\n}\n", bytes / halves);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
