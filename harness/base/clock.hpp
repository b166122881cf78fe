// The host's clock: the one that everything here tells the time by.
#pragma once
#include <chrono>

namespace ladder {

/// Monotonic clock in seconds.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ladder
