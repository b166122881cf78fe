#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "worker/ceilings.hpp"

namespace ladder {
namespace {

/// The least seconds of `times` runs of work(thread, threads) on all cores at once.
template <class F>
double best_on_all_cores(int times, F work) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()));
  double least = 1e300;
  for (int i = 0; i < times; ++i) {
    const double begin = now_seconds();
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < threads; ++t) all.emplace_back([=] { work(t, threads); });
    }
    least = std::min(least, now_seconds() - begin);
  }
  return least;
}

volatile double sink;  // what is written here cannot be left out

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif

/// Multiplies and adds, two per lane and step, in vectors that are named one by one: an array of them, left to the
/// compiler, became scalars with one of two g++ that were tried, and a ceiling a tenth of what the cores can do.
template <class T>
double gflops() {
  using Vector [[gnu::vector_size(vector_bytes)]] = T;
  constexpr int lanes = vector_bytes / sizeof(T), vectors = 10, steps = 1 << 22;  // ten hide the latency of each
  const double seconds = best_on_all_cores(5, [](int thread, int) {
    const Vector start = Vector{} + T(thread), scale = Vector{} + T(0.999), add = Vector{} + T(0.001);
    Vector a = start, b = start + 1, c = start + 2, d = start + 3, e = start + 4;
    Vector f = start + 5, g = start + 6, h = start + 7, i = start + 8, j = start + 9;
    for (int step = 0; step < steps; ++step) {
      a = a * scale + add, b = b * scale + add, c = c * scale + add, d = d * scale + add, e = e * scale + add;
      f = f * scale + add, g = g * scale + add, h = h * scale + add, i = i * scale + add, j = j * scale + add;
    }
    const Vector all = a + b + c + d + e + f + g + h + i + j;
    T sum = 0;
    for (int lane = 0; lane < lanes; ++lane) sum += all[lane];
    sink = double(sum);
  });
  return 2.0 * lanes * vectors * steps * std::max(1u, std::thread::hardware_concurrency()) / seconds * 1e-9;
}

}  // namespace

nlohmann::json measure_cpu_ceilings() {
  const size_t count = size_t(32) << 20;  // doubles: 256 MiB, more than any cache
  std::vector<double> from(count, 1), to(count, 2);
  const auto part = [&](int thread, int threads, auto work) {
    work(count * size_t(thread) / size_t(threads), count * size_t(thread + 1) / size_t(threads));
  };
  const double copy = best_on_all_cores(5, [&](int thread, int threads) {
    part(thread, threads, [&](size_t begin, size_t end) {
      std::copy(from.begin() + std::ptrdiff_t(begin), from.begin() + std::ptrdiff_t(end),
                to.begin() + std::ptrdiff_t(begin));
    });
  });
  const double read = best_on_all_cores(5, [&](int thread, int threads) {
    part(thread, threads, [&](size_t begin, size_t end) {
      double sum[16] = {};  // independent, so that additions do not wait for each other
      for (size_t e = begin; e + 16 <= end; e += 16) {
        for (size_t i = 0; i < 16; ++i) sum[i] += from[e + i];
      }
      sink = std::accumulate(sum, sum + 16, 0.0);
    });
  });
  const double bytes = double(count) * sizeof(double);
  const long cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
  return {{"copy_gbs", 2 * bytes / copy * 1e-9},
          {"read_gbs", bytes / read * 1e-9},
          {"fp32_gflops", gflops<float>()},
          {"fp64_gflops", gflops<double>()},
          {"pinned_h2d_gbs", nullptr},
          {"pinned_d2h_gbs", nullptr},
          {"pageable_h2d_gbs", nullptr},
          {"pageable_d2h_gbs", nullptr},
          {"empty_event_us", nullptr},
          {"empty_launch_us", nullptr},
          {"l2_bytes", cache > 0 ? nlohmann::json(cache) : nlohmann::json(nullptr)}};
}

}  // namespace ladder
