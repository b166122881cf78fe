// What this device can do at most, measured: every row is held against it. A few seconds in all.
#pragma once
#include <nlohmann/json.hpp>

#include "contract/problem.hpp"

namespace ladder {

/// The ceilings of a device, null where it has none such:
///   copy_gbs, read_gbs                    its memory: bytes read and written by a copy, bytes of a read alone
///   fp32_gflops, fp64_gflops              multiply-adds in registers, two operations each
///   pinned_h2d_gbs, pinned_d2h_gbs,
///   pageable_h2d_gbs, pageable_d2h_gbs    the way to host memory and back
///   empty_event_us                        between two events with nothing between them
///   empty_launch_us                       of a kernel that does nothing, on a device kept busy
///   l2_bytes                              its last cache: data that fits may never come from memory
/// For DeviceKind::cpu the host's cores and memory, the best of all cores together. Each is the best of several.
nlohmann::json measure_gpu_ceilings(int ordinal);
nlohmann::json measure_cpu_ceilings();

}  // namespace ladder
