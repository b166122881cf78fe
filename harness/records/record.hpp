// The record: one JSON document per run (harness/records/record.schema.json), rewritten after every session.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalogue/workloads.hpp"

namespace ladder {

/// Where and how a run took place: argv, time, git state, host, compiler, and `gpu` (null where there is none).
nlohmann::json context(const std::vector<std::string>& argv, const nlohmann::json& gpu);

/// A workload as the record states it.
nlohmann::json describe(const Workload& workload);

/// The least that any method must do in a scope, from the sizes alone. flop: 2 N K D for the distances, N D for the
/// sums. bytes: points read once, labels written once, centroids read or written once.
struct Minimum {
  double flop = 0, bytes = 0;
};
Minimum minimum_of(const std::string& scope, const Workload& workload, int iterations);

/// Writes to a temporary name beside `file` and renames: there is always a whole record, the old or the new one.
void write_record(const nlohmann::json& record, const std::filesystem::path& file);

/// Reads a record; throws Error where it is none.
nlohmann::json read_record(const std::filesystem::path& file);

/// A short table: a line per workload and variant, the medians of each scope, or why there is none.
std::string table(const nlohmann::json& record);

}  // namespace ladder
