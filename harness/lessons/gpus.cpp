#include "lessons/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "base/text.hpp"
#include "formats/schema.hpp"

namespace ladder {
using nlohmann::json;

namespace {

int up_to(int value, int unit) { return (value + unit - 1) / unit * unit; }

std::vector<Gpu> read_gpus() {
  const auto file = source_folder() / "harness" / "lessons" / "gpus.json";
  const json whole = read_json(file);
  schema_named("gpus").need(whole, file, "mend it, or check it out again");
  std::vector<Gpu> gpus;
  for (const json& entry : whole.at("gpus")) {
    Gpu gpu{.name = entry.at("name"),
            .title = entry.at("title"),
            .capability = entry.at("capability"),
            .records = entry.at("records"),
            .multiprocessor = {},
            .figures = {}};
    if (!whole.at("capabilities").contains(gpu.capability))
      throw Error(fmt::format("{}: gpus of {} have no entry in capabilities: add it", file.string(), gpu.capability));
    const json& sm = whole.at("capabilities").at(gpu.capability);
    gpu.multiprocessor = {.threads = sm.at("threads"),
                          .blocks = sm.at("blocks"),
                          .registers = sm.at("registers"),
                          .shared_bytes = sm.at("shared_bytes"),
                          .shared_bytes_per_block = sm.at("shared_bytes_per_block"),
                          .reserved_bytes = sm.at("reserved_bytes"),
                          .from = sm.at("from")};
    for (const auto& [name, figure] : entry.at("figures").items())
      gpu.figures[name] = {figure.at("value"), figure.at("from")};
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

std::optional<double> Gpu::figure(const std::string& which) const {
  const auto found = figures.find(which);
  return found == figures.end() ? std::nullopt : std::optional(found->second.value);
}

const std::vector<Gpu>& known_gpus() {
  static const std::vector<Gpu> all = read_gpus();
  return all;
}

const Gpu& gpu_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Gpu& gpu : known_gpus()) {
    if (gpu.name == name) return gpu;
    names.push_back(gpu.name);
  }
  throw Error(fmt::format("'{}' is no known GPU: take one of {}", name, listed(names)));
}

const Gpu* gpu_of_record(const std::string& name) {
  for (const Gpu& gpu : known_gpus()) {
    if (std::find(gpu.records.begin(), gpu.records.end(), name) != gpu.records.end()) return &gpu;
  }
  return nullptr;
}

Occupancy occupancy_of(const Multiprocessor& sm, int threads, int registers, double shared_bytes) {
  constexpr int register_unit = 256, warps_together = 4;
  const int warps = up_to(threads, 32) / 32, most_warps = sm.threads / 32;
  const int per_warp = up_to(std::max(1, registers) * 32, register_unit);
  const int by_registers = sm.registers / per_warp / warps_together * warps_together / warps;
  const std::vector<std::pair<std::string, int>> limits = {
      {"registers", by_registers},
      {"shared memory", shared_bytes > 0 ? int(sm.shared_bytes / shared_bytes) : sm.blocks},
      {"warps", most_warps / warps},
      {"blocks", sm.blocks}};
  const auto least =
      std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return {100.0 * least->second * warps / most_warps, least->second, least->first};
}

}  // namespace ladder
