// Two pieces of work that do not depend on each other, in two streams, or in two branches of a graph that is captured:
// the device runs kernels of both at the same time. v51_side_branch introduces it; a run without a branch does one
// after the other.
#pragma once
#include "../lloyd/phases.cuh"
#include "../overlap/side_stream.cuh"

namespace ladder {

class SideBranch {
 public:
  /// main() goes to the session's stream, side() to the branch: it begins when all earlier work has ended, and later
  /// work waits for it.
  template <class Main, class Side>
  void run(Resources& s, const Main& main, const Side& side) {
    side_.fork(s.stream);
    const cudaStream_t session = std::exchange(s.stream, side_.stream());
    side();
    s.stream = session;
    main();
    side_.join(s.stream);
  }

 private:
  SideStream side_;
};

}  // namespace ladder
