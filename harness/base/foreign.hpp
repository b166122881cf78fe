// JSON that another program wrote, which may hold anything.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ladder {

/// The value; null where the text is no JSON, or values lie more than 8 deep within values. All text in it, names
/// included, is cleaned() and at most 4,000 bytes long.
nlohmann::json foreign_json(std::string_view text);

/// The JSON in a file, all text in it cleaned(). Throws Error, which names the file and says what is wrong and where,
/// if it cannot be read, is no JSON, has values more than 16 deep within values, more than ten million of them, or more
/// than 256 MiB.
nlohmann::json read_json(const std::filesystem::path& file);

/// The same of what a file was found to hold.
nlohmann::json json_of(std::string_view text, const std::filesystem::path& file);

/// A value in a sentence, and a name in a path of fields: short, whatever it is.
std::string shown(const nlohmann::json& value);
std::string shown_name(const std::string& name);

}  // namespace ladder
