// The worker: everything that touches a device, or a variant, runs in one of these, started anew by `ladder`.
// Compiled once per home: ladder_worker_simt (the CPU device, and native CPU code), ladder_worker_cuda (GPUs).
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <regex>
#include <thread>

#include "base/clock.hpp"
#include "base/folders.hpp"
#include "base/machine.hpp"
#include "base/source_text.hpp"
#include "worker/apart/serve.hpp"
#include "worker/ceilings.hpp"
#include "worker/device_helpers.hpp"
#include "worker/module.hpp"
#include "worker/peer.hpp"
#include "worker/ranks.hpp"
#include "worker/sampler.hpp"
#include "worker/session.hpp"

namespace {
using namespace ladder;
using nlohmann::json;
namespace fs = std::filesystem;

double entered = 0;  // when main began

#ifdef LADDER_WORKER_CUDA
constexpr DeviceKind home = DeviceKind::cuda;
#else
constexpr DeviceKind home = DeviceKind::simt;
#endif

Device describe(DeviceKind kind, int ordinal) {
  Device device;
  device.kind = kind;
  if (kind == DeviceKind::cpu) {
    device.name = "native CPU code";
    device.host_memory = true;
    device.multiprocessors = int(std::thread::hardware_concurrency());
    return device;
  }
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, ordinal), "reading the properties of the device");
  device.name = p.name;
  device.ordinals = {ordinal};
  if (kind == DeviceKind::cuda) device.compute_capability = p.major * 10 + p.minor;
  device.multiprocessors = p.multiProcessorCount;
  device.memory_bytes = p.totalGlobalMem;
  device.constant_bytes = p.totalConstMem;
  device.shared_bytes = p.sharedMemPerBlock;
  device.shared_bytes_optin = p.sharedMemPerBlockOptin;
  return device;
}

#ifdef LADDER_WORKER_CUDA
/// The driver's own version ("580.65.06"), of which the runtime API knows only the CUDA version that it supports.
std::string driver_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::smatch version;
  return std::regex_search(text, version, std::regex("[0-9]+\\.[0-9]+(\\.[0-9]+)?")) ? version.str() : "unknown";
}

json ceilings(const std::string& device) { return measure_gpu_ceilings(std::stoi(device)); }

void add_gpu_facts(json& entry, const Device& device) {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device.ordinals[0]), "reading a property of the device");
    return value;
  };
  entry["compute_capability"] = fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10);
  entry["driver"] = driver_version();
  entry["cuda"] = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
  entry["sm_clock_mhz"] = attribute(cudaDevAttrClockRate) * 1e-3;
  entry["memory_clock_mhz"] = attribute(cudaDevAttrMemoryClockRate) * 1e-3;
  entry["ecc"] = attribute(cudaDevAttrEccEnabled) != 0;
  const int node = numa_node_of(device_helpers::bus_id(device.ordinals[0]));
  entry["numa_node"] = node < 0 ? json() : json(node);
}
#else
/// The CPU device tells nothing about a GPU, and has no ceiling; the host beneath it has.
json ceilings(const std::string& device) { return device == "cpu" ? measure_cpu_ceilings() : json(nullptr); }

void add_gpu_facts(json&, const Device&) {}
#endif

/// The devices of this home, for `ladder list` and for a record's context.
json devices() {
  json found = json::array();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const Device device = describe(home, ordinal);
    json entry = {{"kind", to_string(home)},
                  {"ordinal", ordinal},
                  {"name", device.name},
                  {"multiprocessors", device.multiprocessors},
                  {"memory_bytes", device.memory_bytes}};
    add_gpu_facts(entry, device);
    found.push_back(entry);
  }
  return found;
}

/// Runs one small kernel, and says at which clock: does the device work at all, and may its counters be read?
json probe(int ordinal) {
  unsigned long long *on_device = nullptr, cycles_and_ns[2] = {};
  check(cudaSetDevice(ordinal), fmt::format("choosing device {}", ordinal));
  check(cudaMalloc(reinterpret_cast<void**>(&on_device), sizeof cycles_and_ns), "taking device memory");
  device_helpers::measure_clock(on_device, nullptr);
  check(cudaMemcpy(cycles_and_ns, on_device, sizeof cycles_and_ns, cudaMemcpyDeviceToHost), "running a kernel");
  cudaFree(on_device);
  const auto [cycles, ns] = cycles_and_ns;
  return {{"sm_mhz", ns && home == DeviceKind::cuda ? json(double(cycles) / double(ns) * 1e3) : json()}};
}

/// Writes the module's card to a file. A module without a usable card still gets a file: one that says why.
/// `source`: the file that the module was compiled from, just now. Of a module that was built otherwise: empty.
int write_card(const fs::path& module, DeviceKind kind, const fs::path& out, const fs::path& source) {
  json card;
  try {
    card = to_json(*load_card(fs::absolute(module)), kind);
    if (!source.empty()) card["source_hash"] = source_hash(source, source_folder());
  } catch (const std::exception& error) {
    card = {{"id", module.stem().string()}, {"device", to_string(kind)}, {"error", error.what()}};
    fmt::print(stderr, "{}: {}\n", module.stem().string(), error.what());
  }
  const fs::path part = out.string() + ".part";
  std::ofstream(part) << card.dump(1) << "\n";
  fs::rename(part, out);
  return 0;
}

/// Where events go: an open file's number, or the name of one that is to be opened. A tool that starts this program may
/// have closed what it was given.
int events_of(const std::string& word) {
  if (word.find_first_not_of("0123456789") == std::string::npos) return std::stoi(word);
  const int opened = open(word.c_str(), O_WRONLY | O_CLOEXEC);
  if (opened < 0) throw Error(fmt::format("{} cannot be opened to report to: {}", word, std::strerror(errno)));
  return opened;
}

/// Where GPUs are all attached to one of several NUMA nodes: host threads and memory of this process, from now on, are
/// of that node. The way to another one is longer, and which one a process gets would differ from session to session.
void stay_beside(const Device& gpus) {
  if (gpus.kind != DeviceKind::cuda) return;
  const int node = numa_node_of(device_helpers::bus_id(gpus.ordinals[0]));
  const auto beside = [&](int ordinal) { return numa_node_of(device_helpers::bus_id(ordinal)) == node; };
  if (node >= 0 && std::all_of(gpus.ordinals.begin(), gpus.ordinals.end(), beside)) stay_on_numa_node(node);
}

/// The device of a request, for this rank: its share of the request's GPUs, the first of them current, unless another
/// process uses them for this one. Sets `missing` to the reason where this machine has fewer.
Device device_of(const Request& request, int rank, std::string& missing, bool current = true) {
  const size_t each = std::max<size_t>(1, request.ordinals.size() / size_t(request.ranks));
  std::vector<int> ordinals = {0};
  if (home == DeviceKind::simt) {  // each process has CPU devices of its own
    for (int device = 1; device < int(each); ++device) ordinals.push_back(device);
#ifndef LADDER_WORKER_CUDA
    if (current) simt_set_devices(int(each));
#endif
  } else if (!request.ordinals.empty()) {
    const auto first = request.ordinals.begin() + std::ptrdiff_t(each) * rank;
    ordinals.assign(first, first + std::ptrdiff_t(each));
  }
  if (request.device != DeviceKind::cpu) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    const int highest = home == DeviceKind::simt || request.ordinals.empty()
                            ? ordinals.back()
                            : *std::max_element(request.ordinals.begin(), request.ordinals.end());
    if (highest >= count && each * size_t(request.ranks) > 1) {
      missing = fmt::format("needs {} GPUs up to number {}, and this machine has {}", request.ordinals.size(), highest,
                            count);
      return {};
    }
  }
  Device device = describe(request.device, ordinals[0]);
  device.host_memory = device.host_memory || is_peer(request.module);
  if (request.device == DeviceKind::cpu) return device;
  device.ordinals = ordinals;
  stay_beside(device);
  if (current)
    check(cudaSetDevice(ordinals[0]), fmt::format("choosing {} device {}", to_string(request.device), ordinals[0]));
  return device;
}

/// The device of a process that runs a variant for another one.
Device device_to_serve(const Request& request) {
  std::string missing;
  const Device device = device_of(request, 0, missing);
  if (!missing.empty()) throw Error(missing);
  return device;
}

/// The device of a cold start, with its context: what the runtime makes of it at the first call that needs one.
Device device_with_context(const Request& request) {
  const Device device = device_to_serve(request);
  if (!device.host_memory) check(cudaFree(nullptr), "making a context on the device");
  return device;
}

/// Runs the session of a request. `shared`: the process is to take another one after it. `launched`: by MPI's launcher,
/// as were the other ranks. Returns whether it can take another: nothing went wrong, and nothing of this session is
/// left that could go wrong later.
bool run_one(const fs::path& request_file, bool shared, bool launched, const Report& report) {
  report({{"event", "begin"}});
  const Request request = json::parse(std::ifstream(request_file));
  if (request.begun > 0) {
    run_cold_start(
        request, entered, [&] { return device_with_context(request); }, report);
    report({{"event", "end"}});
    return false;
  }
  start_benchmark(request.benchmark_flags);
  std::string missing;
  const bool apart = request.judge == "apart";
  Device device = device_of(request, 0, missing, !apart);
  if (!missing.empty()) {
    report({{"event", "refused"}, {"reason", missing}});
    report({{"event", "end"}});
    return false;
  }
  if (apart) {
    const bool right = judge_session(request, device, report, "/proc/self/exe");
    report({{"event", "end"}});
    return shared && right;
  }
  device.poisons = shared && request.device == DeviceKind::cuda;  // the CPU device does so by itself
  std::unique_ptr<Ranks> ranks;
  if (request.ranks > 1) {
    ranks = Ranks::lead(request_file, request.ranks, launched, [&](const std::string& reason) {
      report({{"event", "error"}, {"reason", reason}});
      _exit(1);
    });
  }
  const bool right = run_session(request, device, report, ranks.get());
  if (ranks) ranks->finish();
  report({{"event", "end"}});
  return shared && right && cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess;
}

/// Another rank than 0 of the session of a request.
int follow(const fs::path& request_file, int rank) {
  const Request request = json::parse(std::ifstream(request_file));
  std::string missing;
  const Device device = device_of(request, rank, missing);
  if (!missing.empty()) return 0;  // rank 0 says so
  const auto ranks = Ranks::follow(request_file, rank, request.ranks);
  try {
    follow_session(request, device, *ranks);
    ranks->finish();
    return 0;
  } catch (const std::exception& error) {
    ranks->give_up(error.what());
  }
}

int run(const fs::path& request_file, int events, const std::string& more, bool launched);

/// A rank that MPI's launcher started: its number is in the environment.
int run_launched(const fs::path& request_file, const std::string& events) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a launcher that is killed takes it along
  const Request request = json::parse(std::ifstream(request_file));
  const LaunchedRank launched = rank_from_launcher();
  if (launched.rank < 0)
    throw Error("the launcher of MPI tells its processes no rank in a way known here: use --launcher own");
  if (launched.count > 0 && launched.count != request.ranks)
    throw Error(fmt::format("the launcher of MPI started {} processes, not {}", launched.count, request.ranks));
  if (launched.rank > 0) return follow(request_file, launched.rank);
  return run(request_file, events_of(events), "", true);
}

/// `more`: the number of an open file with the names of further requests, a line each, or empty. A session that went
/// wrong is the last.
int run(const fs::path& request_file, int events, const std::string& more, bool launched) {
  std::mutex whole_lines;  // a thread that watches other ranks reports, too
  const Report report = [&](const json& event) {
    const std::lock_guard lock(whole_lines);
    const std::string line = event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count = write(events, line.data() + sent, line.size() - sent);
      if (count < 0) throw Error("the run that asked for this session is gone");
      sent += size_t(count);
    }
  };
  try {
    std::ifstream requests("/dev/fd/" + more);
    std::string next = request_file;
    while (run_one(next, !more.empty(), launched, report)) {
      std::fflush(nullptr);  // what was written belongs to the session that wrote it
      report({{"event", "next"}});
      if (!std::getline(requests, next)) break;
    }
    return 0;
  } catch (const std::exception& error) {
    report({{"event", "error"}, {"reason", error.what()}});
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  entered = now_seconds();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 1 && words[0] == "devices") {
      std::cout << devices().dump() << "\n";
      return 0;
    }
    if (words.size() == 2 && words[0] == "ceilings") {
      std::cout << ceilings(words[1]).dump() << "\n";
      return 0;
    }
    if (words.size() == 2 && words[0] == "probe") {
      std::cout << probe(std::stoi(words[1])).dump() << "\n";
      return 0;
    }
    if ((words.size() == 4 || words.size() == 5) && words[0] == "card")
      return write_card(words[1], device_kind(words[2]), words[3], words.size() == 5 ? words[4] : "");
    if ((words.size() == 3 || words.size() == 4) && words[0] == "run")
      return run(words[1], events_of(words[2]), words.size() == 4 ? words[3] : "", false);
    if (words.size() == 3 && words[0] == "accused")
      return apart::serve(std::stoi(words[1]), std::stoi(words[2]), device_to_serve);
    if (words.size() == 3 && words[0] == "launched") return run_launched(words[1], words[2]);
    if (words.size() == 3 && words[0] == "follow") return follow(words[1], std::stoi(words[2]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr,
             "usage: {} devices | ceilings ORDINAL|cpu | card MODULE HOME OUT.json [SOURCE] | "
             "run REQUEST.json EVENTS [REQUESTS] | launched REQUEST.json EVENTS | follow REQUEST.json RANK | "
             "accused MAILBOX REQUEST | probe ORDINAL\n",
             argv[0]);
  return 2;
}
