#include "problem.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

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

const char* to_string(Metric metric) { return metric == Metric::cosine ? "cosine" : "euclidean"; }

Metric metric_named(const std::string& name) {
  for (const Metric metric : {Metric::euclidean, Metric::cosine}) {
    if (name == to_string(metric)) return metric;
  }
  throw Error(fmt::format("metric '{}' is unknown: euclidean or cosine", name));
}

void refuse_zero_row(int64_t row) {
  throw Error("row " + std::to_string(row) +
              " is the zero vector, which has no direction: leave it out, or use the metric euclidean");
}

std::string to_string(const Kernel& kernel) {
  switch (kernel.form) {
    case Kernel::Form::none:
      return "none";
    case Kernel::Form::linear:
      return "linear";
    case Kernel::Form::polynomial:
      return fmt::format("polynomial:{},{},{}", kernel.gamma, kernel.offset, kernel.degree);
    default:
      return fmt::format("gaussian:{}", kernel.gamma);
  }
}

Kernel kernel_named(const std::string& text) {
  Kernel kernel;
  int end = -1;
  if (text == "none") return kernel;
  if (text == "linear") {
    kernel.form = Kernel::Form::linear;
    return kernel;
  }
  if (std::sscanf(text.c_str(), "polynomial:%lf,%lf,%d%n", &kernel.gamma, &kernel.offset, &kernel.degree, &end) == 3)
    kernel.form = Kernel::Form::polynomial;
  else if (std::sscanf(text.c_str(), "gaussian:%lf%n", &kernel.gamma, &end) == 1)
    kernel.form = Kernel::Form::gaussian;
  if (end != int(text.size()) || kernel.gamma <= 0 || kernel.degree < 1)
    throw Error(
        fmt::format("kernel '{}' is not one: none, linear, polynomial:GAMMA,OFFSET,DEGREE or gaussian:GAMMA "
                    "(GAMMA > 0, DEGREE >= 1)",
                    text));
  return kernel;
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
