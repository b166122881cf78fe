// An iteration captured once in a graph of the session's own stream and launched as one: the legacy stream could not be
// captured. The CPU device has no graphs.
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

#ifdef __CUDACC__
struct Graph {
  Sums sums;
  cudaGraphExec_t iteration = nullptr;
  ~Graph() {
    if (iteration) cudaGraphExecDestroy(iteration);
  }
};

template <class T>
void iterate(Run<T, Graph>& s) {
  auto& own = s.own;
  if (!own.iteration) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    assign_points(s);
    update_shared<T, Layout::rows>(s);
    check(cudaStreamEndCapture(s.stream, &graph), "ending a capture");
    check(cudaGraphInstantiate(&own.iteration, graph, 0), "making a graph");
    cudaGraphDestroy(graph);
  }
  check(cudaGraphLaunch(own.iteration, s.stream), "launching a graph");
}
#else
template <class T>
void iterate(Run<T, Graph>&) {}
#endif

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  return device.kind == DeviceKind::cuda ? refuse_update_shared(p, device, axes) : "the CPU device has no graphs";
}

template <class T>
constexpr Phases<T, Graph> phases{.prepare = prepare_sums<T>,
                                  .upload = upload_rows<T>,
                                  .restart = restart_rows<T>,
                                  .iterate = iterate<T>,
                                  .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t8_graph", .base = "v05_shared_update", .idea = "an iteration as a graph", .shows = "iteration",
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
