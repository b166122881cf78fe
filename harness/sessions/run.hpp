// Running a ladder: a plan of sessions, each in a child process, and the record that grows with them.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalogue/variants.hpp"
#include "catalogue/workloads.hpp"
#include "protocol/scopes.hpp"

namespace ladder {

struct RunOptions {
  std::vector<std::string> argv;  ///< for the record
  std::vector<std::string> scopes = standard_scopes();
  std::map<std::string, int> axes;
  double time_limit = 300;  ///< seconds per session
  double min_seconds = 0.5, max_seconds = 10;
  double validation_budget = 2e9;
  bool cold = false;
  bool resume = false;
  bool insist = false;  ///< a workload that cannot run is an Error, instead of being left out
  int ordinal = 0;      ///< which GPU
  nlohmann::json gpu;   ///< what it is, for the record; null where none is used
  std::filesystem::path out, dump;
  std::vector<std::string> benchmark_flags;
};

/// The devices of this machine: {"kind", "ordinal", "name", ...}; cpu and simt always, cuda where a GPU works.
nlohmann::json find_devices();

/// One line that says why no GPU can be used here.
std::string why_no_gpu();

/// Does the text match the pattern of * and ?, as a shell would have it?
bool matches(const std::string& pattern, const std::string& text);

/// Runs every variant on every workload on those of `kinds` that it is for. Returns the exit status: 0 where all rows
/// are ok, refused or unstable; 1 where one is invalid or failed; 130 after Ctrl-C. The record is in options.out.
int run_ladder(const RunOptions& options, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads);

}  // namespace ladder
