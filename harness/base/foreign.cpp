#include "base/foreign.hpp"

#include "base/text.hpp"

namespace ladder {
using nlohmann::json;

namespace {

constexpr int deepest = 8;
constexpr size_t longest = 4000;

void clean(json& value) {
  if (value.is_string()) {
    value = cleaned(std::string_view(value.get_ref<const std::string&>()).substr(0, longest));
  } else if (value.is_array()) {
    for (json& item : value) clean(item);
  } else if (value.is_object()) {
    json named = json::object();
    for (auto& [name, item] : value.items()) {
      clean(item);
      named[cleaned(std::string_view(name).substr(0, longest))] = std::move(item);
    }
    value = std::move(named);
  }
}

}  // namespace

json foreign_json(std::string_view text) {
  bool deep = false;
  // What lies too deep is skipped while it is read, so that no later step has to descend into it.
  const auto shallow = [&](int depth, json::parse_event_t, json&) { return !(deep = deep || depth > deepest); };
  json value = json::parse(text, shallow, false);
  if (deep || value.is_discarded()) return nullptr;
  clean(value);
  return value;
}

}  // namespace ladder
