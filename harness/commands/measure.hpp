// What the commands that measure (run, tune) are told alike: on what, on which devices, and how.
#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runner/session.hpp"
#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

/// The options as they are written, before any of them is looked at.
struct MeasureWords {
  RunOptions options;
  std::string device = "auto", workloads = "*_tiny", stop_text, type, own_data, init, metric = "euclidean",
              kernel = "none";
  std::vector<std::string> axes, folders;
  std::filesystem::path tuned;  ///< empty: the checkout's
  int k = 0;
  uint64_t seed = 1;
};

/// Devices, time limits, samples, axes, folders.
void add_measure_options(CLI::App& command, MeasureWords& words);
/// Points of one's own, instead of those that the option `workloads` chooses.
void add_data_options(CLI::App& command, MeasureWords& words, CLI::Option* workloads);

/// The devices to run on; the GPU among them goes into the options.
std::vector<DeviceKind> find_kinds(MeasureWords& words);
/// The problems to solve.
std::vector<Workload> find_problems(MeasureWords& words);
/// Throws Error where no chosen variant has an axis, or none takes the value.
void require_axes(const std::map<std::string, int>& wishes, const std::vector<Variant>& variants);
/// NAME=VALUE as values of axes.
std::map<std::string, int> axis_values(const std::vector<std::string>& wishes);
/// A record in results/local, by its kind, the time and this process.
std::filesystem::path new_record(const std::string& kind);
/// The file of tuned values that is meant.
std::filesystem::path tuned_file(const MeasureWords& words);
/// Points of one's own that every variant refused have no result: throws Error. The record has all reasons.
void need_one_that_ran(const Workload& workload, const nlohmann::json& rows);

}  // namespace ladder
