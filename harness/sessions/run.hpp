// Running a ladder: a plan of sessions, each in a child process, and the record that grows with them.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "sessions/session.hpp"

namespace ladder {

/// How these options measure a variant on a kind of device.
Setting setting_of(const Variant& variant, DeviceKind kind, const RunOptions& options);

/// What the devices can do at most: measured, or known from before, and noted in the record's `context`.
std::map<DeviceKind, Limits> limits_of(const RunOptions& options, const std::vector<DeviceKind>& kinds,
                                       nlohmann::json& context, Progress& progress);

/// Runs every variant on every workload on those of `kinds` that it is for. Returns the exit status: 0 where all rows
/// are ok, refused or unstable; 1 where one is invalid or failed; 130 after Ctrl-C. The record is in options.out.
int run_ladder(const RunOptions& options, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads);

}  // namespace ladder
