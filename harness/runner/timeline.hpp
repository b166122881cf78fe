// Timelines: what ran when on a GPU, of one sample of each scope, through a library of CUPTI that the driver loads into
// the worker.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/session.hpp"

namespace ladder {

/// The library beside this program, harness/worker/timeline.cpp; empty where it was not built.
std::filesystem::path timeline_library();

struct Traced {
  std::string status;                     ///< ok, refused, invalid or failed
  std::string reason;                     ///< why not ok
  std::vector<nlohmann::json> timelines;  ///< one, of the scope that was asked for
};

/// One sample of options.scopes[0], after one to warm up, on a workload that is ready: of `samples`, each in a process
/// of its own, the one of median length. The events are those of harness/worker/timeline.cpp.
Traced trace_sessions(const Variant& variant, const Workload& workload, const RunOptions& options, int samples,
                      const std::filesystem::path& scratch, Progress& progress);

/// A file of timelines; an empty one where it does not exist. Throws Error where it is none.
nlohmann::json read_timelines(const std::filesystem::path& file);

/// The file of timelines with these in place of those of the same variant, workload and scope. Throws Error where the
/// file is there and holds something else.
void merge_into_timelines(const std::filesystem::path& file, const std::vector<nlohmann::json>& timelines);

/// For people: of each stream how long it was busy, and its longest gap.
std::string timeline_text(const nlohmann::json& timeline);

}  // namespace ladder
