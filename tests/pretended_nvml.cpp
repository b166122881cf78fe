// Stands for the driver's library: one GPU with a meter, and one without.
#include <cstring>

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, const char** device) {
  *device = std::strcmp(address, "0000:1B:00.0") == 0 ? "metered" : "bare";
  return std::strcmp(address, "0000:2C:00.0") == 0 ? 6 : 0;  // not found
}
int nvmlDeviceGetPowerUsage(const char* device, unsigned* milliwatts) {
  *milliwatts = 412'500;
  return std::strcmp(device, "metered") == 0 ? 0 : 3;  // not supported
}
int nvmlDeviceGetEnforcedPowerLimit(const char*, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return 0;
}
}
