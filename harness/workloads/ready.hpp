// Workloads whose data and initial centroids exist as files.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "workloads/workloads.hpp"

namespace ladder {

/// Makes workloads ready, each when it is asked for first.
class ReadyWorkloads {
 public:
  /// `scratch`: a folder that goes with the run.
  explicit ReadyWorkloads(std::filesystem::path scratch);
  /// As make_ready(), whose errors it throws; what was done to a user's own file is printed.
  const Workload& operator()(const Workload& workload);

 private:
  std::filesystem::path scratch_;
  std::map<std::string, Workload> made_;  // by name
};

}  // namespace ladder
