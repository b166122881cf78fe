// Which variants there are: the modules that were built, by the cards beside them, and the files that they are built
// from. Nothing is loaded here.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// One revision, with a module for each device kind it was built for.
struct Variant {
  std::string id, base, idea;
  nlohmann::json card = nlohmann::json::object();  ///< as harness/worker/module.hpp writes it; of any of the modules
  std::map<DeviceKind, std::filesystem::path> modules;
  std::map<DeviceKind, std::string> module_hash;  ///< by hash_modules: another hash, another variant
  /// Of the text that each module was compiled from (base/source_text.hpp); empty where the build did not say.
  std::map<DeviceKind, std::string> source_hash;
  std::map<DeviceKind, std::string> broken;  ///< device kinds for which there is no usable module, and why
};

/// The variants below `folders`, ordered by id. Each folder holds simt/, cuda/, cpu/ with ID.so (or a peer's ID.py) and
/// ID.json, and expected.txt with a line KIND/ID per module that ought to be there.
std::vector<Variant> find_variants(const std::vector<std::filesystem::path>& folders);

/// A folder of variants and its chapters (all its folders but common/), in order of their names.
std::vector<std::filesystem::path> with_chapters(const std::filesystem::path& folder);
/// The file of a variant (.cu, .cpp or .py) in a folder of variants or in one of its chapters; empty if there is none.
std::filesystem::path source_of(const std::string& id, const std::filesystem::path& folder);

/// Reads all modules, for their hashes.
void hash_modules(std::vector<Variant>& variants);

}  // namespace ladder
