// A session on a small problem, through the very code that `ladder run` uses; what it reports, in one piece.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/npy.hpp"
#include "worker/peer.hpp"
#include "worker/sampler.hpp"
#include "worker/session.hpp"
#include "workloads/variants.hpp"

namespace ladder::test {

struct Outcome {
  std::string refused, fault;
  nlohmann::json result;
  std::map<std::string, Timed> timed;  // by scope
};

inline Device device_of(DeviceKind kind, const std::vector<int>& ordinals, bool peer) {
  Device device;
  device.kind = kind;
  device.host_memory = kind == DeviceKind::cpu || peer;
  if (kind == DeviceKind::cpu) return device;
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, 0), "reading the properties of the device");
  device.name = p.name;
  device.ordinals = ordinals;
  device.compute_capability = 10 * p.major + p.minor;
  device.multiprocessors = p.multiProcessorCount;
  device.memory_bytes = p.totalGlobalMem;
  device.shared_bytes = p.sharedMemPerBlock;
  device.shared_bytes_optin = p.sharedMemPerBlockOptin;
  return device;
}

/// Variants built below BUILD_FOLDER/`folder` for this program's home and for the CPU, as (kind, module).
inline std::vector<std::pair<DeviceKind, Variant>> built(const std::string& folder) {
  std::vector<std::pair<DeviceKind, Variant>> found;
  for (const Variant& v : find_variants({std::filesystem::path(BUILD_FOLDER) / folder})) {
    const DeviceKind home = device_kind(HOME_KIND);
    for (const DeviceKind kind : {home, DeviceKind::cpu}) {
      // Native CPU code is tested once, beside simt.
      if (v.modules.count(kind) && (kind == home || home == DeviceKind::simt)) found.push_back({kind, v});
    }
  }
  return found;
}

/// Rungs that another one changes a step of: CMakeLists.txt says which.
inline std::set<std::string> rungs_built_upon() {
  std::ifstream file(std::filesystem::path(BUILD_FOLDER) / "rungs_built_upon.txt");
  return {std::istream_iterator<std::string>(file), {}};
}

/// What such a rung keeps is tried through that other one, and the CPU device is slow: why a test of the rung itself is
/// left out there; empty where it is not. `run_all.sh test --all` leaves none out, a GPU neither.
inline std::string why_left_out(DeviceKind kind, const std::string& id) {
  static const std::set<std::string> built_upon = rungs_built_upon();
  if (kind != DeviceKind::simt || !built_upon.count(id) || std::getenv("LADDER_TEST_ALL")) return "";
  return "tried through the rung that builds upon it; LADDER_TEST_ALL=1 tries this one, too";
}

/// Why the device of this program cannot be used; empty where it can.
inline std::string why_no_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return "";
  return "no GPU works here";
}

/// Runs the phases of `variant` on points (n x d) from the given centroids (k x d), without timing anything. `other`: a
/// device in the place of this program's.
template <class T>
Outcome validate_variant(DeviceKind kind, const Variant& variant, const std::vector<T>& points,
                         const std::vector<T>& centroids, int d, const Stop& stop, std::vector<std::string> scopes = {},
                         const std::function<void(Request&)>& adapt = {}, const std::optional<Device>& other = {}) {
  const auto folder = std::filesystem::temp_directory_path() / ("ladder-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Request request;
  request.variant = variant.id;
  request.workload = "test";
  request.module = variant.modules.at(kind).string();
  request.device = kind;
  if (kind != DeviceKind::cpu) request.ordinals = {0};
  request.points = (folder / "points.npy").string();
  request.centroids = (folder / "centroids.npy").string();
  request.type = sizeof(T) == 4 ? "f32" : "f64";
  request.stop = stop;
  request.scopes = std::move(scopes);
  request.warm_up_seconds = 0.01;
  request.min_seconds = 0;
  request.max_seconds = 0.05;
  write_npy(request.points, points.data(), {points.size() / d, size_t(d)});
  write_npy(request.centroids, centroids.data(), {centroids.size() / d, size_t(d)});
  if (adapt) adapt(request);
  start_benchmark(request.benchmark_flags);
  Outcome outcome;
  const auto report = [&](const nlohmann::json& event) {
    if (event["event"] == "refused") outcome.refused = event["reason"];
    if (event["event"] == "timed") outcome.timed[event["scope"]] = event.get<Timed>();
    if (event["event"] == "result") outcome.result = event, outcome.fault = event["fault"];
  };
  try {
    const Device device = other ? *other : device_of(kind, request.ordinals, is_peer(request.module));
    // LADDER_TEST_APART=1: in a process of its own, as `ladder run --judge apart` has it.
    const bool one = request.ranks == 1 && request.ordinals.size() < 2 && !other;
    if (std::getenv("LADDER_TEST_APART") && one)
      judge_session(request, device, report, std::string(BUILD_FOLDER) + "/ladder_worker_" + HOME_KIND);
    else
      run_session(request, device, report);
  } catch (const std::exception& error) {
    outcome.fault = error.what();                    // a kernel that was stopped
    if (kind != DeviceKind::cpu) cudaDeviceReset();  // and took the context with it: others need one
  }
  std::filesystem::remove_all(folder);
  return outcome;
}

}  // namespace ladder::test
