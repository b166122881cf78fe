// Launches: what the device refuses, and how blocks are spread over the workers.
#include <pthread.h>
#include <simt/runtime.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "crash.hpp"
#include "device.hpp"
#include "fault.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "streams.hpp"
#include "worker.hpp"

namespace simt {

/// A number above 0 in the environment, else 0.
static int number_named(const char* name) {
  int wanted = 0;
  if (const char* text = std::getenv(name)) std::from_chars(text, text + std::strlen(text), wanted);
  return std::max(0, wanted);
}

int device::workers() {
  static const int workers = [] {
    const int wanted = number_named("SIMT_WORKERS");
    return wanted > 0 ? wanted : std::max(1, int(std::thread::hardware_concurrency()));
  }();
  return workers;
}

int device::multiprocessors() {
  static const int multiprocessors = [] {
    const int wanted = number_named("SIMT_MULTIPROCESSORS");
    return wanted > 0 ? wanted : workers();
  }();
  return multiprocessors;
}

int device::resident_blocks(int block_size, size_t dynamic_shared_bytes) {
  if (block_size < 1 || block_size > max_threads_per_block || dynamic_shared_bytes > shared_bytes_optin) return 0;
  const int by_threads = max_threads_per_multiprocessor / ((block_size + 31) / 32 * 32);
  const int by_shared = int(shared_bytes_per_multiprocessor / (dynamic_shared_bytes + 1024));  // 1 KB is the system's
  return std::min({max_blocks_per_multiprocessor, by_threads, by_shared});
}

// -------------------------------------------------------------------------------------------------------------- launch

Launch::Launch(const KernelCall& c)
    : call(c),
      blocks(uint64_t(c.grid.x) * c.grid.y * c.grid.z),
      seed(options::shuffle == 0 ? 0 : Random(options::shuffle + (options::launches++ << 32)).next() | 1) {
  if (seed == 0) return;
  Random random(seed);
  offset_ = random.below(blocks);
  do step_ = 1 + random.below(blocks);
  while (std::gcd(step_, blocks) != 1);
}

// ------------------------------------------------------------------------------------------------------- grid barrier

bool Launch::arrive_at_grid_barrier() {
  std::unique_lock lock(mutex_);
  const uint64_t generation = generation_;
  if (++arrived_ == blocks) {
    arrived_ = 0;
    ++generation_;
#ifdef SIMT_CHECKED
    if (next_run) *next_run += blocks;
#endif
    changed_.notify_all();
    return true;
  }
  // A block that has ended will never come.
  changed_.wait(lock, [&] { return generation_ != generation || failed || arrived_ + blocks_ended_ == blocks; });
  return generation_ != generation;
}

void Launch::leave_grid() {
  std::lock_guard lock(mutex_);
  ++blocks_ended_;
  changed_.notify_all();
}

void Launch::fail() {
  std::lock_guard lock(mutex_);
  failed = true;
  changed_.notify_all();
}

// ------------------------------------------------------------------------------------------------------------- workers
namespace {

/// OS threads that live as long as the process. The one that launches works too.
class Pool {
 public:
  Pool() : caller_worker_(std::make_unique<Worker>()) { catch_signals(); }

  void run(Launch& launch) {
    std::lock_guard one_launch_at_a_time(launch_mutex_);
#ifdef SIMT_CHECKED
    number_runs(launch);
#endif
    if (launch.call.in_cluster || (launch.call.cooperative && launch.blocks > 1)) return run_cooperative(launch);
    if (launch.blocks > 1) {
      start_helpers();
      std::lock_guard lock(mutex_);
      launch_ = &launch;
      ++generation_;
      wake_.notify_all();
    }
    caller_worker_->run(launch);
    std::unique_lock lock(mutex_);
    launch_ = nullptr;  // workers that have not woken by now are not needed
    idle_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
#ifdef SIMT_CHECKED
  /// Each block of each launch is a run of its own to races.hpp; one between two grid barriers, too.
  void number_runs(Launch& launch) {
    constexpr uint64_t most = 1u << 30;
    const uint64_t next = next_run_.load();
    launch.watches_races = options::races && launch.blocks < most;
    if (!launch.watches_races) return;
    if (next + launch.blocks > most * 3) {
      memory::forget_accesses();
      next_run_ = 1;
    }
    launch.first_run = uint32_t(next_run_.load());
    launch.next_run = &next_run_;
    next_run_ = launch.first_run + launch.blocks;
  }
  std::atomic<uint64_t> next_run_ = 1;
#endif

  void start_helpers() {
    for (; helpers_ < device::workers() - 1; ++helpers_) std::thread([this] { help(); }).detach();
  }

  void help() {
    Worker worker;
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return launch_ && generation_ != seen; });
      seen = generation_;
      Launch& launch = *launch_;
      ++busy_;
      lock.unlock();
      worker.run(launch);
      lock.lock();
      if (--busy_ == 0) idle_.notify_all();
    }
  }

  /// All blocks must be under way together: an OS thread for each.
  void run_cooperative(Launch& launch) {
    while (cooperative_.size() < launch.blocks) cooperative_.push_back(std::make_unique<Worker>());
    std::vector<std::jthread> threads;
    for (uint64_t block = 0; block < launch.blocks; ++block) {
      threads.emplace_back([&, block] { cooperative_[block]->run(launch, block); });
    }
  }

  std::mutex launch_mutex_;
  std::unique_ptr<Worker> caller_worker_;
  std::vector<std::unique_ptr<Worker>> cooperative_;
  int helpers_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Launch* launch_ = nullptr;
  uint64_t generation_ = 0;
  int busy_ = 0;
};

/// Made by the first launch. Never destroyed, as its threads never end; a forked child has none of them and makes its
/// own.
Pool& pool() {
  static std::atomic<Pool*> pool = nullptr;
  static std::mutex mutex;
  if (Pool* made = pool) return *made;
  std::lock_guard lock(mutex);
  if (!pool) {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
    if (registered == 0) pool = new Pool;
  }
  return *pool;
}

std::mutex attributes_mutex;
std::map<const void*, size_t> dynamic_shared_limits;  // of kernels that asked for more than the usual
std::set<const void*> large_clusters;                 // kernels that asked for more than 8 blocks
std::map<const void*, size_t> static_bytes;           // of kernels that were launched

/// Bytes of __shared__ variables that a kernel declares; found once for each kernel.
size_t static_shared_bytes(const void* kernel) {
  std::lock_guard lock(attributes_mutex);
  const auto [known, is_new] = static_bytes.try_emplace(kernel, 0);
  if (is_new) known->second = module::static_shared_bytes(kernel);
  return known->second;
}

cudaError_t refuse_cluster(const KernelCall& call) {
  const dim3 cluster = call.cluster, grid = call.grid;
  const uint64_t blocks = uint64_t(cluster.x) * cluster.y * cluster.z;
  const auto described = [&](const char* what, dim3 size) { return what + text(uint3{size.x, size.y, size.z}); };
  if (cluster.x != grid.x || cluster.y != grid.y || cluster.z != grid.z) {
    return refuse(cudaErrorInvalidClusterSize, described("clusters of ", cluster) +
                                                   described(" blocks in a grid of ", grid) +
                                                   ": on the CPU device a cluster must be the whole grid");
  }
  std::lock_guard lock(attributes_mutex);
  const int most = large_clusters.count(call.kernel) ? device::max_blocks_of_cluster : device::usual_blocks_of_cluster;
  if (blocks > uint64_t(most)) {
    return refuse(cudaErrorInvalidClusterSize,
                  "a cluster of " + std::to_string(blocks) + " blocks: it can have " + std::to_string(most) + " (" +
                      std::to_string(device::max_blocks_of_cluster) +
                      " if the kernel asks with cudaFuncAttributeNonPortableClusterSizeAllowed)");
  }
  return cudaSuccess;
}

cudaError_t refuse_launch(const KernelCall& call) {
  using std::to_string;
  const unsigned block[] = {call.block.x, call.block.y, call.block.z};
  const unsigned grid[] = {call.grid.x, call.grid.y, call.grid.z};
  const auto too_many = [&](const char* what, const unsigned* size, int axis, int limit) {
    return refuse(cudaErrorInvalidConfiguration, std::string(what) + " " + text(uint3{size[0], size[1], size[2]}) +
                                                     ": its size in " + "xyz"[axis] + " is " + to_string(size[axis]) +
                                                     ", it must be 1 to " + to_string(limit));
  };
  const uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  if (threads > unsigned(device::max_threads_per_block)) {
    return refuse(cudaErrorInvalidConfiguration, "a block of " + to_string(threads) + " threads: the limit is " +
                                                     to_string(device::max_threads_per_block));
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (block[axis] < 1 || block[axis] > unsigned(device::max_block_size[axis]))
      return too_many("block", block, axis, device::max_block_size[axis]);
    if (grid[axis] < 1 || grid[axis] > unsigned(device::max_grid_size[axis]))
      return too_many("grid", grid, axis, device::max_grid_size[axis]);
  }
  const size_t fixed = static_shared_bytes(call.kernel), dynamic = call.dynamic_shared_bytes;
  if (fixed > device::shared_bytes) {
    return refuse(cudaErrorLaunchOutOfResources,
                  "kernel " + module::function_name(call.kernel) + " declares " + to_string(fixed) +
                      " bytes of static __shared__ memory, a block has " + to_string(device::shared_bytes) +
                      ": use dynamic_shared<T>() and pass the bytes to launch(...)");
  }
  size_t limit = device::shared_bytes;
  if (dynamic > 0) {
    std::lock_guard lock(attributes_mutex);
    const auto asked = dynamic_shared_limits.find(call.kernel);
    if (asked != dynamic_shared_limits.end()) limit = std::max(limit, asked->second);
  }
  if (fixed + dynamic > limit) {
    return refuse(cudaErrorInvalidValue,
                  to_string(dynamic) + " bytes of dynamic shared memory" +
                      (fixed > 0 ? " beside " + to_string(fixed) + " bytes of __shared__ variables" : "") +
                      ": the block has " + to_string(limit) + " (" + to_string(device::shared_bytes_optin) +
                      " at most, if the kernel asks with cudaFuncSetAttribute)");
  }
  if (call.in_cluster) {
    if (const cudaError_t error = refuse_cluster(call); error != cudaSuccess) return error;
  }
  if (call.cooperative || call.in_cluster) {
    const int resident = device::resident_blocks(int(threads), fixed + dynamic);
    const uint64_t most = uint64_t(resident) * unsigned(device::multiprocessors());
    if (uint64_t(grid[0]) * grid[1] * grid[2] > most) {
      return refuse(cudaErrorCooperativeLaunchTooLarge,
                    std::string(call.in_cluster ? "a cluster" : "a cooperative launch") + " of " +
                        to_string(uint64_t(grid[0]) * grid[1] * grid[2]) + " blocks: " + to_string(most) +
                        " fit at once");
    }
  }
  return cudaSuccess;
}

std::atomic<const KernelCall*> running_call = nullptr;  // for describe_signal

}  // namespace

std::string describe_signal(int signal, [[maybe_unused]] const void* address) {
  const Worker* const worker = Worker::current();
  if (signal == SIGTERM) {
    const KernelCall* const call = running_call;
    if (!call) return "";
    return "kernel " + module::function_name(call->kernel) + (worker ? ", " + worker->place() : "") +
           " was still running";
  }
#ifndef SIMT_CHECKED
  if (worker) return worker->describe_crash(signal, address);
#endif
  return "";
}

static cudaError_t run_now(const KernelCall& call) {
  if (const cudaError_t lost = lost_context(); lost != cudaSuccess) return lost;
  Launch launch(call);
  running_call = &call;
  pool().run(launch);
  running_call = nullptr;
  std::fflush(stdout);  // what the kernel printed is to be seen, whatever becomes of the process
  return lost_context();
}

cudaError_t run_launch(const KernelCall& call) {
  if (const cudaError_t lost = lost_context(); lost != cudaSuccess) return lost;
  if (const cudaError_t error = refuse_launch(call); error != cudaSuccess) return error;
  if (const cudaError_t error = streams::refuse(call.stream); error != cudaSuccess) return remember(error);
  if (streams::is_late(call.stream)) {
    // The arguments are those of the call, whenever it runs.
    const std::shared_ptr<void> arguments(std::aligned_alloc(64, (call.argument_bytes + 63) / 64 * 64), std::free);
    std::memcpy(arguments.get(), call.arguments, call.argument_bytes);
    KernelCall later = call;
    later.arguments = arguments.get();
    streams::put_off(call.stream, [later, arguments] { run_now(later); });
    return cudaSuccess;
  }
  streams::before_legacy();
  return run_now(call);
}

}  // namespace simt

extern "C" {

int simt_launch(const simt::KernelCall* call) { return simt::run_launch(*call); }

cudaError_t simt_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    std::lock_guard lock(simt::attributes_mutex);
    if (value != 0)
      simt::large_clusters.insert(kernel);
    else
      simt::large_clusters.erase(kernel);
  }
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || size_t(value) > simt::device::shared_bytes_optin) {
    return simt::refuse(cudaErrorInvalidValue, std::to_string(value) +
                                                   " bytes of dynamic shared memory: a block can have " +
                                                   std::to_string(simt::device::shared_bytes_optin) + " at most");
  }
  std::lock_guard lock(simt::attributes_mutex);
  simt::dynamic_shared_limits[kernel] = size_t(value);
  return cudaSuccess;
}

void simt_unregister_constants(const void* begin) {
  // Its module goes: another's kernels may come to lie where its were.
  simt::memory::remove_constants(begin);
  std::lock_guard lock(simt::attributes_mutex);
  simt::static_bytes.clear();
  simt::dynamic_shared_limits.clear();
  simt::large_clusters.clear();
}

cudaError_t simt_occupancy(int* blocks, int block_size, size_t dynamic_shared_bytes) {
  if (!blocks || block_size < 1) return simt::remember(cudaErrorInvalidValue);
  *blocks = simt::device::resident_blocks(block_size, dynamic_shared_bytes);
  return cudaSuccess;
}

cudaError_t simt_function_name(const char** name, const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, std::string> names;
  std::lock_guard lock(mutex);
  std::string& known = names[kernel];
  if (known.empty()) known = simt::module::function_name(kernel);
  *name = known.c_str();
  return cudaSuccess;
}
}
