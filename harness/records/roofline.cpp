#include "records/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "protocol/scopes.hpp"

namespace ladder {
using nlohmann::json;

namespace {

/// How a variant holds points and what it must do with them, as far as its card says.
struct Demand {
  bool prunes = false;
  bool rounds = false;     ///< distances in less than the element type: tensor cores may serve
  double value_bytes = 4;  ///< of a coordinate
};

Demand demand_of(const json& card, const std::string& type) {
  const double size = type == "f32" ? 4 : 8, own_roundoff = type == "f32" ? 0x1p-24 : 0x1p-53;
  Demand demand;
  demand.value_bytes = size;
  if (!card.is_object()) return demand;
  demand.prunes = card.value("prunes", false);
  const double input = card.value("input_roundoff", 0.0), distance = card.value("distance_roundoff", 0.0);
  if (card.value("arithmetic", "") == "exact") {
    // The label is right whatever led to it: nothing is said of how the points are held on the way.
    demand.rounds = true;
    demand.value_bytes = 1;
  } else if (input > 0 || distance > own_roundoff) {
    demand.rounds = true;
    // A significand of b bits rounds by 2^-b; sign and exponent take more, which is not counted on.
    if (input > 0) demand.value_bytes = std::min(size, std::ceil((1 - std::log2(input)) / 8));
  }
  return demand;
}

/// Bytes of the points, each coordinate taking `value_bytes`: dense, or its nonzeros alone, whichever is less.
double point_bytes(const Workload& w, double value_bytes) {
  const double dense = double(w.n) * double(w.d) * value_bytes;
  return w.nonzeros < 0 ? dense : std::min(dense, double(w.nonzeros) * (value_bytes + 1));
}

double coordinates(const Workload& w) {
  return w.nonzeros < 0 ? double(w.n) * double(w.d) : std::min(double(w.n) * double(w.d), double(w.nonzeros));
}

double element_bytes(const Workload& w) { return w.type == "f32" ? 4 : 8; }

/// One iteration, or a part of it, with points of so many bytes.
Work one_pass(const std::string& scope, const Workload& w, double points) {
  const double centroids = double(w.k) * double(w.d) * element_bytes(w), labels = 4 * double(w.n);
  const double distances = 2 * coordinates(w) * w.k, sums = coordinates(w);
  if (scope == "assign") return {distances, points + centroids + labels};
  if (scope == "update") return {sums, points + labels + centroids};
  return {distances + sums, points + 2 * centroids + labels};
}

std::optional<double> times(std::optional<double> rate, int gpus) {
  return rate && *rate > 0 ? std::optional(*rate * gpus) : std::nullopt;
}

}  // namespace

Work minimum_of(const std::string& scope, const Workload& w, int iterations) {
  const double points = point_bytes(w, element_bytes(w));
  // An initialisation draws as it likes; a kernel's own cost is not the problem's to say, nor is that of a process.
  if (scope == "initialise" || w.kernel || scope_named(scope).fresh) return {};
  if (scope == "upload") return {0, points};
  if (scope == "download") return {0, 4 * double(w.n) + double(w.k) * double(w.d) * element_bytes(w)};
  const Work once = one_pass(scope, w, points);
  const int passes = scope_named(scope).whole ? iterations : 1;
  return {passes * once.flop, passes * once.bytes};
}

Roofline roofline_of(const std::string& scope, const Workload& w, const json& card, int iterations,
                     std::optional<double> median_ms, const Limits& limits) {
  const Work least = minimum_of(scope, w, iterations);
  Roofline roofline;
  roofline.flop = least.flop;
  roofline.bytes = least.bytes;
  if (median_ms && least.flop > 0) roofline.gflops = least.flop / *median_ms * 1e-6;
  if (median_ms && least.bytes > 0) roofline.gbs = least.bytes / *median_ms * 1e-6;

  const Ceilings& c = limits.ceilings;
  const Demand demand = demand_of(card, w.type);
  const double points = point_bytes(w, demand.value_bytes);
  // A label can travel in as few bytes as its range needs.
  const double packed_labels = double(w.n) * (w.k <= 256 ? 1 : w.k <= 65536 ? 2 : 4);
  const double centroids = double(w.k) * double(w.d) * demand.value_bytes;
  const auto part = [&](const char* name, double amount, std::optional<double> per_ms) {
    if (!per_ms || amount <= 0) return;
    const double ms = amount / *per_ms;
    if (roofline.floor_ms && *roofline.floor_ms >= ms) return;
    roofline.floor_ms = ms;
    roofline.bound_by = name;
  };
  const auto per_ms = [&](std::optional<double> giga) {
    const auto all = times(giga, limits.gpus);
    return all ? std::optional(*all * 1e6) : std::nullopt;
  };
  if (scope == "upload" || scope == "end_to_end") part("link", points, per_ms(c.pinned_h2d_gbs));
  if (scope == "download" || scope == "end_to_end") part("link", packed_labels + centroids, per_ms(c.pinned_d2h_gbs));
  bool complete = true;  // is every rate known that this work could be bound by?
  if (scope != "upload" && scope != "download" && scope != "initialise" && !w.kernel && !scope_named(scope).fresh) {
    const int passes = scope_named(scope).whole ? std::max(1, iterations) : 1;
    // Which distances, and which points, bounds leave out depends on the data: of a variant that prunes, only its
    // labels are sure.
    const Work once = one_pass(scope, w, demand.prunes ? 0 : points);
    if (c.l2_bytes) part("bytes", passes * std::max(0.0, once.bytes - limits.kept_bytes), per_ms(c.read_gbs));
    if (!demand.prunes) {
      // The tensor cores of data-centre GPUs double the rate of fp64 as well, without rounding anything.
      const auto peak = demand.rounds     ? c.tensor_gflops
                        : w.type == "f32" ? c.fp32_gflops
                        : c.fp64_gflops   ? std::optional(2 * *c.fp64_gflops)
                                          : std::nullopt;
      part("flop", passes * once.flop, per_ms(peak));
      complete = peak.has_value();
    }
  }
  if (median_ms && roofline.floor_ms && complete) roofline.roof_percent = 100 * *roofline.floor_ms / *median_ms;
  roofline.launch_bound = median_ms && c.empty_event_us && *median_ms * 1e3 < 10 * *c.empty_event_us;
  return roofline;
}

std::string too_fast(const Roofline& roofline, double median_ms, const Limits& limits) {
  if (!roofline.floor_ms || median_ms >= 0.98 * *roofline.floor_ms) return "";
  const Ceilings& c = limits.ceilings;
  const std::string how =
      *roofline.bound_by == "flop" ? fmt::format("{:.4g} GFLOP", roofline.flop * 1e-9)
      : *roofline.bound_by == "link"
          ? fmt::format("bytes over the link at {:.4g} GB/s", c.pinned_h2d_gbs.value_or(0) * limits.gpus)
          : fmt::format("bytes at {:.4g} GB/s", *c.read_gbs * limits.gpus);
  return fmt::format(
      "faster than this device can be: {:.3g} ms, the least is {:.3g} ms ({}): what is timed is not the work",
      median_ms, *roofline.floor_ms, how);
}

}  // namespace ladder
