// What the devices of a run have in common where there are several: sums over all of them. A run has `ranks` processes,
// and each of them as many devices; the devices are numbered rank by rank (Device::ranks, Device::ordinals).
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace ladder {

class Communicator {
 public:
  /// What one device of this process gives to a sum and gets of it; `from` and `to` may be the same.
  struct Part {
    const unsigned long long* from;
    unsigned long long* to;
    cudaStream_t stream;
  };

  virtual ~Communicator() = default;
  /// An all-reduce: to[0 .. count) of every device of every rank become the sums over all devices, modulo 2^64, so with
  /// the same bits in any order. parts[g] is of GPU number g; the work is done in the order of its stream. All ranks
  /// make the same calls in the same order.
  virtual void sum(const std::vector<Part>& parts, size_t count) = 0;
  /// An all-gather between the hosts: every rank gives `bytes` bytes, and `all` gets those of rank 0, 1, ... Waits.
  virtual void gather(const void* mine, size_t bytes, void* all) = 0;
  /// Milliseconds that GPU 0's streams spent in sum() since the last call, waits for other devices included. For the
  /// harness; the device is idle.
  virtual double take_ms() = 0;
  /// For the harness, where a phase has failed: work that waits for other devices ends, and no sum can be made anymore.
  virtual void abort() = 0;
};

}  // namespace ladder
