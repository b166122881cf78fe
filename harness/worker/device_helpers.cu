#include "worker/device_helpers.hpp"

#ifdef __CUDACC__
#include <cuda_profiler_api.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif
#else
#include <fmt/format.h>
#include <simt.h>

#include <cstdlib>
#endif

#include "contract/launch.cuh"

namespace ladder::device_helpers {
namespace {

__global__ void count_changed_kernel(const int32_t* label, int32_t* previous, int n, Changed* word) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int32_t now = i < n ? label[i] : 0;
  const bool moved = i < n && now != previous[i];
  if (moved) previous[i] = now;
  const int count = __syncthreads_count(moved);
  if (threadIdx.x != 0) return;
  if (count > 0) atomicAdd(&word->count, static_cast<unsigned long long>(count));
  __threadfence();  // the block's count is there before its vote
  if (atomicAdd(&word->blocks_done, 1ull) + 1 < gridDim.x) return;
  word->result = atomicExch(&word->count, 0ull);  // all blocks have voted: no other thread uses the words now
  atomicExch(&word->blocks_done, 0ull);
}

#ifndef __CUDACC__
std::string counts;  // the file that the counts of the scope go to; empty: nothing is counted
#endif

#ifdef __CUDACC__
__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__global__ void clock_kernel(unsigned long long* out) {
  const unsigned long long begin_ns = nanoseconds();
  unsigned long long end_ns;
  const long long begin = clock64();
  do end_ns = nanoseconds();
  while (end_ns - begin_ns < 20000);
  out[0] = static_cast<unsigned long long>(clock64() - begin);
  out[1] = end_ns - begin_ns;
}

__global__ void busy_kernel(unsigned long long length_ns) {
  const unsigned long long begin = nanoseconds();
  while (nanoseconds() - begin < length_ns) {
  }
}

#if __has_include(<nvtx3/nvToolsExt.h>)
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t ladder = nvtxDomainCreateA("ladder");
  return ladder;
}

void push_range(const std::string& name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_range() { nvtxDomainRangePop(domain()); }
#else
void push_range(const std::string&) {}
void pop_range() {}
#endif
#endif

}  // namespace

void poison_labels(int32_t* label, int n, cudaStream_t stream) {
  check(cudaMemsetAsync(label, 0xFF, n * sizeof(int32_t), stream), "poisoning the labels");
}

void count_changed(const int32_t* label, int32_t* previous, int n, Changed* word, cudaStream_t stream) {
  launch(count_changed_kernel, blocks(n, 256), 256, 0, stream, label, previous, n, word);
}

void measure_clock([[maybe_unused]] unsigned long long* out, [[maybe_unused]] cudaStream_t stream) {
#ifdef __CUDACC__
  launch(clock_kernel, 1, 1, 0, stream, out);
#endif
}

std::string bus_id([[maybe_unused]] int ordinal) {
#ifdef __CUDACC__
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof address, ordinal), "asking for the device's address");
  return address;
#else
  return "";
#endif
}

void keep_busy([[maybe_unused]] double seconds, [[maybe_unused]] cudaStream_t stream) {
#ifdef __CUDACC__
  launch(busy_kernel, 1, 1, 0, stream, static_cast<unsigned long long>(seconds * 1e9));
#endif
}

Watched::Watched([[maybe_unused]] const std::string& variant, [[maybe_unused]] const std::string& scope) {
#ifdef __CUDACC__
  push_range(variant);
  push_range(scope);
  check(cudaProfilerStart(), "calling the profiler");
#else
  if (const char* folder = std::getenv("LADDER_COUNTS")) {
    counts = std::string(folder) + "/" + scope;
    simt_start_counting();
  }
#endif
}

Watched::~Watched() {
#ifdef __CUDACC__
  cudaProfilerStop();
  for (int nested = 0; nested < 2; ++nested) pop_range();
#else
  if (!counts.empty() && simt_stop_counting(counts.c_str()) != 0) fmt::print(stderr, "{} cannot be written\n", counts);
#endif
}

}  // namespace ladder::device_helpers
