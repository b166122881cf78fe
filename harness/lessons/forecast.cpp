#include "lessons/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "lessons/card_text.hpp"
#include "lessons/counted.hpp"
#include "lessons/gpus.hpp"
#include "lessons/prediction.hpp"
#include "lessons/times.hpp"
#include "lessons/words.hpp"
#include "workloads/variants.hpp"

namespace ladder {
using nlohmann::json;

namespace {

/// The least time that one resource needs for the work of a scope.
struct Floor {
  std::string by;  ///< arithmetic, issue, tensor cores, L1, device memory
  double amount = 0;
  std::string unit;
  double rate = 0;  ///< of the unit, per second
  std::string from;
  double ms() const { return 1e3 * amount / rate; }
};

struct Floors {
  std::vector<Floor> all;  ///< the largest first
  std::vector<std::string> unknown;
  std::map<std::string, Predicted> predicted;  ///< by name
  double launches = 1;
};

/// A card, what was counted of it, and the sizes that it is forecast for.
struct Subject {
  const CardText& card;
  std::string scope;
  Counted sizes;
  std::string registers_from;  ///< where they were counted; empty: not at these axes
};

/// Registers are of a kernel that was compiled for the same type and axes.
Subject subject_of(const CardText& card, const Workload& w, const std::map<std::string, double>& axes) {
  Subject subject{card, card.shows == "update" ? "update" : "assign", {}, ""};
  Counted& sizes = subject.sizes;
  sizes.workload = w.name, sizes.type = w.type, sizes.scope = subject.scope;
  sizes.n = double(w.n), sizes.k = double(w.k), sizes.d = double(w.d);
  sizes.axes = card.axes;
  for (const auto& [name, value] : axes) sizes.axes[name] = value;
  for (const Counted& counted : counted_of(card.id)) {
    const bool same = std::all_of(counted.axes.begin(), counted.axes.end(), [&](const auto& axis) {
      const auto found = sizes.axes.find(axis.first);
      return found == sizes.axes.end() || found->second == axis.second;
    });
    const bool whole = counted.scope == "iteration" && subject.scope == "assign";
    if (!same || counted.type != w.type || (counted.scope != subject.scope && !whole) ||
        !counted.metrics.count("registers"))
      continue;
    sizes.metrics["registers"] = counted.metrics.at("registers");
    subject.registers_from = fmt::format("counted on an {}", counted.device);
  }
  return subject;
}

Floors floors_of(const Subject& subject, const Gpu& gpu) {
  Floors floors;
  const CardText& card = subject.card;
  const Counted& sizes = subject.sizes;
  for (size_t i = 0; i < card.predict.size(); ++i) {
    if (!is_for(card.predict[i], sizes.workload)) continue;
    const Predicted predicted = predict(card, i, sizes, &gpu);
    if (predicted.scope == subject.scope) floors.predicted.emplace(predicted.name, predicted);
  }
  const auto value_of = [&](const char* name) -> std::optional<double> {
    const auto found = floors.predicted.find(name);
    return found == floors.predicted.end() ? std::nullopt : found->second.value;
  };
  floors.launches = value_of("launches").value_or(1);
  const auto total = [&](const char* name) {
    const std::optional<double> value = value_of(name);
    return value ? std::optional(*value * floors.launches) : std::nullopt;
  };
  const auto add = [&](const std::string& by, std::optional<double> amount, const std::string& unit,
                       std::initializer_list<const char*> figures, double scale) {
    if (!amount || *amount == 0) return;
    double rate = scale;
    std::string from;
    for (const char* name : figures) {
      const auto figure = gpu.figures.find(name);
      if (figure == gpu.figures.end()) {
        floors.unknown.push_back(fmt::format("{}: no document that we know states {} of {}", by, name, gpu.title));
        return;
      }
      rate *= figure->second.value;
      if (from.find(figure->second.from) == std::string::npos) from += (from.empty() ? "" : "; ") + figure->second.from;
    }
    floors.all.push_back({by, *amount, unit, rate, from});
  };
  const std::optional<double> fma = total("multiply_adds"), adds = total("additions"), tensor = total("tensor_flop");
  const std::optional<double> loads = total("load_requests"), sectors = value_of("sectors_per_load");
  const double arithmetic = fma.value_or(0) + adds.value_or(0);
  const bool doubles = sizes.type == "f64";
  // A multiply-add counts as two operations in a data sheet; an addition takes as long as one.
  add("arithmetic", arithmetic, "instructions", {doubles ? "fp64_tflops" : "fp32_tflops"}, 1e12 / 2);
  add("tensor cores", tensor, "FLOP", {card.operands == "tf32" ? "tensor_tf32_tflops" : "tensor_fp16_tflops"}, 1e12);
  // Four schedulers per multiprocessor start an instruction each per cycle. Where arithmetic is nearly all, its own
  // rate says the same.
  if (loads && *loads > 0.1 * arithmetic / 32)
    add("issue", arithmetic / 32 + *loads, "instructions of warps", {"multiprocessors", "clock_mhz"}, 4e6);
  if (loads && sectors)
    add("L1", *loads * *sectors * 32, "bytes", {"multiprocessors", "clock_mhz", "l1_bytes_per_cycle"}, 1e6);
  std::optional<double> bytes = total("dram_bytes");
  // What no method reads less of: the points, once.
  if (!bytes) bytes = sizes.n * sizes.d * sizes.bytes_per_value();
  add("device memory", bytes, "bytes", {"dram_gbs"}, 1e9);
  std::stable_sort(floors.all.begin(), floors.all.end(),
                   [](const Floor& a, const Floor& b) { return a.ms() > b.ms(); });
  for (const auto& [name, predicted] : floors.predicted) {
    if (!predicted.value) floors.unknown.push_back(fmt::format("{}: {}", name, predicted.unknown));
  }
  return floors;
}

/// A rung's time at its floor, over the time that it was measured to take.
struct Reached {
  std::string id;
  std::string scope, limiter;
  double fraction;
};

/// Has it a lesson, by which its times can be judged?
bool has_lesson(const std::string& id) {
  return !source_of(id, source_folder() / "variants").empty() && !read_card(id).predict.empty();
}

/// The scope whose times tell of a forecast: its own, or, where the records have no such time of a rung with a lesson
/// on the workload, the whole iteration, which takes longer.
std::string measured_scope(const Workload& w, const std::string& scope) {
  const auto& times = measured().times;
  const bool known = std::any_of(times.begin(), times.end(), [&](const MeasuredTime& time) {
    return time.workload == w.name && time.scope == scope && has_lesson(time.variant);
  });
  return known ? scope : "iteration";
}

/// Of all rungs with a lesson whose time in `scope` was measured on this workload.
std::vector<Reached> reached_on(const Workload& w, const std::string& scope) {
  std::vector<Reached> all;
  for (const MeasuredTime& time : measured().times) {
    if (time.workload != w.name) continue;
    const Gpu* gpu = gpu_of_record(time.device);
    if (!gpu || time.scope != scope || !has_lesson(time.variant)) continue;
    const CardText card = read_card(time.variant);
    const Subject subject = subject_of(card, w, time.axes);
    const Floors floors = floors_of(subject, *gpu);
    if (!floors.all.empty())
      all.push_back({card.id, subject.scope, floors.all[0].by, floors.all[0].ms() / time.median_ms});
  }
  return all;
}

json band_of(const Subject& subject, const Workload& w, const Floor& limiter) {
  const std::string scope = measured_scope(w, subject.scope);
  std::vector<Reached> others = reached_on(w, scope);
  std::erase_if(others, [&](const Reached& r) { return r.id == subject.card.id || r.scope != subject.scope; });
  std::vector<Reached> alike = others;
  // Both are of the units that run instructions: which of the two is the larger depends on a few loads.
  const auto kind = [](const std::string& by) { return by == "issue" ? "arithmetic" : by; };
  std::erase_if(alike, [&](const Reached& r) { return kind(r.limiter) != kind(limiter.by); });
  const std::vector<Reached>& told = alike.empty() ? others : alike;
  json band = {{"low_ms", limiter.ms()},
               {"high_ms", json()},
               {"how", "the floor of its limiter; no other rung was measured on this workload"}};
  if (told.empty()) return band;
  const auto slower = [](const Reached& a, const Reached& b) { return a.fraction < b.fraction; };
  const auto least = std::min_element(told.begin(), told.end(), slower);
  const auto most = std::max_element(told.begin(), told.end(), slower);
  band["high_ms"] = limiter.ms() / least->fraction;
  band["how"] = fmt::format(
      "from the floor of its limiter at its peak to that floor over {:.2f}, the smallest fraction that {} on this "
      "workload ({}; the largest is {:.2f}, {}; {} measured times{})",
      least->fraction, alike.empty() ? "any rung reaches" : "another rung of this limiter reaches", least->id,
      most->fraction, most->id, told.size(), scope == subject.scope ? "" : ", of whole iterations");
  return band;
}

}  // namespace

json forecast_of(const std::string& id, const Workload& w, const std::string& device,
                 const std::map<std::string, double>& axes) {
  const CardText card = read_card(id);
  if (card.predict.empty())
    throw Error(fmt::format("{} has no lesson to predict from: give it a LADDER_LESSON with .predict", id));
  for (const auto& [name, value] : axes) {
    if (!card.axes.count(name))
      throw Error(fmt::format("{} has no axis '{}': `ladder list --json` has them", id, name));
  }
  const Gpu& gpu = gpu_named(device);
  const Subject subject = subject_of(card, w, axes);
  const Floors floors = floors_of(subject, gpu);
  const Counted& sizes = subject.sizes;
  json all = {{"id", id},
              {"device", gpu.name},
              {"gpu", gpu.title},
              {"scope", subject.scope},
              {"sizes",
               {{"workload", w.name},
                {"type", w.type},
                {"N", sizes.n},
                {"K", sizes.k},
                {"D", sizes.d},
                {"B", sizes.bytes_per_value()},
                {"axes", sizes.axes}}},
              {"launches", floors.launches},
              {"unknown", floors.unknown},
              {"occupancy", json()},
              {"limiter", json()},
              {"band", json()}};
  all["predicted"] = json::object();
  for (const auto& [name, predicted] : floors.predicted)
    all["predicted"][name] = {{"formula", predicted.formula},
                              {"value", predicted.value ? json(*predicted.value) : json()},
                              {"unknown", predicted.unknown}};
  if (const auto found = floors.predicted.find("occupancy_theoretical_percent");
      found != floors.predicted.end() && found->second.value) {
    const bool counted = found->second.formula.find("registers") != std::string::npos;
    all["occupancy"] = {{"percent", *found->second.value},
                        {"registers", counted ? json(sizes.metrics.at("registers")) : json()},
                        {"from", counted ? subject.registers_from : "registers: the launch bounds of the kernel"}};
  }
  all["floors"] = json::array();
  for (const Floor& floor : floors.all)
    all["floors"].push_back({{"by", floor.by},
                             {"amount", floor.amount},
                             {"unit", floor.unit},
                             {"rate", floor.rate},
                             {"from", floor.from},
                             {"ms", floor.ms()}});
  if (!floors.all.empty()) {
    all["limiter"] = floors.all[0].by;
    all["band"] = band_of(subject, w, floors.all[0]);
  }
  all["measured"] = json::array();
  for (const MeasuredTime& time : measured().times) {
    if (time.variant != id || time.workload != w.name || time.scope != measured_scope(w, subject.scope)) continue;
    if (gpu_of_record(time.device) != &gpu) continue;
    all["measured"].push_back({{"device", time.device},
                               {"scope", time.scope},
                               {"axes", time.axes},
                               {"median_ms", time.median_ms},
                               {"low", time.low ? json(*time.low) : json()},
                               {"high", time.high ? json(*time.high) : json()},
                               {"sessions", time.sessions}});
  }
  return all;
}

std::string forecast_text(const json& f) {
  const json& sizes = f.at("sizes");
  std::string text = fmt::format("{} on {} (N = {}, K = {}, D = {}, {}), {}: one {}\n\n", words(f.at("id")),
                                 words(sizes.at("workload")), sizes.at("N").get<double>(), sizes.at("K").get<double>(),
                                 sizes.at("D").get<double>(), words(sizes.at("type")), words(f.at("gpu")),
                                 f.at("scope") == "update" ? "update" : "assignment");
  for (const auto& [name, axis] : sizes.at("axes").items())
    text += fmt::format("  {} = {}\n", name, axis.get<double>());
  if (f.at("launches") != 1) text += fmt::format("  {} launches of its kernel\n", f.at("launches").get<double>());
  const json& occupancy = f.at("occupancy");
  if (occupancy.is_object())
    text += fmt::format("  occupancy {:.4g} %{}\n", occupancy.at("percent").get<double>(),
                        occupancy.at("registers").is_number()
                            ? fmt::format(", with {} registers per thread, {}", occupancy.at("registers").get<double>(),
                                          words(occupancy.at("from")))
                            : " (" + words(occupancy.at("from")) + ")");
  text += "\n  the least time that each resource needs at its peak:\n";
  for (const json& floor : f.at("floors"))
    text += fmt::format("  {:<14} {:>10.4g} ms   {:.3e} {} at {:.3e} per second ({})\n", words(floor.at("by")),
                        floor.at("ms").get<double>(), floor.at("amount").get<double>(), words(floor.at("unit")),
                        floor.at("rate").get<double>(), words(floor.at("from")));
  for (const json& why : f.at("unknown")) text += fmt::format("  not known: {}\n", words(why));
  if (const json& band = f.at("band"); band.is_object()) {
    text += fmt::format(
        "\n  limiter: {}\n  time: {:.4g} ms {}\n  {}\n", words(f.at("limiter")), band.at("low_ms").get<double>(),
        band.at("high_ms").is_number() ? fmt::format("to {:.4g} ms", band.at("high_ms").get<double>()) : "or more",
        words(band.at("how")));
  }
  for (const json& time : f.at("measured")) {
    std::string axes;
    for (const auto& [name, axis] : time.at("axes").items()) axes += fmt::format(" {}={}", name, axis.get<double>());
    text += fmt::format(
        "  measured on an {}{}{}: {:.4g} ms{}\n", words(time.at("device")), axes,
        time.at("scope") == f.at("scope") ? "" : ", a whole iteration", time.at("median_ms").get<double>(),
        time.at("low").is_number() ? fmt::format(" (95 %: {:.4g} to {:.4g}; {} sessions)", time.at("low").get<double>(),
                                                 time.at("high").get<double>(), time.at("sessions").get<int>())
                                   : " (one session: no interval)");
  }
  if (f.at("measured").empty()) text += "  not measured: no committed record has it on this GPU\n";
  return text;
}

}  // namespace ladder
