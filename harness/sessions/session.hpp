// One session: a request to a worker, and the rows that come of what it reports or of how it ended.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalogue/variants.hpp"
#include "catalogue/workloads.hpp"
#include "protocol/scopes.hpp"
#include "sessions/progress.hpp"

namespace ladder {

struct RunOptions {
  std::vector<std::string> argv;  ///< for the record
  std::vector<std::string> scopes = scope_names();
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

/// Runs one variant on one workload, which is ready, on one kind of device. `scratch` holds what passes between the
/// processes; `dump`, where it is not empty, what the worker leaves of its solution. One row per scope, in order.
std::vector<nlohmann::json> rows_of_session(const Variant& variant, const Workload& workload, DeviceKind kind,
                                            const RunOptions& options, const std::filesystem::path& scratch,
                                            const std::filesystem::path& dump, Progress& progress);

/// A session's rows in a line for people.
std::string summary(const std::vector<nlohmann::json>& rows);

}  // namespace ladder
