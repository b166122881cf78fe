// What a device can do at most, as its worker measured it: `WORKER ceilings ORDINAL|cpu` prints one of these as JSON.
#pragma once
#include <cstdint>
#include <optional>

#include "protocol/json.hpp"

namespace ladder {

/// GB/s are 10^9 bytes, GFLOP/s 10^9 operations a second, a multiply-add being two. What was not measured is absent.
struct Ceilings {
  std::optional<double> copy_gbs, read_gbs;        ///< of the device's memory; a copy counts each byte twice
  std::optional<double> fp32_gflops, fp64_gflops;  ///< multiply-adds in registers
  std::optional<double> tensor_gflops;             ///< the fastest matrix product of floats
  /// Matrix products of these operands, by the library that the vendor tuned for them, on values that cost little
  /// power. A kernel may be faster than that library by some percent.
  std::optional<double> tensor_fp16_gflops, tensor_tf32_gflops, tensor_int8_gflops, tensor_fp64_gflops;
  std::optional<double> pinned_h2d_gbs, pinned_d2h_gbs, pageable_h2d_gbs, pageable_d2h_gbs;
  std::optional<double> empty_event_us;   ///< between two events with nothing between them
  std::optional<double> empty_launch_us;  ///< between two events with an empty kernel between them
  std::optional<int64_t> l2_bytes;        ///< the cache that all multiprocessors, or cores, share
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Ceilings, copy_gbs, read_gbs, fp32_gflops, fp64_gflops, tensor_gflops,
                                                tensor_fp16_gflops, tensor_tf32_gflops, tensor_int8_gflops,
                                                tensor_fp64_gflops, pinned_h2d_gbs, pinned_d2h_gbs, pageable_h2d_gbs,
                                                pageable_d2h_gbs, empty_event_us, empty_launch_us, l2_bytes)

}  // namespace ladder
