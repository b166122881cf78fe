#include "base/foreign.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace ladder {
using nlohmann::json;

namespace {

constexpr int deepest = 8;
constexpr size_t longest = 4000;

constexpr int deepest_in_file = 16;
constexpr size_t most_values = 10'000'000;
constexpr size_t most_bytes = size_t(256) << 20;

/// The line and the column of a byte.
std::string place_in(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const size_t begin = before.rfind('\n') + 1;  // of its line; 0 in the first
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     std::max<size_t>(before.size() - begin, 1));
}

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

json json_of(std::string_view text, const std::filesystem::path& file) {
  size_t values = 0;
  const auto take = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > deepest_in_file)
      throw Error(
          fmt::format("{} holds values more than {} deep within values: no file of the ladder does, name another",
                      file.string(), deepest_in_file));
    if (++values > most_values)
      throw Error(fmt::format("{} holds more than {} values: split it", file.string(), most_values));
    if (value.is_string()) {
      std::string& words = value.get_ref<std::string&>();
      const auto suspect = [](char c) { return c < ' ' || c == 0x7F; };  // char is signed: beyond ASCII too
      if (std::any_of(words.begin(), words.end(), suspect)) {
        std::string kept = cleaned(words);
        if (event == json::parse_event_t::key && kept != words)
          throw Error(fmt::format("{} has a field with control characters in its name: rename it", file.string()));
        words = std::move(kept);
      }
    }
    return true;
  };
  try {
    return json::parse(text, take);
  } catch (const json::parse_error& error) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw Error(fmt::format("{} is empty: name another file, or make it anew", file.string()));
    throw Error(fmt::format("{} is not JSON, or was cut off: see {}", file.string(), place_in(text, error.byte)));
  } catch (const json::exception&) {
    throw Error(
        fmt::format("{} is not JSON that can be read: it holds a number beyond the range of doubles", file.string()));
  }
}

json read_json(const std::filesystem::path& file) { return json_of(read_whole(file, most_bytes), file); }

std::string shown_name(const std::string& name) {
  constexpr size_t most = 60;
  return cleaned(name.substr(0, most)) + (name.size() > most ? "..." : "");
}

std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.is_string() ? "'" + shown_name(value.get_ref<const std::string&>()) + "'" : value.dump();
}

}  // namespace ladder
