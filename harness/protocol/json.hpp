// How the protocol's values look as JSON: each stated once, read and written by the same list of fields.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>

#include "contract/problem.hpp"

namespace ladder {

inline void to_json(nlohmann::json& j, DeviceKind kind) { j = to_string(kind); }
inline void from_json(const nlohmann::json& j, DeviceKind& kind) { kind = device_kind(j.get<std::string>()); }
inline void to_json(nlohmann::json& j, const Stop& stop) { j = to_string(stop); }
inline void from_json(const nlohmann::json& j, Stop& stop) { stop = stop_rule(j.get<std::string>()); }
inline void to_json(nlohmann::json& j, Metric metric) { j = to_string(metric); }
inline void from_json(const nlohmann::json& j, Metric& metric) { metric = metric_named(j.get<std::string>()); }
inline void to_json(nlohmann::json& j, const Kernel& kernel) { j = to_string(kernel); }
inline void from_json(const nlohmann::json& j, Kernel& kernel) { kernel = kernel_named(j.get<std::string>()); }

}  // namespace ladder

/// What is not there is null.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) { j = value ? json(*value) : json(nullptr); }
  static void from_json(const json& j, std::optional<T>& value) {
    value = j.is_null() ? std::nullopt : std::optional<T>(j.get<T>());
  }
};
