// Which rows of records can be held against each other, and what comes of it: SAME, FASTER, SLOWER or UNSURE, for each
// pair. base/statistics.hpp says by which method.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"

namespace ladder {

/// One pair of rows: a candidate's times against a base's.
struct RowComparison {
  std::string base, candidate;  ///< variants; the same one where two records are compared
  std::string workload, device, scope;
  nlohmann::json axes;  ///< of the candidate
  std::string cache;
  Comparison result;
  double base_ms = 0, candidate_ms = 0;
  int base_sessions = 0, candidate_sessions = 0;
  bool interleaved = false;  ///< by compare_interleaved; else apart, with this scatter between sessions:
  double scatter = 0;
  bool assumed = false;  ///< no rows tell that scatter: the interval is not measured, and the table has none
  std::optional<uint32_t> order_seed = {};  ///< of the order of the sessions, where they took turns
};
void to_json(nlohmann::json& j, const RowComparison& row);

struct Comparisons {
  std::vector<RowComparison> rows;
  std::vector<std::string> left_out;  ///< what could not be compared, in sentences
  std::vector<std::string> scatters;  ///< which scatter between sessions was taken, and from what, in sentences
};

/// Which rows are looked at; null: all.
using RowFilter = std::function<bool(const nlohmann::json& row)>;

/// Rows of `candidate` against the rows of `base` that are of the same: variant, workload (its data, K, type, stop
/// rule), device, scope, axes, cache and whatever else sets a measurement; not of the same code, nor machine.
Comparisons compare_records(const nlohmann::json& base, const nlohmann::json& candidate, const RowFilter& filter = {},
                            double margin = standard_margin);

/// Within one record, each row against the one that differs in the variant alone; of sessions in turns, against those
/// that it took turns with. `base_of` names the variant to hold a row's against; empty: the row is no candidate.
Comparisons compare_variants(const nlohmann::json& record,
                             const std::function<std::string(const nlohmann::json& row)>& base_of,
                             const RowFilter& filter = {}, double margin = standard_margin);

/// Two rows with times of one run, a session each: apart, with the scatter that is assumed for rows like these.
Comparison compare_rows(const nlohmann::json& base, const nlohmann::json& candidate, double margin = standard_margin);

/// What differs between the machines, or the builds, of two records: "gpu: NVIDIA A, now NVIDIA B", ...
std::vector<std::string> machine_differences(const nlohmann::json& base_context,
                                             const nlohmann::json& candidate_context);

/// For people: a line per pair, then how many came out how.
std::string table(const Comparisons& comparisons);

}  // namespace ladder
