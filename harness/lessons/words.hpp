// Texts of a JSON document.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace ladder {

/// The text; empty where the value is none.
inline std::string words(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : ""; }

}  // namespace ladder
