#include "base/folders.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

bool holds_sources(const fs::path& folder) { return fs::exists(folder / "harness" / "contract" / "contract.hpp"); }

/// `folder`, or the nearest folder above it, that holds the sources; empty if there is none.
fs::path sources_above(fs::path folder) {
  for (; !holds_sources(folder); folder = folder.parent_path()) {
    if (folder == folder.parent_path()) return {};
  }
  return folder;
}

/// The sources that a build folder was configured for; empty if it does not say.
fs::path sources_of_build(const fs::path& build) {
  const std::string key = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  std::ifstream cache(build / "CMakeCache.txt");
  for (std::string line; std::getline(cache, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return {};
}

fs::path find_sources() {
  if (fs::path above = sources_above(program_folder()); !above.empty()) return above;
  if (fs::path named = sources_of_build(program_folder()); !named.empty() && holds_sources(named)) return named;
  if (fs::path above = sources_above(fs::current_path()); !above.empty()) return above;
  throw Error("the sources are not found from " + program_folder().string() +
              ": call it in the checkout, or name the checkout in LADDER_SOURCE");
}

}  // namespace

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path source_folder() {
  if (const char* named = std::getenv("LADDER_SOURCE"); named && *named) return named;
  static const fs::path found = find_sources();
  return found;
}

}  // namespace ladder
