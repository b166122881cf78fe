// What a problem asks for at least, what a device can do at most, and what follows: how near a time is to the best that
// there can be, and whether it is possible at all.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "protocol/ceilings.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

/// The least that any method must do in a scope, from the problem alone: 2 K operations for each stored coordinate, one
/// for the sums; points read once, labels written once, centroids read or written once. Points that are mostly zero
/// count as their stored coordinates, each with a byte that says where it is. An `initialise` and a `cold_start` have
/// no such least.
struct Work {
  double flop = 0;
  double bytes = 0;  ///< to and from the device's memory; of upload and download: over the link
};
Work minimum_of(const std::string& scope, const Workload& workload, int iterations);

/// The device that a row was measured on.
struct Limits {
  Ceilings ceilings;
  double kept_bytes = 0;  ///< what its caches, registers and shared memory hold together: what need not be read again
  int gpus = 1;
  Ceilings host = {};  ///< of simt: those of the CPU that it runs on; elsewhere nothing
};

/// A row's place under the roof. The names are the record's.
struct Roofline {
  double flop = 0, bytes = 0;           ///< of minimum_of
  std::optional<double> gflops, gbs;    ///< those by the row's median
  std::optional<double> floor_ms;       ///< the least time on this device
  std::optional<std::string> bound_by;  ///< what makes it so: flop, bytes (of the device's memory) or link
  std::optional<std::string> roof_of;  ///< where that is flop: the arithmetic whose rate it is (fp32, fp64, fp16, tf32,
                                       ///< int8, or `fastest` of a card that does not say which)
  std::optional<double> roof_percent;  ///< floor_ms by the median, where every rate that may bound the work is known
  bool launch_bound = false;           ///< below ten times what two events measure with nothing between them
  std::optional<double> least_ms;      ///< below it nothing can be: of any encoding of the points, and with no rate of
                                       ///< a library, which a kernel may exceed. Not in the record
  std::string least_by;                ///< as bound_by
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Roofline, flop, bytes, gflops, gbs, floor_ms, bound_by, roof_of, roof_percent,
                                   launch_bound)

/// `card` is the variant's: one that prunes need not look at every distance, one that rounds its points moves fewer
/// bytes and may use tensor cores. `median_ms` may be absent.
Roofline roofline_of(const std::string& scope, const Workload& workload, const nlohmann::json& card, int iterations,
                     std::optional<double> median_ms, const Limits& limits);

/// Why a time of `median_ms`, with which the roofline was made, cannot be, in a sentence; empty where it can. Two in a
/// hundred are left to a GPU's clock, two in three to a CPU's.
std::string too_fast(const Roofline& roofline, double median_ms, const Limits& limits, DeviceKind device);

}  // namespace ladder
