// JSON that another program wrote, which may hold anything.
#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

namespace ladder {

/// The value; null where the text is no JSON, or values lie more than 8 deep within values. All text in it, names
/// included, is cleaned() and at most 4,000 bytes long.
nlohmann::json foreign_json(std::string_view text);

}  // namespace ladder
