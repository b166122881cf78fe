#include "base/power.hpp"

#include <dlfcn.h>

namespace ladder {

template <class F>
F PowerMeter::find(const char* name) const {
  return reinterpret_cast<F>(dlsym(library_, name));
}

PowerMeter::PowerMeter(const std::string& bus_id, const char* library)
    : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) return;
  const auto begin = find<int (*)()>("nvmlInit_v2");
  const auto by_address = find<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (!begin || !by_address || begin() != 0) return;
  if (by_address(bus_id.c_str(), &device_) != 0) return;
  usage_ = find<Read>("nvmlDeviceGetPowerUsage");
  limit_ = find<Read>("nvmlDeviceGetEnforcedPowerLimit");
}

PowerMeter::~PowerMeter() {
  if (library_) dlclose(library_);
}

std::optional<Power> PowerMeter::read() const {
  unsigned usage = 0, limit = 0;
  if (!usage_ || !limit_ || usage_(device_, &usage) != 0 || limit_(device_, &limit) != 0) return std::nullopt;
  return Power{usage * 1e-3, limit * 1e-3};
}

}  // namespace ladder
