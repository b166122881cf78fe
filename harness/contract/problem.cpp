#include "problem.hpp"

#include <fmt/format.h>

#include <charconv>

namespace ladder {

const char* to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::simt:
      return "simt";
    default:
      return "cpu";
  }
}

DeviceKind device_kind(const std::string& name) {
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::simt, DeviceKind::cpu}) {
    if (name == to_string(kind)) return kind;
  }
  throw Error(fmt::format("device '{}' is unknown: cuda, simt or cpu", name));
}

std::string to_string(const Stop& stop) {
  switch (stop.rule) {
    case Stop::Rule::exact:
      return "exact";
    case Stop::Rule::fixed:
      return fmt::format("fixed:{}", stop.iterations);
    default:
      return fmt::format("reassigned:{}", stop.fraction);
  }
}

Stop stop_rule(const std::string& text) {
  const Error unknown(fmt::format(
      "stop rule '{}' is not one: exact, fixed:COUNT (COUNT >= 1) or reassigned:FRACTION (0 <= FRACTION < 1)", text));
  Stop stop;
  if (text == "exact") return stop;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw unknown;
  const std::string rule = text.substr(0, colon);
  const char *from = text.data() + colon + 1, *to = text.data() + text.size();
  if (rule == "fixed") {
    stop.rule = Stop::Rule::fixed;
    const auto [end, error] = std::from_chars(from, to, stop.iterations);
    if (error != std::errc() || end != to || stop.iterations < 1) throw unknown;
    stop.max_iterations = std::max(stop.max_iterations, stop.iterations);
  } else if (rule == "reassigned") {
    stop.rule = Stop::Rule::reassigned;
    const auto [end, error] = std::from_chars(from, to, stop.fraction);
    if (error != std::errc() || end != to || !(stop.fraction >= 0 && stop.fraction < 1)) throw unknown;
  } else {
    throw unknown;
  }
  return stop;
}

}  // namespace ladder
