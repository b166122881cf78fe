// A stream beside the main one: each waits for the other where it is told to.
// v51_side_branch introduces it.
#pragma once
#include "../../../harness/contract/launch.cuh"

namespace ladder {

/// A stream of one device beside its main one.
class SideStream {
 public:
  SideStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    for (cudaEvent_t* event : {&begin_, &end_})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
  }
  ~SideStream() { cudaEventDestroy(begin_), cudaEventDestroy(end_), cudaStreamDestroy(stream_); }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  cudaStream_t stream() const { return stream_; }
  /// Its later work waits for what `main` has now.
  void fork(cudaStream_t main) const { order(begin_, main, stream_); }
  /// Later work of `main` waits for what it has now.
  void join(cudaStream_t main) const { order(end_, stream_, main); }

 private:
  static void order(cudaEvent_t event, cudaStream_t first, cudaStream_t then) {
    check(cudaEventRecord(event, first), "recording an event");
    check(cudaStreamWaitEvent(then, event, 0), "waiting for an event");
  }
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace ladder
