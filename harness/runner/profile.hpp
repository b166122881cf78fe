// Profiling: a session whose worker runs under Nsight Compute (ncu), and what ncu counted of one sample per scope.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runner/session.hpp"

namespace ladder {

/// ncu cannot read counters here, whatever is profiled. A sentence with the remedy.
struct NoCounters : Error {
  using Error::Error;
};

/// Nsight Compute on this machine.
struct Ncu {
  std::filesystem::path program;
  std::string version;  ///< 2025.3.1.0
};

/// LADDER_NCU, else `ncu` of the PATH, else where NVIDIA's packages put it.
std::optional<Ncu> find_ncu();
/// What to do where there is none.
std::string how_to_get_ncu();

/// What ncu's own words mean where it cannot read counters: a sentence with the remedy; empty where they say nothing of
/// the kind.
std::string why_no_counters(const std::string& words);

/// Names of metrics that ncu knows on the GPU of this number, without what follows the dot; empty where it does not
/// say.
std::vector<std::string> known_metrics(const Ncu& ncu, int ordinal);

struct ProfileOptions {
  RunOptions run;
  Ncu ncu;
  bool full = true;                  ///< all that ncu can count, with the source; else what the lessons need
  int launches = 40;                 ///< the most kernel launches per scope
  std::vector<std::string> metrics;  ///< ncu's names, to be asked for beside its sections
  std::filesystem::path reports;     ///< folder for the .ncu-rep files
};

/// The scopes to be profiled of a variant: those that were asked for, else a scope for each of its phases with kernels,
/// and the solve where its change shows there.
std::vector<std::string> scopes_to_profile(const Variant& variant, const RunOptions& options);

struct Profiled {
  std::string status;                    ///< ok, refused, invalid or failed
  std::string reason;                    ///< why not ok
  std::vector<nlohmann::json> profiles;  ///< one per scope that the variant has
};

/// Profiles a variant on a workload that is ready. Throws NoCounters.
Profiled profile_session(const Variant& variant, const Workload& workload, const ProfileOptions& options,
                         const std::filesystem::path& scratch, Progress& progress);

}  // namespace ladder
