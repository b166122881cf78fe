#include "formats/place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/foreign.hpp"

namespace ladder {
namespace fs = std::filesystem;

FileKind json_kind(const std::string& name, const std::vector<std::string>& fields,
                   const std::vector<std::string>& without) {
  return {name, [fields, without](const fs::path& file) {
            try {
              const nlohmann::json held = read_json(file);
              const auto has = [&](const std::string& field) { return held.contains(field); };
              return held.is_object() && std::all_of(fields.begin(), fields.end(), has) &&
                     std::none_of(without.begin(), without.end(), has);
            } catch (const Error&) {
              return false;
            }
          }};
}

void need_folder(const fs::path& folder) {
  fs::path there = fs::absolute(folder);
  while (!fs::exists(fs::symlink_status(there)) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there))
    throw Error(fmt::format("{}: {} is no folder: name another one", folder.string(), there.string()));
  if (access(there.c_str(), W_OK | X_OK) != 0)
    throw Error(fmt::format("{}: nothing can be written in {}: name another folder, or get the right to",
                            folder.string(), there.string()));
}

void need_place(const std::string& option, const fs::path& out, const FileKind& kind,
                const std::vector<fs::path>& inputs, bool force) {
  const fs::path target = target_of(out);
  need_folder(target.has_parent_path() ? target.parent_path() : fs::path("."));
  if (!fs::exists(target)) return;
  for (const fs::path& input : inputs) {
    if (!input.empty() && fs::exists(input) && fs::equivalent(input, target))
      throw Error(fmt::format("{} {} is {}, which this command reads: name another file", option, out.string(),
                              input.string()));
  }
  if (force || fs::file_size(target) == 0 || kind.is_one(target)) return;
  throw Error(fmt::format("{} {} is a file, and no {}, which would be lost: name another file, or add --force", option,
                          out.string(), kind.name));
}

}  // namespace ladder
