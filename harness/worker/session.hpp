// One session: one variant on one problem on one device, in a process of its own. It validates, times, validates
// again, and reports as it goes; what it does not live to report, the parent fills in.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/contract.hpp"

namespace ladder {

/// What the parent asks for; it arrives as JSON, from runner.cpp.
struct Request {
  std::string variant, workload, module;
  DeviceKind device = DeviceKind::cpu;
  int ordinal = 0;                ///< which GPU
  std::string points, centroids;  ///< .npy files, n x d and k x d, of the element type
  std::string type;               ///< f32 or f64
  Stop stop;
  std::vector<std::string> scopes;
  std::map<std::string, int> axes;
  double time_limit = 300;         ///< seconds; the parent kills the session after it
  double min_seconds = 0.5;        ///< of samples per scope
  double max_seconds = 10;         ///< of wall clock per scope
  double validation_budget = 2e9;  ///< fp64 multiply-adds spent on checking labels, per check
  bool cold = false;               ///< evict L2 before every sample
  std::string dump;                ///< folder for labels.npy and its companions; empty: none
  std::vector<std::string> benchmark_flags;
};
void from_json(const nlohmann::json& j, Request& r);

/// Reports: {"event": "scope" | "row" | "refused" | "result", ...}, each whole when it is sent.
using Report = std::function<void(const nlohmann::json&)>;

/// Runs a session on `device`. What goes wrong is thrown as an Error.
void run_session(const Request& request, const Device& device, const Report& report);

}  // namespace ladder
