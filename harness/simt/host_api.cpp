// The host side of the runtime: device, memory, copies, streams, events.
#include <simt/host_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "device.hpp"
#include "fault.hpp"
#include "memory.hpp"

// Streams run at once and in order: a handle is all there is to one.
struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false, timed = true;
};

namespace {

using simt::lost_context;
using simt::remember;
namespace device = simt::device;
namespace memory = simt::memory;

/// A call's own result, unless the context is lost: then every call fails with what it was lost to.
cudaError_t done(cudaError_t own = cudaSuccess) {
  const cudaError_t lost = lost_context();
  return lost != cudaSuccess ? lost : remember(own);
}

struct PageLocked {
  std::mutex mutex;
  std::set<void*> allocated, registered;
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

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (lost_context() != cudaSuccess) return lost_context();
  if (const cudaError_t error = refuse_copy(to, bytes, from, bytes, kind); error != cudaSuccess) return remember(error);
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                    cudaMemcpyKind kind) {
  if (lost_context() != cudaSuccess) return lost_context();
  if (width > to_pitch || width > from_pitch) return remember(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return cudaSuccess;
  const cudaError_t error =
      refuse_copy(to, to_pitch * (height - 1) + width, from, from_pitch * (height - 1) + width, kind);
  if (error != cudaSuccess) return remember(error);
  for (size_t row = 0; row < height; ++row)
    std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}

cudaError_t fill(void* address, size_t pitch, int value, size_t width, size_t height) {
  if (lost_context() != cudaSuccess) return lost_context();
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > pitch || !is_there(address, pitch * (height - 1) + width, true)) return remember(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(address) + row * pitch, value, width);
  return cudaSuccess;
}

}  // namespace

extern "C" {

// -------------------------------------------------------------------------------------------------------------- device

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return done();
}
cudaError_t cudaSetDevice(int ordinal) { return done(ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = 0;
  return done();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  if (ordinal != 0) return done(cudaErrorInvalidDevice);
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
  properties->multiProcessorCount = device::workers();
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

cudaError_t cudaDeviceSynchronize() { return done(); }
cudaError_t cudaDeviceReset() {
  memory::release_all();
  simt::forget_faults();
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return done(); }
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
  *address = bytes == 0 ? nullptr : memory::allocate(bytes);
  return remember(bytes == 0 || *address ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* address) {
  return done(!address || memory::release(address) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) { return cudaMalloc(address, bytes); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  if (!address) return done(cudaErrorInvalidValue);
  constexpr size_t page = 4096;
  *address = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!*address) return done(cudaErrorMemoryAllocation);
  std::lock_guard lock(page_locked().mutex);
  page_locked().allocated.insert(*address);
  return done();
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) { return cudaMallocHost(address, bytes); }
cudaError_t cudaFreeHost(void* address) {
  if (!address) return done();
  {
    std::lock_guard lock(page_locked().mutex);
    if (page_locked().allocated.erase(address) == 0) return done(cudaErrorInvalidValue);
  }
  std::free(address);
  return done();
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (!address || bytes == 0 || memory::is_device(address)) return done(cudaErrorInvalidValue);
  std::lock_guard lock(page_locked().mutex);
  return done(page_locked().registered.insert(address).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* address) {
  std::lock_guard lock(page_locked().mutex);
  return done(page_locked().registered.erase(address) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = memory::free_bytes();
  *total_bytes = memory::total_bytes();
  return done();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  void* pointer = const_cast<void*>(address);
  *attributes = {};
  if (memory::is_device(address)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = pointer;
  } else {
    std::lock_guard lock(page_locked().mutex);
    const bool locked = page_locked().allocated.contains(pointer) || page_locked().registered.contains(pointer);
    attributes->type = locked ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->hostPointer = pointer;
  }
  return done();
}

// -------------------------------------------------------------------------------------------------------------- copies

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind);
}
cudaError_t cudaMemset(void* address, int value, size_t bytes) { return fill(address, bytes, value, bytes, 1); }
cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t) {
  return fill(address, bytes, value, bytes, 1);
}
cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  return fill(address, pitch, value, width, height);
}

cudaError_t simt_symbol_address(void** address, const void* symbol, size_t symbol_bytes) {
  if (!memory::is_constant(symbol, symbol_bytes)) memory::add_variable(symbol, symbol_bytes);
  *address = const_cast<void*>(symbol);
  return done();
}

cudaError_t simt_symbol_copy(const void* symbol, size_t symbol_bytes, size_t offset, void* to, const void* from,
                             size_t bytes, cudaMemcpyKind kind) {
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return done(cudaErrorInvalidValue);
  void* address = nullptr;
  if (const cudaError_t error = simt_symbol_address(&address, symbol, symbol_bytes); error != cudaSuccess) return error;
  char* place = static_cast<char*>(address) + offset;
  return to ? copy(to, place, bytes, kind) : copy(place, from, bytes, kind);
}

// -------------------------------------------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return done();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return done(cudaErrorInvalidResourceHandle);
  delete stream;
  return done();
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return done(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return done(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return done(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
  return done();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  delete event;
  return done();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  event->time = std::chrono::steady_clock::now();
  event->recorded = true;
  return done();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return done(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return done(event ? cudaSuccess : cudaErrorInvalidResourceHandle); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (!event || !event->recorded || !event->timed) return done(cudaErrorInvalidResourceHandle);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return done();
}
}
