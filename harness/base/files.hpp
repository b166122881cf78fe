// Files that are whole or not there, and one writer at a time.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace ladder {

/// All bytes of `file`. Throws Error where it cannot be read.
std::string read_whole(const std::filesystem::path& file);

/// A name beside `file` that no other writer has, in this process or another.
std::filesystem::path temporary_beside(const std::filesystem::path& file);

/// Makes `file` hold `text`: under a temporary name first, so that readers find the old file or the new one, whole.
/// Throws Error where it cannot be written.
void write_whole(const std::filesystem::path& file, std::string_view text);

/// The sole right to work on `file`, by a lock on FILE.lock. The system takes the lock back when the process ends,
/// however it ends; the lock file goes with the lock.
class FileLock {
 public:
  /// Waits until nobody else has it.
  static FileLock wait(const std::filesystem::path& file);
  /// Takes it where nobody has it; else nothing, and `holder` says who has, in words of that process.
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

/// Says to other processes that a file is being read, for as long as this lives: remove_unused leaves it alone.
class InUse {
 public:
  /// Nothing where there is no such file.
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
