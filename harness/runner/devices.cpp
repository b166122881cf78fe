#include "runner/devices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json ask_devices(DeviceKind kind) {
  const fs::path program = worker(kind);
  if (!fs::exists(program)) return json::array();
  const json found = json::parse(output_of(fmt::format("{} devices", quoted(program.string()))), nullptr, false);
  return found.is_array() ? found : json::array();
}

}  // namespace

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return "";
  std::string text;
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
  return pclose(pipe) == 0 ? text : "";
}

fs::path worker(DeviceKind kind) {
  return program_folder() / (kind == DeviceKind::cuda ? "ladder_worker_cuda" : "ladder_worker_simt");
}

json find_devices() {
  json devices = ask_devices(DeviceKind::cuda);
  for (const json& simt : ask_devices(DeviceKind::simt)) devices.push_back(simt);
  devices.push_back({{"kind", "cpu"},
                     {"ordinal", 0},
                     {"name", "native CPU code"},
                     {"multiprocessors", int(sysconf(_SC_NPROCESSORS_ONLN))},
                     {"memory_bytes", main_memory_bytes()}});
  return devices;
}

std::string why_no_gpu() {
  if (!fs::exists(worker(DeviceKind::cuda)))
    return "this build has no CUDA in it (nvcc was not found when it was made)";
  return "the CUDA runtime finds no GPU that works (is there one, and its driver? nvidia-smi tells)";
}

json choose_gpu(const json& devices, int ordinal) {
  json chosen;
  int gpus = 0;
  for (json device : devices) {
    if (device["kind"] != "cuda") continue;
    ++gpus;
    if (device["ordinal"] != ordinal) continue;
    for (const char* key : {"kind", "ordinal"}) device.erase(key);
    chosen = device;
  }
  if (gpus > 0 && chosen.is_null())
    throw Error(fmt::format("--gpu {}: this machine's GPUs are numbered 0 to {}", ordinal, gpus - 1));
  return chosen;
}

std::vector<DeviceKind> device_kinds(const std::string& name, bool gpu) {
  if (name == "cuda" && !gpu)
    throw Error(fmt::format("no CUDA device: {}; --device simt runs the same on the CPU", why_no_gpu()));
  if (name == "auto") return {gpu ? DeviceKind::cuda : DeviceKind::simt, DeviceKind::cpu};
  if (name == "all") {
    if (gpu) return {DeviceKind::cuda, DeviceKind::simt, DeviceKind::cpu};
    return {DeviceKind::simt, DeviceKind::cpu};
  }
  if (name == "cpu") return {DeviceKind::cpu};
  return {device_kind(name), DeviceKind::cpu};  // CPU variants run beside either
}

void run_tool(const std::string& command, const std::string& what, const fs::path& log) {
  fmt::print(stderr, "{} ... ", what);
  std::fflush(stderr);
  const double begin = now_seconds();
  std::future<int> running =
      std::async(std::launch::async, [&] { return std::system((command + " >" + quoted(log) + " 2>&1").c_str()); });
  // Ninja counts its steps at the beginning of each line, "[12/61] ...": shown where somebody looks.
  for (std::string shown; running.wait_for(std::chrono::seconds(1)) != std::future_status::ready;) {
    if (!isatty(STDERR_FILENO) || !fs::exists(log)) continue;
    const std::string text = read_whole(log), line = text.substr(text.rfind("\n[") + 1);
    const std::string steps = line.starts_with('[') ? line.substr(0, line.find(']') + 1) : "";
    if (steps.empty() || steps == shown) continue;
    fmt::print(stderr, "{}{}", std::string(shown.size(), '\b'), steps);
    std::fflush(stderr);
    shown = steps;
  }
  const int status = running.get();
  fmt::print(stderr, "{:.0f} s\n", now_seconds() - begin);
  if (status != 0) throw Error(fmt::format("`{}` failed:\n{}", command, read_whole(log)));
}

}  // namespace ladder
