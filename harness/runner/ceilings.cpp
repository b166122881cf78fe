#include "runner/ceilings.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <optional>

#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "base/npy.hpp"
#include "base/text.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Beside the records that are not committed: LADDER_CEILINGS, or results/local in the checkout.
fs::path kept_in() {
  if (const char* folder = std::getenv("LADDER_CEILINGS"); folder && *folder) return folder;
  return source_folder() / "results" / "local";
}

}  // namespace

Ceilings ceilings_of(DeviceKind kind, int ordinal, const json& device, bool anew) {
  const fs::path program = worker(kind);
  if (!fs::exists(program)) return {};
  const bool gpu = kind == DeviceKind::cuda;
  std::string name = gpu && device.is_object() ? device.value("name", "") + " " + device.value("driver", "") : "cpu";
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  const fs::path file = kept_in() / fmt::format("ceilings-{}-{}.json", name, hash_file(program));
  // What cannot be read is measured anew.
  const auto ceilings_in = [](const auto& read) -> std::optional<Ceilings> {
    try {
      const json held = read();
      return held.is_object() ? std::optional(held.template get<Ceilings>()) : std::nullopt;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  };
  const auto kept = [&] { return ceilings_in([&] { return read_json(file); }); };
  if (const auto known = kept(); known && !anew) return *known;
  // One process at a time: several would take each other's share of the link and of the cores.
  const FileLock alone = FileLock::wait(file);
  if (const auto known = kept(); known && !anew) return *known;
  const std::string output = output_of(
      fmt::format("timeout 120 {} ceilings {}", quoted(program.string()), gpu ? std::to_string(ordinal) : "cpu"));
  const auto measured = ceilings_in([&] { return json_of(output, program); });
  if (measured) write_whole(file, json(*measured).dump(1) + "\n");
  return measured.value_or(Ceilings());
}

}  // namespace ladder
