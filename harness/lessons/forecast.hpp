// How long a rung should take on a GPU, by its lesson and the GPU's data sheet: nothing is run.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "workloads/workloads.hpp"

namespace ladder {

/// One object, the same that `ladder predict ID --json` prints:
///   id, device, gpu, scope    the scope is update for a rung that shows there, else assign
///   sizes                     {"workload", "type", "N", "K", "D", "B", "axes"}
///   predicted                 by counter: {"formula", "value", "unknown"}, of one launch
///   launches                  of the kernel
///   occupancy                 {"percent", "limited_by", "registers", "from"}; null where the registers are not known
///   floors                    [{"by", "amount", "unit", "rate", "from", "ms"}], the largest first: the least time that
///                             each resource needs at its peak
///   unknown                   sentences: which floors could not be computed, and why
///   limiter                   of the largest floor
///   band                      {"low_ms", "high_ms", "how"}; high is null where nothing was measured that tells
///   measured                  [{"device", "scope", "axes", "median_ms", "low", "high", "sessions"}] of this rung and
///                             workload; of a whole iteration where its own scope was not measured
/// `axes` replace the card's standard values. Throws Error where the rung has no lesson, or a name is not known.
nlohmann::json forecast_of(const std::string& id, const Workload& workload, const std::string& device,
                           const std::map<std::string, double>& axes = {});

/// The same for people.
std::string forecast_text(const nlohmann::json& forecast);

}  // namespace ladder
