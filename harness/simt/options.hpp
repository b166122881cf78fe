// What the environment, or a test, asks of the CPU device beyond running kernels (include/simt.h says what each does).
#pragma once
#include <atomic>
#include <cstdint>

namespace simt::options {

inline std::atomic<uint64_t> shuffle = 0;   ///< the seed; 0: threads and blocks in their own order
inline std::atomic<uint64_t> launches = 0;  ///< since the seed was set: each launch draws another order
inline std::atomic<bool> races = false;     ///< look for races; a checked build only
inline std::atomic<bool> late_streams = false;
inline std::atomic<int> devices = 1;
inline constexpr int most_devices = 64;

}  // namespace simt::options
