// The host side of the runtime: device, memory, copies. (Streams and events: streams.cpp.)
#include <simt.h>
#include <simt/host_api.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "device.hpp"
#include "fault.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace {

using simt::lost_context;
using simt::remember;
namespace device = simt::device;
namespace memory = simt::memory;
namespace streams = simt::streams;

/// A call's own result, unless the context is lost: then every call fails with what it was lost to.
cudaError_t done(cudaError_t result = cudaSuccess) {
  const cudaError_t lost = lost_context();
  return lost != cudaSuccess ? lost : remember(result);
}

/// Pairs of devices of which the first may touch the memory of the second.
std::set<std::pair<int, int>> peers;
std::mutex peers_mutex;

struct PageLocked {
  std::mutex mutex;
  std::map<const char*, size_t> allocated, registered;  ///< from where on, how many bytes

  bool holds(const void* address) {
    std::lock_guard lock(mutex);
    const char* const a = static_cast<const char*>(address);
    for (const auto* ranges : {&allocated, &registered}) {
      const auto after = ranges->upper_bound(a);
      if (after != ranges->begin() && size_t(a - std::prev(after)->first) < std::prev(after)->second) return true;
    }
    return false;
  }
};
PageLocked& page_locked() {
  static PageLocked& instance = *new PageLocked;
  return instance;
}

/// Whether bytes are where a copy's direction says: live device memory, or host memory.
bool is_there(const void* address, size_t bytes, bool on_device) {
  if (bytes == 0) return true;
  if (!address) return false;
  return on_device ? memory::is_allocated(address, bytes) : !memory::is_device(address);
}

cudaError_t refuse_copy(const void* to, size_t to_bytes, const void* from, size_t from_bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const bool inferred = kind == cudaMemcpyDefault;
  const bool to_device =
      inferred ? memory::is_device(to) : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      inferred ? memory::is_device(from) : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool fine = is_there(to, to_bytes, to_device) && is_there(from, from_bytes, from_device);
  return fine ? cudaSuccess : cudaErrorInvalidValue;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "cudaMemcpyHostToHost";
    case cudaMemcpyHostToDevice:
      return "cudaMemcpyHostToDevice";
    case cudaMemcpyDeviceToHost:
      return "cudaMemcpyDeviceToHost";
    case cudaMemcpyDeviceToDevice:
      return "cudaMemcpyDeviceToDevice";
    default:
      return "cudaMemcpyDefault";
  }
}

/// What is wrong with a copy that refuse_copy() refuses.
std::string describe_refusal(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const auto where = [&](const void* address) {
    if (!address) return "a null pointer";
    if (!memory::is_device(address)) return "host memory";
    return memory::is_allocated(address, bytes) ? "device memory" : "device memory that has fewer bytes";
  };
  return std::string("the kind is ") + name_of(kind) + ", the destination is " + where(to) + ", the source " +
         where(from) + ", of " + std::to_string(bytes) + " bytes";
}

/// What an asynchronous copy, or another one, is to do: rows of `width` bytes.
struct Copy {
  void* to;
  size_t to_pitch;
  const void* from;
  size_t from_pitch, width, height;
  cudaMemcpyKind kind;

  size_t to_bytes() const { return to_pitch * (height - 1) + width; }
  size_t from_bytes() const { return from_pitch * (height - 1) + width; }
  cudaError_t run() const {
    if (lost_context() != cudaSuccess) return lost_context();
    for (size_t row = 0; row < height; ++row) {
      const char* const source = static_cast<const char*>(from) + row * from_pitch;
#ifdef SIMT_CHECKED
      if (const void* unwritten = memory::is_device(to) ? nullptr : memory::unwritten(source, width)) {
        simt::record_fault(cudaErrorIllegalAddress, "a copy of " + std::to_string(width) +
                                                        " bytes to the host reads memory that was never written: " +
                                                        memory::describe_allocation(unwritten));
        return lost_context();
      }
#endif
      std::memmove(static_cast<char*>(to) + row * to_pitch, source, width);
    }
    return cudaSuccess;
  }
};

/// Whether an asynchronous copy may read or write these bytes later; what is pageable the device never touches itself.
bool is_reachable(const void* address) {
  return memory::is_device(address) || memory::is_allocated(address, 1) || page_locked().holds(address);
}

cudaError_t copy(const Copy& c, cudaStream_t stream) {
  if (lost_context() != cudaSuccess) return lost_context();
  if (const cudaError_t error = streams::refuse(stream); error != cudaSuccess) return remember(error);
  const bool empty = c.width == 0 || c.height == 0;
  const cudaError_t error = refuse_copy(c.to, empty ? 0 : c.to_bytes(), c.from, empty ? 0 : c.from_bytes(), c.kind);
  if (error == cudaErrorInvalidValue) return simt::refuse(error, describe_refusal(c.to, c.from, c.to_bytes(), c.kind));
  if (error != cudaSuccess) return remember(error);
  if (empty) return cudaSuccess;
  if (!streams::is_late(stream)) {
    streams::before_legacy();
    return c.run();
  }
  if (!is_reachable(c.to)) {  // into pageable memory: done when the call returns
    streams::finish(stream);
    return c.run();
  }
  if (is_reachable(c.from)) {
    streams::put_off(stream, [c] { c.run(); });
    return cudaSuccess;
  }
  // From pageable memory: the source is taken now, the copy to the device comes later.
  const char* const from = static_cast<const char*>(c.from);
  streams::put_off(stream, [c, staged = std::vector<char>(from, from + c.from_bytes())] {
    Copy from_staged = c;
    from_staged.from = staged.data();
    from_staged.run();
  });
  return cudaSuccess;
}
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(Copy{to, bytes, from, bytes, bytes, 1, kind}, stream);
}
cudaError_t copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                    cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return done(cudaErrorInvalidValue);
  return copy(Copy{to, to_pitch, from, from_pitch, width, height, kind}, stream);
}

cudaError_t fill(void* address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (lost_context() != cudaSuccess) return lost_context();
  if (const cudaError_t error = streams::refuse(stream); error != cudaSuccess) return remember(error);
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > pitch || !is_there(address, pitch * (height - 1) + width, true)) return remember(cudaErrorInvalidValue);
  return streams::submit(stream, [=] {
    if (lost_context() != cudaSuccess) return lost_context();
    for (size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(address) + row * pitch, value, width);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

// -------------------------------------------------------------------------------------------------------------- device

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  if (ordinal < 0 || ordinal >= simt::options::devices) return done(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "simt (CPU device)");
  properties->totalGlobalMem = memory::total_bytes();
  properties->sharedMemPerBlock = device::shared_bytes;
  properties->sharedMemPerBlockOptin = device::shared_bytes_optin;
  properties->sharedMemPerMultiprocessor = device::shared_bytes_per_multiprocessor;
  properties->totalConstMem = device::constant_bytes;
  properties->regsPerBlock = 65536;
  properties->warpSize = device::warp_size;
  properties->maxThreadsPerBlock = device::max_threads_per_block;
  for (int axis = 0; axis < 3; ++axis) {
    properties->maxThreadsDim[axis] = device::max_block_size[axis];
    properties->maxGridSize[axis] = device::max_grid_size[axis];
  }
  properties->major = device::compute_major;
  properties->minor = device::compute_minor;
  properties->multiProcessorCount = device::multiprocessors();
  properties->maxThreadsPerMultiProcessor = device::max_threads_per_multiprocessor;
  properties->maxBlocksPerMultiProcessor = device::max_blocks_per_multiprocessor;
  properties->cooperativeLaunch = 1;
  properties->integrated = 1;
  return done();
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int ordinal) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrTotalConstantMemory:
      *value = int(properties.totalConstMem);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = properties.regsPerBlock;
      break;
    case cudaDevAttrClockRate:
      *value = 0;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = properties.cooperativeLaunch;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = properties.maxBlocksPerMultiProcessor;
      break;
    default:
      return done(cudaErrorInvalidValue);
  }
  return done();
}

cudaError_t cudaDeviceReset() {
  {
    std::lock_guard lock(peers_mutex);
    peers.clear();
  }
  streams::forget_all();
  memory::release_all();
  simt::forget_faults();
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return done(); }

cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  for (const int one : {ordinal, peer}) {
    if (one < 0 || one >= simt::options::devices) return done(cudaErrorInvalidDevice);
  }
  *can = ordinal != peer;
  return done();
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (peer < 0 || peer >= simt::options::devices || peer == streams::current_device())
    return done(cudaErrorInvalidDevice);
  if (flags != 0) return done(cudaErrorInvalidValue);
  std::lock_guard lock(peers_mutex);
  const bool is_new = peers.insert({streams::current_device(), peer}).second;
  return done(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  std::lock_guard lock(peers_mutex);
  return done(peers.erase({streams::current_device(), peer}) ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}
// The version whose API this is.
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return done();
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

// -------------------------------------------------------------------------------------------------------------- memory

cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (!address) return done(cudaErrorInvalidValue);
  if (lost_context() != cudaSuccess) return lost_context();
  *address = bytes == 0 ? nullptr : memory::allocate(bytes, streams::current_device());
  return remember(bytes == 0 || *address ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* address) {
  streams::finish_all();
  return done(!address || memory::release(address) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) { return cudaMalloc(address, bytes); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return done(streams::submit(
      stream, [=] { return !address || memory::release(address) ? cudaSuccess : cudaErrorInvalidValue; }));
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  if (!address) return done(cudaErrorInvalidValue);
  constexpr size_t page = 4096;
  *address = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!*address) return done(cudaErrorMemoryAllocation);
  std::lock_guard lock(page_locked().mutex);
  page_locked().allocated[static_cast<char*>(*address)] = bytes;
  return done();
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) { return cudaMallocHost(address, bytes); }
cudaError_t cudaFreeHost(void* address) {
  if (!address) return done();
  streams::finish_all();
  {
    std::lock_guard lock(page_locked().mutex);
    if (page_locked().allocated.erase(static_cast<char*>(address)) == 0) return done(cudaErrorInvalidValue);
  }
  std::free(address);
  return done();
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (!address || bytes == 0 || memory::is_device(address)) return done(cudaErrorInvalidValue);
  std::lock_guard lock(page_locked().mutex);
  return done(page_locked().registered.try_emplace(static_cast<char*>(address), bytes).second
                  ? cudaSuccess
                  : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* address) {
  streams::finish_all();
  std::lock_guard lock(page_locked().mutex);
  return done(page_locked().registered.erase(static_cast<char*>(address)) ? cudaSuccess
                                                                          : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = memory::free_bytes(streams::current_device());
  *total_bytes = memory::total_bytes();
  return done();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  void* pointer = const_cast<void*>(address);
  *attributes = {};
  if (memory::is_device(address)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = pointer;
    attributes->device = memory::device_of(address);
  } else {
    attributes->type = page_locked().holds(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->hostPointer = pointer;
  }
  return done();
}

// -------------------------------------------------------------------------------------------------------------- copies

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  for (const int ordinal : {to_device, from_device}) {
    if (ordinal < 0 || ordinal >= simt::options::devices) return done(cudaErrorInvalidDevice);
  }
  const bool there = bytes == 0 || (memory::device_of(to) == to_device && memory::device_of(from) == from_device);
  return there ? copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream) : done(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}
cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return fill(address, bytes, value, bytes, 1, nullptr);
}
cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return fill(address, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  return fill(address, pitch, value, width, height, nullptr);
}

cudaError_t simt_symbol_address(void** address, const void* symbol, size_t symbol_bytes) {
  if (!memory::is_constant(symbol, symbol_bytes)) memory::add_variable(symbol, symbol_bytes);
  *address = const_cast<void*>(symbol);
  return done();
}

cudaError_t simt_symbol_copy(const void* symbol, size_t symbol_bytes, size_t offset, void* to, const void* from,
                             size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return done(cudaErrorInvalidValue);
  void* address = nullptr;
  if (const cudaError_t error = simt_symbol_address(&address, symbol, symbol_bytes); error != cudaSuccess) return error;
  char* place = static_cast<char*>(address) + offset;
  return to ? copy(to, place, bytes, kind, stream) : copy(place, from, bytes, kind, stream);
}

unsigned long long simt_peak_bytes(int ordinal, int reset) { return memory::peak_bytes(ordinal, reset != 0); }
}
