#include "base/files.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

namespace ladder {
namespace fs = std::filesystem;

fs::path temporary_beside(const fs::path& file) {
  static std::atomic<unsigned> writers = 0;
  return file.string() + ".tmp." + std::to_string(getpid()) + "." + std::to_string(writers++);
}

fs::path target_of(const fs::path& file) {
  // One link after another: of a link to what is not there, too, the target is what is to be made.
  fs::path target = file;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target)); ++links) {
    if (links == 40) throw Error(fmt::format("{} is a link that leads back to itself: name a file", file.string()));
    const fs::path to = fs::read_symlink(target);
    target = to.is_absolute() ? to : target.parent_path() / to;
  }
  const fs::file_status found = fs::status(target);
  if (fs::is_directory(found)) throw Error(fmt::format("{} is a folder: name a file in it", file.string()));
  if (fs::exists(found) && !fs::is_regular_file(found))
    throw Error(fmt::format("{} is a device or a pipe, which no file may replace: name a file", file.string()));
  return target;
}

std::string read_whole(const fs::path& file, size_t most) {
  std::error_code unknown;
  const fs::file_status found = fs::status(file, unknown);
  if (fs::exists(found) && !fs::is_regular_file(found))
    throw Error(fmt::format("{} is a folder, a device or a pipe: name a file", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(fmt::format("{} cannot be read: is it there, and may you read it?", file.string()));
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer), in.gcount() > 0) {
    text.append(buffer, size_t(in.gcount()));
    if (text.size() > most)
      throw Error(fmt::format("{} holds more than {} MiB: name another file, or split it", file.string(), most >> 20));
  }
  if (in.bad()) throw Error(fmt::format("{} cannot be read to its end", file.string()));
  return text;
}

namespace {

/// Is what is open as `fd` still what `path` names?
bool is_named(int fd, const fs::path& path) {
  struct stat mine {};
  struct stat named {};
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

bool locked(int fd, int how) {
  int status = 0;
  do status = flock(fd, how);
  while (status != 0 && errno == EINTR);
  return status == 0;
}

bool is_written(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    text.remove_prefix(size_t(std::max<ssize_t>(count, 0)));
  }
  const int copy = dup(fd);  // to close it says what some file systems notice only then, and keeps the lock
  return copy >= 0 && close(copy) == 0;
}

/// Removes the temporary files of writers of `file` that were killed: no process holds a lock on them any more.
void remove_unfinished(const fs::path& file) {
  const std::string begin = file.filename().string() + ".tmp.";
  const fs::path folder = file.parent_path().empty() ? "." : file.parent_path();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().starts_with(begin)) continue;
    const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (locked(fd, LOCK_EX | LOCK_NB) && is_named(fd, entry.path())) unlink(entry.path().c_str());
    close(fd);
  }
}

}  // namespace

void write_whole(const fs::path& named, std::string_view text) {
  const fs::path file = target_of(named);
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path());
  remove_unfinished(file);
  fs::path temporary;
  int fd = -1;
  do {  // again where another writer took it for unfinished before it was locked
    if (fd >= 0) close(fd);
    temporary = temporary_beside(file);
    fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd >= 0 && (locked(fd, LOCK_EX), !is_named(fd, temporary)));
  const bool done = fd >= 0 && is_written(fd, text) && rename(temporary.c_str(), file.c_str()) == 0;
  if (!done) unlink(temporary.c_str());
  if (fd >= 0) close(fd);
  if (!done)
    throw Error(fmt::format("{} cannot be written: is there room, and the right to write there?", file.string()));
}

std::optional<FileLock> FileLock::lock(const fs::path& file, bool wait, std::string& holder) {
  const fs::path target = target_of(file);
  if (!target.parent_path().empty()) fs::create_directories(target.parent_path());
  const fs::path path = target.string() + ".lock";
  for (;;) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) throw Error(fmt::format("{} cannot be made: {}", path.string(), std::strerror(errno)));
    FileLock held(path, fd);
    if (!locked(fd, LOCK_EX | (wait ? 0 : LOCK_NB))) {
      char words[200] = "";
      const ssize_t count = pread(fd, words, sizeof words - 1, 0);
      holder = count > 0 ? std::string(words, size_t(count)) : "another process";
      close(std::exchange(held.fd_, -1));
      return std::nullopt;
    }
    // The previous holder may have deleted the file: a lock on a deleted file excludes no other process.
    if (is_named(fd, path)) {
      const std::string words =
          fmt::format("process {}, since {:%Y-%m-%d %H:%M:%S} UTC", getpid(), fmt::gmtime(std::time(nullptr)));
      if (ftruncate(fd, 0) != 0 || pwrite(fd, words.data(), words.size(), 0) < 0)
        throw Error(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
      return held;
    }
    close(std::exchange(held.fd_, -1));
  }
}

FileLock FileLock::wait(const fs::path& file) {
  std::string holder;
  return std::move(*lock(file, true, holder));
}

std::optional<FileLock> FileLock::take(const fs::path& file, std::string& holder) { return lock(file, false, holder); }

FileLock::FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  unlink(path_.c_str());  // while the lock is held: no other process holds a lock on this name
  close(fd_);
}

std::shared_ptr<const InUse> InUse::of(const fs::path& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const std::shared_ptr<const InUse> use(new InUse(fd));
  return locked(fd, LOCK_SH) && is_named(fd, file) ? use : nullptr;
}

InUse::~InUse() { close(fd_); }

void remove_unused(const fs::path& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (locked(fd, LOCK_EX | LOCK_NB) && is_named(fd, file)) fs::remove(file);
  close(fd);
}

}  // namespace ladder
