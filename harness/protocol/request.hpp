// What a run asks of a worker: one session, one variant on one problem on one device.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "protocol/json.hpp"

namespace ladder {

struct Request {
  std::string variant, workload;
  std::string module;  ///< the variant's file: a .so, or a .py of a peer
  DeviceKind device = DeviceKind::cpu;
  std::vector<int> ordinals;      ///< which GPUs, those of each rank one after another; its first is current
  int ranks = 1;                  ///< processes that share the work; rank 0 reports
  std::string points, centroids;  ///< .npy files, n x d and k x d, of the element type
  std::string csr;                ///< stem of .row_begin.npy, .column.npy and .value.npy; empty: dense only
  std::string type;               ///< f32 or f64
  Stop stop;
  Metric metric = Metric::euclidean;
  Kernel kernel;
  uint64_t seed = 1;  ///< of what `initialise` draws
  std::vector<std::string> scopes;
  std::map<std::string, int> axes;
  std::string judge = "inside";    ///< in the process that runs the variant, or `apart` from it
  double time_limit = 300;         ///< seconds; the parent kills the session after it
  double warm_up_seconds = 1;      ///< at a scope's own load before its first sample, on a GPU
  double sustained_seconds = 0;    ///< of load right before each batch of samples, for kernels that a power limit slows
  double min_seconds = 0.5;        ///< wall time of sampling per scope, at least
  double max_seconds = 10;         ///< wall time of sampling per scope, at most
  double validation_budget = 2e9;  ///< fp64 multiply-adds spent on checking labels, per check
  bool all_labels = false;         ///< check every label that a solve hands out, whatever the budget
  bool cold = false;               ///< evict L2 before every sample
  bool check_only = false;         ///< validate, time nothing
  bool profile = false;            ///< one sample per scope, while a profiler looks
  std::string dump;                ///< folder for labels.npy and its companions; empty: none
  std::string validated;           ///< folder where the session leaves its validated solve for cold starts; empty: none
  double begun = 0;                ///< not 0: a cold start, for which the run asked at this time (now_seconds())
  std::vector<std::string> benchmark_flags;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, variant, workload, module, device, ordinals, ranks, points, centroids, csr,
                                   type, stop, metric, kernel, seed, scopes, axes, judge, time_limit, warm_up_seconds,
                                   sustained_seconds, min_seconds, max_seconds, validation_budget, all_labels, cold,
                                   check_only, profile, dump, validated, begun, benchmark_flags)

}  // namespace ladder
