// What the harness itself does on the device: the same for every variant, so that variants stay bare.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "contract/contract.hpp"

namespace ladder::stock {

/// Makes n labels on the device invalid (-1): a variant that leaves one unwritten is found out.
void poison_labels(int32_t* label, int n, cudaStream_t stream);

/// Adds to *changed (device memory, zeroed here) the labels that differ from `previous`, then previous = label.
void count_changed(const int32_t* label, int32_t* previous, int n, unsigned long long* changed, cudaStream_t stream);

/// Starts a kernel that measures the SM clock for about 50 microseconds: cycles to out[0], nanoseconds to out[1].
/// Does nothing on the CPU device, which has no such clock.
void measure_clock(unsigned long long* out, cudaStream_t stream);

}  // namespace ladder::stock
