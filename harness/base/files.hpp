// Atomic writes, locks and use counts of files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace ladder {

/// The file that is written where `file` is named: itself, or what a link leads to, so that a link stays one. Throws
/// Error where a folder, a device or a pipe is there.
std::filesystem::path target_of(const std::filesystem::path& file);

/// All bytes of `file`. Throws Error if it cannot be read, or holds more than `most`.
std::string read_whole(const std::filesystem::path& file, size_t most = SIZE_MAX);

/// A unique name in the folder of `file`, for a temporary file.
std::filesystem::path temporary_beside(const std::filesystem::path& file);

/// Replaces `file` by `text` atomically: readers see the old file or the new one. What a killed writer left beside it
/// is removed. Throws Error if it cannot be written.
void write_whole(const std::filesystem::path& file, std::string_view text);

/// An exclusive lock on `file`, held through FILE.lock. The system releases it when the process ends; the lock file is
/// deleted with the lock.
class FileLock {
 public:
  /// Waits for the lock.
  static FileLock wait(const std::filesystem::path& file);
  /// Takes the lock if it is free; otherwise returns nothing and sets `holder` to a description of its holder.
  static std::optional<FileLock> take(const std::filesystem::path& file, std::string& holder);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;

 private:
  FileLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  static std::optional<FileLock> lock(const std::filesystem::path& file, bool wait, std::string& holder);
  std::filesystem::path path_;
  int fd_;
};

/// Marks a file as in use while the object lives: remove_unused of any process does not delete it.
class InUse {
 public:
  /// Null if there is no such file.
  static std::shared_ptr<const InUse> of(const std::filesystem::path& file);
  ~InUse();
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  explicit InUse(int fd) : fd_(fd) {}
  int fd_;
};

/// Deletes a file that no process has InUse.
void remove_unused(const std::filesystem::path& file);

}  // namespace ladder
