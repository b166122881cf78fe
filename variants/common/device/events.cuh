// Events between streams, and a stream for the copy engine. Both are taken on the current GPU. v32b_double_buffer
// introduces them; v45_overlapped_upload uses them.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
  /// Later work of the stream waits for the record; before the first record there is nothing to wait for.
  void await(cudaStream_t stream) { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for another stream"); }
  void await() { check(cudaEventSynchronize(event_), "waiting for the device"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A stream for the copy engine.
struct Copies {
  cudaStream_t stream = nullptr;
  Copies() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"); }
  ~Copies() { cudaStreamDestroy(stream); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
};

}  // namespace ladder
