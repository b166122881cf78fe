#include "worker/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "worker/peer.hpp"

namespace ladder {

namespace {

/// The card of a compiled module, which stays loaded for as long as the process lives.
const Card* load_library(const std::filesystem::path& module) {
  void* handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Error("module " + module.string() + " does not load: " + dlerror());
  using Entry = const Card* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "ladder_variant"));
  if (!entry) throw Error("module " + module.string() + " has no card: end the file with LADDER_VARIANT(...)");
  return entry();
}

}  // namespace

const Card* load_card(const std::filesystem::path& module) {
  const Card& card = *(is_peer(module) ? load_peer(module) : load_library(module));
  if (card.id != module.stem().string()) {
    throw Error("the card's id is '" + card.id + "', the file's name '" + module.stem().string() +
                "': make them the same");
  }
  return &card;
}

std::string lacks_instructions(const Card& card, const Device& device) {
  if (card.for_cuda.empty() || device.kind != DeviceKind::cuda) return "";
  const int compiled = std::stoi(card.for_cuda), here = device.compute_capability;
  const bool alone = std::isalpha(static_cast<unsigned char>(card.for_cuda.back()));
  if (here == compiled || (!alone && here > compiled && here / 10 == compiled / 10)) return "";
  return fmt::format("its instructions (sm_{}) are those of compute capability {}.{}, this GPU has {}.{}",
                     card.for_cuda, compiled / 10, compiled % 10, here / 10, here % 10);
}

Axes axes_of(const Card& card, const Request& request) {
  Axes axes;
  for (const Axis& axis : card.axes) axes.value[axis.name] = axis.standard;
  for (const auto& [name, value] : request.axes) {
    if (axes.value.count(name)) axes.value[name] = value;
  }
  return axes;
}

namespace {

/// What a variant can be asked for: the phases that have a scope of their own.
template <class T>
void add_phases(const PhaseTable<T>& phases, nlohmann::json& names) {
  const auto add = [&](const char* name, const Phase<T>& phase) {
    if (phase && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  add("initialise", phases.initialise);
  add("assign", phases.assign);
  add("update", phases.update);
  add("iterate", phases.iterate);
  add("solve", phases.solve);
}

}  // namespace

nlohmann::json to_json(const Card& card, DeviceKind home) {
  using nlohmann::json;
  json phases = json::array();
  add_phases(card.f32, phases);
  add_phases(card.f64, phases);
  json types = json::array();
  if (card.f32) types.push_back("f32");
  if (card.f64) types.push_back("f64");
  json axes = json::array();
  for (const Axis& axis : card.axes) {
    axes.push_back(
        {{"name", axis.name}, {"values", axis.values}, {"standard", axis.standard}, {"reported", axis.reported}});
  }
  json metrics = json::array();
  for (const Metric metric : card.metrics) metrics.push_back(to_string(metric));
  static const char* const forms[] = {"difference", "expanded", "exact"};
  static const char* const draws[] = {"nothing", "uniform", "kmeanspp", "afkmc2"};
  return {{"id", card.id},
          {"base", card.base},
          {"joins", card.joins},
          {"idea", card.idea},
          {"expect", card.expect},
          {"shows", card.shows},
          {"counter", card.counter},
          {"source", card.source},
          {"library", card.library},
          {"device", to_string(home)},
          {"types", types},
          {"phases", phases},
          {"axes", axes},
          {"arithmetic", forms[int(card.arithmetic.form)]},
          {"distance_roundoff", card.arithmetic.distance_roundoff},
          {"input_roundoff", card.arithmetic.input_roundoff},
          {"sum_roundoff", card.arithmetic.sum_roundoff},
          {"operands", card.arithmetic.operands},
          {"centred", card.arithmetic.centred},
          {"metrics", metrics},
          {"reads_labels", card.reads_labels},
          {"prunes", card.prunes},
          {"implicit", card.implicit},
          {"gpus", card.gpus},
          {"draws", draws[int(card.draws)]}};
}

}  // namespace ladder
