// Variants that had other ids when a record was made: results/renamed.json, read wherever a record is read.
//
//   {"renamed": {"old id": "today's id"}, "retired": {"old id": "a sentence that says what became of it"}}
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ladder {

struct Renamed {
  std::map<std::string, std::string> renamed;  ///< today's id by old id
  std::map<std::string, std::string> retired;  ///< sentence by old id; the id stays in records
};

/// Both tables, empty if `file` does not exist. Throws Error if it is not such a document.
Renamed read_renamed(const std::filesystem::path& file);
/// Those of the checkout.
const Renamed& renamed_variants();

/// Gives the variants and bases of a record's rows, comparisons and sweeps today's ids.
void use_todays_ids(nlohmann::json& record, const Renamed& table);

/// A sentence for each retired variant that has a row in the record, in order of their ids.
std::vector<std::string> retired_in(const nlohmann::json& record, const Renamed& table);

}  // namespace ladder
