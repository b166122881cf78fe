// Two pieces of work that do not depend on each other, in two streams, or in two branches of a graph that is captured:
// the device runs kernels of both at the same time. v51_side_branch introduces it; a run without a branch does one
// after the other.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

class SideBranch {
 public:
  SideBranch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    for (cudaEvent_t* const event : {&begun_, &ended_})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
  }
  ~SideBranch() { cudaEventDestroy(begun_), cudaEventDestroy(ended_), cudaStreamDestroy(stream_); }
  SideBranch(const SideBranch&) = delete;
  SideBranch& operator=(const SideBranch&) = delete;

  /// main() goes to the session's stream, side() to the branch: it begins when all earlier work has ended, and later
  /// work waits for it.
  template <class Main, class Side>
  void run(Resources& s, const Main& main, const Side& side) {
    order(begun_, s.stream, stream_);
    const cudaStream_t session = std::exchange(s.stream, stream_);
    side();
    s.stream = session;
    main();
    order(ended_, stream_, s.stream);
  }

 private:
  static void order(cudaEvent_t event, cudaStream_t before, cudaStream_t after) {
    check(cudaEventRecord(event, before), "recording an event");
    check(cudaStreamWaitEvent(after, event, 0), "waiting for another stream");
  }
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr, ended_ = nullptr;
};

}  // namespace ladder
