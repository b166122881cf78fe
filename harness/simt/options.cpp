#include "options.hpp"

#include <simt.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace simt::options {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  uint64_t value = otherwise;
  if (const char* text = std::getenv(name)) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

[[maybe_unused]] const bool read = [] {
#ifdef SIMT_CHECKED
  shuffle = from_environment("SIMT_SHUFFLE", 1);
  races = from_environment("SIMT_RACES", 1) != 0;
  late_streams = from_environment("SIMT_LATE_STREAMS", 1) != 0;
#else
  shuffle = from_environment("SIMT_SHUFFLE", 0);
  late_streams = from_environment("SIMT_LATE_STREAMS", 0) != 0;
#endif
  devices = int(std::clamp<uint64_t>(from_environment("SIMT_DEVICES", 1), 1, most_devices));
  return true;
}();

}  // namespace
}  // namespace simt::options

extern "C" {

unsigned long long simt_set_shuffle(unsigned long long seed) {
  simt::options::launches = 0;
  return simt::options::shuffle.exchange(seed);
}

int simt_set_devices(int count) {
  return simt::options::devices.exchange(std::clamp(count, 1, simt::options::most_devices));
}

int simt_set_races([[maybe_unused]] int on) {
#ifdef SIMT_CHECKED
  return simt::options::races.exchange(on != 0);
#else
  return 0;
#endif
}
}
