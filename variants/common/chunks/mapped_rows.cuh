// Rows of a mapped file brought into page-locked memory by several host threads: one thread's copy, with the page
// faults of a mapping, is slower than the link. v32c_mapped_file introduces it.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace ladder {

/// Asks the system to read these bytes of a mapping ahead. Memory that is no file's stays as it is.
inline void read_ahead(const void* from, size_t bytes) {
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(from) / page * page;
  madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(from) + bytes - begin, MADV_WILLNEED);
}

/// memcpy by `threads` threads.
inline void copy_by_threads(void* to, const void* from, size_t bytes, int threads) {
  std::vector<std::jthread> others;
  const size_t part = bytes / size_t(threads);
  const auto copy = [=](size_t begin, size_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
  };
  for (int t = 1; t < threads; ++t) others.emplace_back(copy, size_t(t - 1) * part, size_t(t) * part);
  copy(size_t(threads - 1) * part, bytes);
}

}  // namespace ladder
