// The points of `ladder check` that no data set has: those on which a kernel with a common fault gives a wrong result.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "workloads/workloads.hpp"

namespace ladder {

/// One set of special points.
struct SpecialPoints {
  std::string name;  ///< of the workload: "special_equal_centroids"
  std::string kind;  ///< what is special, for the verdict
  std::string type;  ///< f32 or f64
  int64_t n = 0, d = 0;
  int k = 0;
};

/// All of them, in the order in which they are tried: first the small ones.
std::vector<SpecialPoints> all_special_points();

/// Writes points and initial centroids to `folder`: the workload, with two iterations. The points of one name are the
/// same in every run.
Workload special_workload(const SpecialPoints& which, const std::filesystem::path& folder);

}  // namespace ladder
