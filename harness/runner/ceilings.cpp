#include "runner/ceilings.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <fstream>

#include "base/files.hpp"
#include "base/folders.hpp"
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
  const auto kept = [&] { return json::parse(std::ifstream(file), nullptr, false); };
  if (!anew && kept().is_object()) return kept().get<Ceilings>();
  // One process at a time: several would take each other's share of the link and of the cores.
  const FileLock alone = FileLock::wait(file);
  if (!anew && kept().is_object()) return kept().get<Ceilings>();
  const std::string output = output_of(
      fmt::format("timeout 120 {} ceilings {}", quoted(program.string()), gpu ? std::to_string(ordinal) : "cpu"));
  const json measured = json::parse(output, nullptr, false);
  if (!measured.is_object()) return {};
  const Ceilings ceilings = measured.get<Ceilings>();
  write_whole(file, json(ceilings).dump(1) + "\n");
  return ceilings;
}

}  // namespace ladder
