#include "formats/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <set>

#include "base/error.hpp"
#include "base/foreign.hpp"

namespace ladder {
using nlohmann::json;

std::string_view schema_text(const std::string& name);  // schemas.cpp, which CMake makes

/// What one place of a schema asks for; what it does not ask for is empty.
struct Schema::Rules {
  std::vector<std::string> types;
  json values;  ///< of `enum` and `const`: a list
  std::optional<double> minimum, above, maximum;
  size_t min_items = 0, max_items = SIZE_MAX, min_length = 0, min_properties = 0;
  bool unique = false;
  std::string pattern;
  std::regex matches;
  std::vector<std::string> required;
  std::map<std::string, const Rules*> properties;
  const Rules *items = nullptr, *other_properties = nullptr, *same_as = nullptr;
  const Rules *when = nullptr, *then = nullptr, *otherwise = nullptr;
  std::vector<const Rules*> one_of, all_of;
};

namespace {

// A regular expression of the standard library descends once for each character.
constexpr size_t longest_matched = 1000;

bool is_whole(const json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return std::abs(number) <= 9007199254740992.0 && number == std::floor(number);
}

bool is_of(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return is_whole(value);
  return type == "array" ? value.is_array() : value.is_object();
}

std::string words_for(const std::string& type) {
  if (type == "null") return "null";
  if (type == "boolean") return "true or false";
  if (type == "string") return "text";
  if (type == "number") return "a number";
  if (type == "integer") return "a whole number";
  return type == "array" ? "a list" : "an object";
}

/// Where a rule is broken, from the outermost field to the innermost, and how.
struct Broken {
  std::string path, what;
};

std::optional<Broken> broken(std::string what) { return Broken{"", std::move(what)}; }

std::optional<Broken> below(const std::string& step, std::optional<Broken> found) {
  if (found) found->path = step + (found->path.empty() || found->path[0] == '[' ? "" : ".") + found->path;
  return found;
}

}  // namespace

/// Compiles the text of a schema.
class Schema::Reader {
 public:
  Reader(const json& whole, std::vector<std::unique_ptr<Rules>>& all) : whole_(whole), all_(all) {}

  const Rules* rules(const json& from) {
    Rules& r = *all_.emplace_back(std::make_unique<Rules>());
    for (const auto& [key, value] : from.items()) take(r, key, value);
    return &r;
  }

 private:
  std::vector<const Rules*> list(const json& from) {
    std::vector<const Rules*> all;
    for (const json& one : from) all.push_back(rules(one));
    return all;
  }

  void take(Rules& r, const std::string& key, const json& value) {
    static const std::set<std::string> remarks = {"$schema", "$defs", "title", "description"};
    if (remarks.count(key)) return;
    const std::map<std::string, std::function<void()>> known = {
        {"type",
         [&] { r.types = value.is_array() ? value.get<std::vector<std::string>>() : std::vector<std::string>{value}; }},
        {"enum", [&] { r.values = value; }},
        {"const", [&] { r.values = json::array({value}); }},
        {"minimum", [&] { r.minimum = value; }},
        {"exclusiveMinimum", [&] { r.above = value; }},
        {"maximum", [&] { r.maximum = value; }},
        {"minItems", [&] { r.min_items = value; }},
        {"maxItems", [&] { r.max_items = value; }},
        {"minLength", [&] { r.min_length = value; }},
        {"minProperties", [&] { r.min_properties = value; }},
        {"uniqueItems", [&] { r.unique = value; }},
        {"pattern", [&] { r.pattern = value, r.matches = std::regex(r.pattern); }},
        {"required", [&] { r.required = value; }},
        {"items", [&] { r.items = rules(value); }},
        {"oneOf", [&] { r.one_of = list(value); }},
        {"allOf", [&] { r.all_of = list(value); }},
        {"if", [&] { r.when = rules(value); }},
        {"then", [&] { r.then = rules(value); }},
        {"else", [&] { r.otherwise = rules(value); }},
        {"$ref", [&] { r.same_as = defined(value); }},
        {"additionalProperties",
         [&] {
           if (value.is_object()) r.other_properties = rules(value);
         }},
        {"properties",
         [&] {
           for (const auto& [name, one] : value.items()) r.properties[name] = rules(one);
         }},
    };
    const auto found = known.find(key);
    if (found == known.end()) throw Error(fmt::format("no reader knows the keyword '{}' of this schema", key));
    found->second();
  }

  const Rules* defined(const std::string& reference) {
    const auto known = defined_.find(reference);
    if (known != defined_.end()) return known->second;
    return defined_[reference] = rules(whole_.at(json::json_pointer(reference.substr(1))));  // without the '#'
  }

  const json& whole_;
  std::vector<std::unique_ptr<Rules>>& all_;
  std::map<std::string, const Rules*> defined_;
};

namespace {

template <class Rules>
std::optional<Broken> check(const Rules& r, const json& value);

template <class Rules>
std::optional<Broken> check_alone(const Rules& r, const json& value) {
  const auto fits = [&](const std::string& type) { return is_of(value, type); };
  if (!r.types.empty() && std::none_of(r.types.begin(), r.types.end(), fits)) {
    std::string wanted;
    for (const std::string& type : r.types) wanted += (wanted.empty() ? "" : " or ") + words_for(type);
    return broken(fmt::format("{}, where {} is needed", shown(value), wanted));
  }
  if (!r.values.is_null() && std::find(r.values.begin(), r.values.end(), value) == r.values.end()) {
    std::string wanted;
    for (const json& one : r.values) wanted += (wanted.empty() ? "" : ", ") + one.dump();
    return broken(fmt::format("{}, where {}{} is needed", shown(value), r.values.size() > 1 ? "one of " : "", wanted));
  }
  if (value.is_number()) {
    const double number = value.template get<double>();
    if (r.minimum && !(number >= *r.minimum))
      return broken(fmt::format("{}, where at least {} is needed", shown(value), *r.minimum));
    if (r.above && !(number > *r.above))
      return broken(fmt::format("{}, where more than {} is needed", shown(value), *r.above));
    if (r.maximum && !(number <= *r.maximum))
      return broken(fmt::format("{}, where at most {} is possible", shown(value), *r.maximum));
  } else if (value.is_string()) {
    const std::string& text = value.template get_ref<const std::string&>();
    if (text.size() < r.min_length) return broken("an empty text, where one is needed");
    if (!r.pattern.empty() && text.size() > longest_matched)
      return broken(fmt::format("a text of {} bytes, where at most {} are possible", text.size(), longest_matched));
    if (!r.pattern.empty() && !std::regex_search(text, r.matches))
      return broken(fmt::format("{}, which does not match {}", shown(value), r.pattern));
  }
  return std::nullopt;
}

template <class Rules>
std::optional<Broken> check_items(const Rules& r, const json& value) {
  if (value.size() < r.min_items)
    return broken(fmt::format("a list of {}, where at least {} are needed", value.size(), r.min_items));
  if (value.size() > r.max_items)
    return broken(fmt::format("a list of {}, where at most {} are possible", value.size(), r.max_items));
  if (r.unique && std::set<json>(value.begin(), value.end()).size() < value.size())
    return broken("a list with an item that is there twice");
  if (!r.items) return std::nullopt;
  for (size_t i = 0; i < value.size(); ++i) {
    if (auto found = check(*r.items, value[i])) return below(fmt::format("[{}]", i), std::move(found));
  }
  return std::nullopt;
}

template <class Rules>
std::optional<Broken> check_properties(const Rules& r, const json& value) {
  for (const std::string& name : r.required) {
    if (!value.contains(name)) return below(name, broken("it is missing"));
  }
  if (value.size() < r.min_properties) return broken("an empty object, where one with fields is needed");
  if (r.properties.empty() && !r.other_properties) return std::nullopt;
  for (auto item = value.begin(); item != value.end(); ++item) {
    const auto known = r.properties.find(item.key());
    const Rules* const rules = known != r.properties.end() ? known->second : r.other_properties;
    if (!rules) continue;
    if (auto found = check(*rules, *item)) return below(shown_name(item.key()), std::move(found));
  }
  return std::nullopt;
}

/// Which of several rules the value is meant for: the last that takes its type. Its violation says most.
template <class Rules>
std::optional<Broken> check_one_of(const Rules& r, const json& value) {
  std::optional<Broken> last;
  size_t fitting = 0;
  for (const Rules* one : r.one_of) {
    auto found = check(*one, value);
    fitting += !found;
    if (found) last = std::move(found);
  }
  if (fitting == 1 || r.one_of.empty()) return std::nullopt;
  return fitting ? broken(fmt::format("{}, which fits more than one of the rules", shown(value))) : last;
}

template <class Rules>
std::optional<Broken> check(const Rules& r, const json& value) {
  std::optional<Broken> found;
  if (r.same_as) found = check(*r.same_as, value);
  if (!found) found = check_alone(r, value);
  if (!found && value.is_array()) found = check_items(r, value);
  if (!found && value.is_object()) found = check_properties(r, value);
  if (!found) found = check_one_of(r, value);
  for (const Rules* one : r.all_of) {
    if (!found) found = check(*one, value);
  }
  if (found || !r.when) return found;
  const Rules* const follows = check(*r.when, value) ? r.otherwise : r.then;
  return follows ? check(*follows, value) : std::nullopt;
}

}  // namespace

Schema::Schema(std::string_view text) {
  const json whole = json::parse(text);
  root_ = Reader(whole, all_).rules(whole);
}

Schema::~Schema() = default;

std::optional<std::string> Schema::violation(const json& document) const {
  const auto found = check(*root_, document);
  if (!found) return std::nullopt;
  return (found->path.empty() ? "the whole" : "field " + found->path) + ": " + found->what;
}

void Schema::need(const json& document, const std::filesystem::path& file, const std::string& remedy) const {
  if (const auto found = violation(document)) throw Error(fmt::format("{}: {}: {}", file.string(), *found, remedy));
}

const Schema& schema_named(const std::string& name) {
  static std::mutex alone;
  static std::map<std::string, Schema> read;
  const std::lock_guard lock(alone);
  const auto known = read.find(name);
  return known != read.end() ? known->second : read.try_emplace(name, schema_text(name)).first->second;
}

}  // namespace ladder
