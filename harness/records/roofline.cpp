#include "records/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "protocol/scopes.hpp"

namespace ladder {
using nlohmann::json;

namespace {

/// How a variant holds points and what it must do with them, as far as its card says.
struct Demand {
  bool prunes = false;
  bool rounds = false;     ///< distances in less than the element type: tensor cores may serve
  bool exact = false;      ///< labels of the exact minimum, whatever led to them
  std::string operands;    ///< of its matrix products, where the card says so
  double value_bytes = 4;  ///< of a coordinate in the device's memory
};

Demand demand_of(const json& card, const std::string& type) {
  const double size = type == "f32" ? 4 : 8, own_roundoff = type == "f32" ? 0x1p-24 : 0x1p-53;
  Demand demand;
  demand.value_bytes = size;
  if (!card.is_object()) return demand;
  demand.prunes = card.value("prunes", false);
  const double input = card.value("input_roundoff", 0.0), distance = card.value("distance_roundoff", 0.0);
  demand.operands = card.value("operands", "");
  demand.exact = card.value("arithmetic", "") == "exact";
  if (demand.exact) {
    // The label is right whatever led to it: nothing else is said of how the points are held on the way.
    demand.rounds = true;
    demand.value_bytes = demand.operands == "fp16"   ? 2
                         : demand.operands == "own"  ? size
                         : demand.operands == "tf32" ? 4
                                                     : 1;
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

std::optional<double> most(std::initializer_list<std::optional<double>> rates) {
  return std::max(rates);  // none is less than any
}

/// A rate of arithmetic, GFLOP/s, and what it is of.
struct Peak {
  std::string of;
  std::optional<double> gflops;
  std::optional<double> sure = std::nullopt;  ///< that no kernel exceeds; a library's products are no such limit
};

/// The rate of the arithmetic that the card names; where it leaves that open, of the fastest that may serve.
Peak peak_of(const Demand& demand, const std::string& type, const Ceilings& c) {
  if (demand.operands == "fp16") return {"fp16", c.tensor_fp16_gflops};
  if (demand.operands == "tf32") return {"tf32", c.tensor_tf32_gflops};
  if (demand.operands == "int8") return {"int8", c.tensor_int8_gflops};
  if (demand.rounds && demand.operands != "own") {
    const auto floats = most({c.tensor_fp16_gflops, c.tensor_tf32_gflops, c.tensor_gflops});
    return {"fastest", demand.exact && floats ? most({floats, c.tensor_int8_gflops}) : floats};
  }
  if (type == "f32") return {"fp32", c.fp32_gflops, demand.rounds ? std::nullopt : c.fp32_gflops};
  // The tensor cores of data-centre GPUs double the rate of fp64 as well, without rounding anything.
  const auto twice = c.fp64_gflops ? std::optional(2 * *c.fp64_gflops) : std::nullopt;
  const auto measured = c.tensor_fp64_gflops ? most({c.tensor_fp64_gflops, c.fp64_gflops}) : twice;
  return {"fp64", measured, demand.rounds ? std::nullopt : twice};
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
  const double points = point_bytes(w, demand.value_bytes), on_host = point_bytes(w, element_bytes(w));
  const double packed = point_bytes(w, demand.exact ? 1 : demand.value_bytes);  // what a card says is no proof
  const double labels = 4 * double(w.n);
  const double packed_labels = double(w.n) * (w.k <= 256 ? 1 : w.k <= 65536 ? 2 : 4);
  const double centroids = double(w.k) * double(w.d);
  const auto ms_of = [&](double amount, std::optional<double> giga) {
    const auto all = times(giga, limits.gpus);
    return all && amount > 0 ? std::optional(amount / (*all * 1e6)) : std::nullopt;
  };
  const auto raise = [](std::optional<double>& to, std::optional<double> ms) {
    if (!ms || (to && *to >= *ms)) return false;
    to = ms;
    return true;
  };
  const auto part = [&](const char* name, double amount, std::optional<double> giga) {
    if (raise(roofline.floor_ms, ms_of(amount, giga))) roofline.bound_by = name, roofline.roof_of = std::nullopt;
  };
  const auto sure = [&](const char* name, double amount, std::optional<double> giga) {
    if (raise(roofline.least_ms, ms_of(amount, giga))) roofline.least_by = name;
  };
  // Points, labels and centroids cross the link as they lie on the host. One who packs them is faster than this roof;
  // of a label, as many bytes as its range needs are sure.
  const auto link = [&](double amount, double least, std::optional<double> giga) {
    part("link", amount, giga);
    sure("link", least, giga);
  };
  if (scope == "upload" || scope == "end_to_end") link(on_host, packed, c.pinned_h2d_gbs);
  if (scope == "download" || scope == "end_to_end")
    link(labels + centroids * element_bytes(w), packed_labels + centroids * demand.value_bytes, c.pinned_d2h_gbs);
  bool complete = true;  // is every rate known that this work could be bound by?
  if (scope != "upload" && scope != "download" && scope != "initialise" && !w.kernel && !scope_named(scope).fresh) {
    const int passes = scope_named(scope).whole ? std::max(1, iterations) : 1;
    // Which distances, and which points, bounds leave out depends on the data: of a variant that prunes, only its
    // labels are sure.
    const Work once = one_pass(scope, w, demand.prunes ? 0 : points);
    if (c.l2_bytes) {
      const auto beyond_caches = [&](double bytes) { return passes * std::max(0.0, bytes - limits.kept_bytes); };
      part("bytes", beyond_caches(once.bytes), c.read_gbs);
      sure("bytes", beyond_caches(one_pass(scope, w, demand.prunes ? 0 : packed).bytes), c.read_gbs);
    }
    if (!demand.prunes) {
      const Peak peak = peak_of(demand, w.type, c);
      part("flop", passes * once.flop, peak.gflops);
      if (roofline.bound_by == "flop") roofline.roof_of = peak.of;
      sure("flop", passes * once.flop, peak.sure);
      complete = peak.gflops.has_value();
    }
  }
  if (median_ms && roofline.floor_ms && complete) roofline.roof_percent = 100 * *roofline.floor_ms / *median_ms;
  roofline.launch_bound = median_ms && c.empty_event_us && *median_ms * 1e3 < 10 * *c.empty_event_us;
  return roofline;
}

std::string too_fast(const Roofline& roofline, double median_ms, const Limits& limits, DeviceKind device) {
  // A GPU's clocks have a ceiling. A host may have been busy while it measured its own, and has caches that are not
  // counted.
  const double certain = device == DeviceKind::cuda ? 0.98 : 1.0 / 3;
  if (!roofline.least_ms || median_ms >= certain * *roofline.least_ms) return "";
  const Ceilings& c = limits.ceilings;
  const std::string how =
      roofline.least_by == "flop" ? fmt::format("{:.4g} GFLOP", roofline.flop * 1e-9)
      : roofline.least_by == "link"
          ? fmt::format("bytes over the link at {:.4g} GB/s", c.pinned_h2d_gbs.value_or(0) * limits.gpus)
          : fmt::format("bytes at {:.4g} GB/s", *c.read_gbs * limits.gpus);
  return fmt::format(
      "faster than this device can be: {:.3g} ms, the least is {:.3g} ms ({}): what is timed is not the work",
      median_ms, *roofline.least_ms, how);
}

}  // namespace ladder
