// How much device memory a variant takes at most, with what the libraries that it calls take for themselves.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace ladder {

/// Measures peak device memory from the device's free memory, which includes allocations by libraries. Allocations of
/// other processes on the same GPU are counted too: give the GPU to one run alone.
class MemoryWatch {
 public:
  /// Memory that is in use now does not count.
  MemoryWatch() : free_at_first_(free_now()), least_(free_at_first_) {}

  void sample() {
    const int64_t now = free_now();
    for (int64_t least = least_; now < least && !least_.compare_exchange_weak(least, now);) {
    }
  }
  int64_t peak() const { return free_at_first_ - least_; }

  /// Samples every millisecond until the returned object is destroyed.
  std::shared_ptr<void> watch() {
    int device = 0;
    cudaGetDevice(&device);
    return std::make_shared<std::jthread>([this, device](std::stop_token stop) {
      cudaSetDevice(device);
      while (!stop.stop_requested()) {
        sample();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }

 private:
  static int64_t free_now() {
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? int64_t(free) : 0;
  }
  const int64_t free_at_first_;
  std::atomic<int64_t> least_;
};

}  // namespace ladder
