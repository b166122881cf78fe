// What a JSON document must hold: as much of the JSON Schema language as the files *.schema.json use. They are compiled
// into the program, so that a reader and its schema cannot differ.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ladder {

class Schema {
 public:
  /// Throws Error where `text` uses a keyword that this does not know.
  explicit Schema(std::string_view text);
  ~Schema();

  /// The first violation, as "field PATH: WHAT IS WRONG"; none where the document holds. Fields that the schema does
  /// not name are let through: a later version may have more.
  std::optional<std::string> violation(const nlohmann::json& document) const;

  /// Throws Error, "FILE: field PATH: WHAT IS WRONG: REMEDY", where the document of that file does not hold.
  void need(const nlohmann::json& document, const std::filesystem::path& file, const std::string& remedy) const;

 private:
  struct Rules;
  class Reader;
  std::vector<std::unique_ptr<Rules>> all_;
  const Rules* root_ = nullptr;
};

/// The schema in the file NAME.schema.json of the harness.
const Schema& schema_named(const std::string& name);

}  // namespace ladder
