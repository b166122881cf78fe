#include "fault.hpp"

#include <simt.h>

#include <atomic>
#include <mutex>

namespace simt {
namespace {

std::mutex mutex;
std::string sentence;        // behind mutex
std::string error_message;   // behind mutex: what cudaGetErrorString says of `lost`
std::string unwritten_read;  // behind mutex
std::atomic<bool> read_unwritten = false;
std::atomic<cudaError_t> lost = cudaSuccess;
thread_local cudaError_t last = cudaSuccess;
struct Refusal {
  cudaError_t error = cudaSuccess;
  std::string message;
};
thread_local Refusal refusal;

const char* plain_message(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorPeerAccessNotEnabled:
      return "peer access has not been enabled";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered:
      return "pointer does not correspond to a registered memory region";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorCooperativeLaunchTooLarge:
      return "too many blocks in cooperative launch";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorInvalidClusterSize:
      return "the cluster size is invalid";
    case cudaErrorUnknown:
      break;
  }
  return "unknown error";
}

const char* plain_name(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidSymbol:
      return "cudaErrorInvalidSymbol";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorPeerAccessNotEnabled:
      return "cudaErrorPeerAccessNotEnabled";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered:
      return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorCooperativeLaunchTooLarge:
      return "cudaErrorCooperativeLaunchTooLarge";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorInvalidClusterSize:
      return "cudaErrorInvalidClusterSize";
    case cudaErrorUnknown:
      break;
  }
  return "cudaErrorUnknown";
}

/// The cause first, then CUDA's words for it.
std::string with_plain_message(const std::string& sentence, cudaError_t error) {
  return sentence + " (" + plain_message(error) + ")";
}

}  // namespace

void record_fault(cudaError_t error, const std::string& what) {
  std::lock_guard lock(mutex);
  if (lost != cudaSuccess) return;
  sentence = what;
  error_message = with_plain_message(what, error);
  lost = error;
}

cudaError_t lost_context() { return lost; }

cudaError_t remember(cudaError_t error) {
  if (error == cudaSuccess) return error;
  last = error;
  refusal.error = cudaSuccess;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& sentence) {
  remember(error);
  refusal = {error, with_plain_message(sentence, error)};
  return error;
}

void note_unwritten_read(const std::string& what) {
  std::lock_guard lock(mutex);
  if (!read_unwritten.exchange(true)) unwritten_read = what;
}

bool has_unwritten_read() { return read_unwritten; }

void forget_faults() {
  std::lock_guard lock(mutex);
  unwritten_read.clear();
  read_unwritten = false;
  lost = cudaSuccess;
  last = cudaSuccess;
  sentence.clear();
}

}  // namespace simt

extern "C" {

const char* simt_unwritten_read() { return simt::unwritten_read.c_str(); }

cudaError_t cudaPeekAtLastError() {
  const cudaError_t lost = simt::lost_context();
  return lost != cudaSuccess ? lost : simt::last;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  simt::last = cudaSuccess;
  return error;
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error != cudaSuccess && error == simt::lost_context()) return simt::error_message.c_str();
  if (error != cudaSuccess && error == simt::refusal.error) return simt::refusal.message.c_str();
  return simt::plain_message(error);
}
const char* cudaGetErrorName(cudaError_t error) { return simt::plain_name(error); }

const char* simt_last_fault() { return simt::sentence.c_str(); }

int simt_is_checked() {
#ifdef SIMT_CHECKED
  return 1;
#else
  return 0;
#endif
}
}
