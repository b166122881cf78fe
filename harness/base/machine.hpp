// What this machine has.
#pragma once
#include <unistd.h>

#include <cstdint>

namespace ladder {

/// Bytes of main memory, in use or not.
inline int64_t main_memory_bytes() { return int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

}  // namespace ladder
