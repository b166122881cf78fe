// Where a command may write: a file replaces one of its own kind and nothing else.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ladder {

/// Files of one kind, and how one is told from others.
struct FileKind {
  std::string name;                                               ///< "record"
  std::function<bool(const std::filesystem::path& file)> is_one;  ///< of a regular file that is not empty
};

/// JSON files: objects with fields of these names and none of `without`. What read_json() refuses is none.
FileKind json_kind(const std::string& name, const std::vector<std::string>& fields,
                   const std::vector<std::string>& without = {});

/// Throws Error where nothing can be made in the folder, or in the nearest one above it that is there.
void need_folder(const std::filesystem::path& folder);

/// Throws Error where writing to `out`, the value of `option`, would replace something else than a file of this kind:
/// one of `inputs`, which the same command reads, or, unless `force`, any file that is none; or where nothing can be
/// written.
void need_place(const std::string& option, const std::filesystem::path& out, const FileKind& kind,
                const std::vector<std::filesystem::path>& inputs, bool force);

}  // namespace ladder
