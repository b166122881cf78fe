#include "workloads/variants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/files.hpp"
#include "base/foreign.hpp"
#include "base/npy.hpp"
#include "formats/schema.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t most_card_bytes = size_t(16) << 20;

}  // namespace

std::vector<Variant> find_variants(const std::vector<fs::path>& folders) {
  std::map<std::string, Variant> found;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) throw Error(fmt::format("there are no variants in {}: build them", folder.string()));
    std::ifstream expected(folder / "expected.txt");
    for (std::string line; std::getline(expected, line);) {
      const size_t slash = line.find('/');
      if (slash == std::string::npos) continue;
      const DeviceKind kind = device_kind(line.substr(0, slash));
      const std::string id = line.substr(slash + 1);
      Variant& variant = found[id];
      variant.id = id;
      const std::string stem = (folder / line).string();
      const fs::path module = fs::exists(stem + ".py") ? stem + ".py" : stem + ".so";
      json card;
      if (fs::exists(module) && fs::exists(stem + ".json"))
        card = foreign_json(read_whole(stem + ".json", most_card_bytes));
      const auto fault = card.is_object() ? schema_named("card").violation(card) : std::nullopt;
      if (fault) {
        variant.broken[kind] = fmt::format("{}.json: {}: build it again", stem, *fault);
      } else if (!card.is_object()) {
        variant.broken[kind] = fmt::format("was not built for {}: see what the compiler said", to_string(kind));
      } else if (card.contains("error")) {
        variant.broken[kind] = card["error"];
      } else if (variant.modules.count(kind)) {
        throw Error(
            fmt::format("variant '{}' is there twice: {} and {}", id, variant.modules[kind].string(), module.string()));
      } else {
        variant.modules[kind] = module;
        variant.source_hash[kind] = card.value("source_hash", "");
        variant.base = card.value("base", "");
        variant.idea = card.value("idea", "");
        variant.card = std::move(card);
      }
    }
  }
  std::vector<Variant> variants;
  for (auto& [id, variant] : found) variants.push_back(std::move(variant));
  return variants;
}

void hash_modules(std::vector<Variant>& variants) {
  for (Variant& v : variants) {
    for (const auto& [kind, module] : v.modules) v.module_hash[kind] = hash_file(module);
  }
}

std::vector<fs::path> with_chapters(const fs::path& folder) {
  std::vector<fs::path> folders = {folder};
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_directory() && entry.path().filename() != "common") folders.push_back(entry.path());
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

fs::path source_of(const std::string& id, const fs::path& folder) {
  for (const fs::path& chapter : with_chapters(folder)) {
    for (const char* ending : {".cu", ".cpp", ".py"}) {
      if (const fs::path file = chapter / (id + ending); fs::exists(file)) return file;
    }
  }
  return {};
}

}  // namespace ladder
