// What Nsight Compute counted of a rung, as the committed profiles (results/*/profile*.json) have it, and what that
// says of the limit.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

/// The kernel that takes most of the time of a rung in one scope, on one workload.
struct Counted {
  std::string device;  ///< "NVIDIA H200"
  std::string workload, type, scope, kernel;
  double n = 0, k = 0, d = 0;
  std::map<std::string, double> axes;
  double threads = 0;                                  ///< per block
  int launches = 1;                                    ///< of that kernel; `metrics` are of one launch
  std::map<std::string, double> metrics;               ///< by records/metrics.hpp's names, those that have a number
  std::vector<std::pair<std::string, double>> stalls;  ///< why its warps wait, and the share; the largest first
  std::vector<std::string> limited_by;                 ///< what limits the blocks on a multiprocessor
  double bytes_per_value() const { return type == "f64" ? 8 : 4; }
};

/// All that the committed profiles have of a rung, under its id of today or an earlier one. They are read once.
const std::vector<Counted>& counted_of(const std::string& id);

/// The one to explain a rung by that shows in `scope`: of its assignment where nothing was counted in that scope, and
/// of several workloads on the first of `prefer`, then on the largest. Null where there is none.
const Counted* lesson_among(const std::vector<Counted>& all, const std::string& scope,
                            const std::vector<std::string>& prefer = {});

/// Ratios that follow from counters of an assignment that is one launch, by name with their formulas
/// (lessons/formula.hpp): loads per warp's multiply-add, reads of the points from DRAM, FLOP per byte of DRAM.
const std::vector<std::pair<std::string, std::string>>& derived_ratios();

/// N, K, D, B (bytes per value) and the axes: the sizes that a formula of a lesson may name.
std::map<std::string, double> sizes_of(const Counted& counted);

/// `metrics`, counted or predicted at these sizes, and the ratios that follow from those that are there.
std::map<std::string, double> with_ratios(const Counted& sizes, const std::map<std::string, double>& metrics);

struct Limit {
  std::string by;      ///< device memory, L2, L1, tensor cores, multiprocessor; latency where none of them is busy
  double percent = 0;  ///< of what that can do; of latency the busiest unit's
  std::string text;    ///< a sentence, with what its warps wait for
};

/// Device memory from 80 % of its peak on; else the busiest unit from 75 % of its peak on, of the multiprocessor its
/// tensor cores if these are busy for 60 % of the time. Below that no unit is the limit: its warps wait.
Limit limit_of(const Counted& counted);

}  // namespace ladder
