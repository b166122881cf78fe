// What the harness itself does on the device: the same for every variant, so that variants stay bare.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "contract/contract.hpp"

namespace ladder::device_helpers {

/// Makes n labels on the device invalid (-1): a variant that leaves one unwritten is found out.
void poison_labels(int32_t* label, int n, cudaStream_t stream);

/// Device memory of count_changed: both words must be 0 before the first call; each call leaves `blocks_done` 0 again.
struct Changed {
  unsigned long long count, blocks_done;
  unsigned long long result;  ///< of the last call
};

/// word->result = the labels that differ from `previous`, then previous = label. One launch: the last block to end
/// hands the count over and clears it.
void count_changed(const int32_t* label, int32_t* previous, int n, Changed* word, cudaStream_t stream);

/// Starts a kernel that measures the SM clock for about 20 microseconds: cycles to out[0], nanoseconds to out[1].
/// Does nothing on the CPU device, which has no such clock.
void measure_clock(unsigned long long* out, cudaStream_t stream);

/// The device's PCI address; empty of the CPU device, which has none.
std::string bus_id(int ordinal);

/// Keeps the device busy for that long, so that what is submitted meanwhile starts without a gap. Does nothing on the
/// CPU device, where a launch is over when it returns.
void keep_busy(double seconds, cudaStream_t stream);

/// While one of these lives, profilers look: cudaProfilerStart, and the NVTX ranges VARIANT and, within it, SCOPE of
/// the domain `ladder`. Does nothing on the CPU device; the ranges are left out where the toolkit has no nvtx3.
class Watched {
 public:
  Watched(const std::string& variant, const std::string& scope);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

}  // namespace ladder::device_helpers
