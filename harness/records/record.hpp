// The record: one JSON document per run (harness/records/record.schema.json), rewritten after every session.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workloads/workloads.hpp"

namespace ladder {

constexpr int record_version = 2;

/// Where and how a run took place: argv, time, git state, host, compiler, and `gpu` (null where there is none).
nlohmann::json context(const std::vector<std::string>& argv, const nlohmann::json& gpu);

/// A workload as the record states it.
nlohmann::json describe(const Workload& workload);

/// Writes to a temporary name beside `file` and renames: there is always a whole record, the old or the new one.
void write_record(const nlohmann::json& record, const std::filesystem::path& file);

/// Throws Error where writing a record to `out` would replace something else than a record: one of `inputs`, which the
/// same command reads, or, unless `force`, any file that is none.
void need_place(const std::filesystem::path& out, const std::vector<std::filesystem::path>& inputs, bool force);

/// Reads a record; throws Error where it is none. One of schema version 1 can still be shown.
nlohmann::json read_record(const std::filesystem::path& file);

/// Why rows measured in the context `is` do not belong in a record made in `was`: another machine, other sources, or
/// one of the two with uncommitted changes. Empty where they do. One of them may have used no GPU at all.
std::string why_not_together(const nlohmann::json& was, const nlohmann::json& is);

/// How the problem `is` differs from `was`, both workloads of one name as `describe` states them; empty if they are
/// the same. Hashes are compared only if both are known.
std::string other_problem(const nlohmann::json& was, const nlohmann::json& is);

/// Puts `more` into the rows of a record, in the place of those with the same keys. Rows that another build of a
/// variant made on the same workload and device go: a record holds one build of each. Returns how many of these.
size_t put_rows(nlohmann::json& rows, std::vector<nlohmann::json> more);

/// Gives each row of several GPUs its `parallel_efficiency`: the time of the same measurement on one GPU by GPUs x
/// time. Null where the record has no such row.
void put_efficiency(nlohmann::json& rows);

/// Puts what came of tuning a variant on a workload into a record, in the place of what it said of them before.
void put_tuning(nlohmann::json& record, nlohmann::json tuning);

}  // namespace ladder
