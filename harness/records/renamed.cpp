#include "records/renamed.hpp"

#include <fmt/format.h>

#include <set>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "formats/schema.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

Renamed read_renamed(const fs::path& file) {
  if (!fs::exists(file)) return {};
  const json document = read_json(file);
  schema_named("renamed").need(document, file, "mend it, or check it out again");
  return {.renamed = document.at("renamed"), .retired = document.at("retired")};
}

const Renamed& renamed_variants() {
  static const Renamed table = read_renamed(source_folder() / "results" / "renamed.json");
  return table;
}

void use_todays_ids(json& record, const Renamed& table) {
  const auto rename = [&](json& item, const char* field) {
    if (!item.is_object() || !item.contains(field) || !item[field].is_string()) return;
    const auto found = table.renamed.find(item[field].get<std::string>());
    if (found != table.renamed.end()) item[field] = found->second;
  };
  const auto items = [&](const char* list) -> json& {
    static json none = json::array();
    return record.contains(list) && record[list].is_array() ? record[list] : none;
  };
  for (json& row : items("rows")) {
    // A key begins with the variant's id and a colon.
    if (row.is_object() && row.contains("key") && row["key"].is_string()) {
      const std::string key = row["key"];
      const auto found = table.renamed.find(key.substr(0, key.find(':')));
      if (found != table.renamed.end()) row["key"] = found->second + key.substr(std::min(key.find(':'), key.size()));
    }
    rename(row, "variant");
    rename(row, "base");
  }
  for (json& comparison : items("comparisons")) rename(comparison, "base"), rename(comparison, "candidate");
  for (json& sweep : items("tuning")) rename(sweep, "variant");
}

std::vector<std::string> retired_in(const json& record, const Renamed& table) {
  std::set<std::string> ids;
  for (const json& row : record.at("rows")) ids.insert(row.at("variant"));
  std::vector<std::string> sentences;
  for (const std::string& id : ids) {
    if (const auto found = table.retired.find(id); found != table.retired.end())
      sentences.push_back(fmt::format("{} is no variant today: {}", id, found->second));
  }
  return sentences;
}

}  // namespace ladder
