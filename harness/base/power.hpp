// The power draw of a GPU, from the driver's library (NVML). The library exists only beside a driver, so it is loaded
// at run time. Source: NVML API Reference Guide, nvmlDeviceGetPowerUsage, nvmlDeviceGetEnforcedPowerLimit.
#pragma once
#include <optional>
#include <string>

namespace ladder {

struct Power {
  double watts;  ///< the average of the last second
  double limit;  ///< watts that the driver lets it draw
};

class PowerMeter {
 public:
  /// Of the GPU with this PCI address, as cudaDeviceGetPCIBusId() writes it.
  explicit PowerMeter(const std::string& bus_id, const char* library = "libnvidia-ml.so.1");
  ~PowerMeter();
  PowerMeter(const PowerMeter&) = delete;
  PowerMeter& operator=(const PowerMeter&) = delete;

  /// Nothing where the library, the GPU or its meter is not there.
  std::optional<Power> read() const;

 private:
  using Device = struct DeviceOfNvml*;
  using Read = int (*)(Device, unsigned*);
  template <class F>
  F find(const char* name) const;

  void* library_ = nullptr;
  Device device_ = nullptr;
  Read usage_ = nullptr, limit_ = nullptr;  // milliwatts; 0 is success
};

}  // namespace ladder
