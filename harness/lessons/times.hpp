// Measured times of rungs on GPUs, from the committed records.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

/// The time of a rung in a scope on a workload: of several sessions the median of their medians. With five of them or
/// more its 95 % interval, by Student's t of the logarithms.
struct MeasuredTime {
  std::string variant, device, workload, scope;
  std::map<std::string, double> axes;
  double median_ms = 0;
  std::optional<double> low, high;
  int sessions = 1;
};

/// A rung over its base in sessions that took turns; above 1 is faster.
struct MeasuredGain {
  std::string variant, base, device, workload, scope;
  double ratio = 1, low = 1, high = 1;
  int sessions = 0;
  std::string verdict;
};

struct Measured {
  std::vector<MeasuredTime> times;
  std::vector<MeasuredGain> gains;
};

/// All of results/*/comparisons*.json, and record.json, valid rows of one GPU alone. Of a row that
/// several of them have of one GPU the first of these counts. Of other GPUs than that of record.json, rungs are left
/// out that this one has measured from another text since: what they say is of an earlier one.
const Measured& measured();

}  // namespace ladder
