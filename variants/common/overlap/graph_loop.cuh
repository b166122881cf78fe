// The loop of a solve on the device: one iteration, captured as the body of a graph's WHILE node, is repeated until the
// stop rule holds, and the host waits once. The graph has the arguments of the iteration that was captured, so what an
// iteration counts is always counted at the same place; the kernel that ends an iteration keeps it, and decides.
// v35_graph_loop introduces it.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

/// What each iteration counts: `words` of 32 bits, at a place for each, or at the last of the `places` for all beyond.
/// In a loop all but the first count at the last place: from there what they have is copied to their own, and the last
/// is cleared for the next.
struct History {
  unsigned* first;
  int words, places;
};

/// What there is to know of the iterations of a loop.
struct LoopBody {
  std::vector<History> histories;     ///< at most most_histories
  const unsigned long long* changed;  ///< on the device: how many labels an iteration changed, at a last place
  std::vector<int> key;               ///< what arguments of kernels hang on; with another key, the graph is made anew
};
constexpr int most_histories = 4;
struct Histories {
  History of[most_histories];
  int count;
};

constexpr int kept_changes = 1024;  ///< after so many iterations the host looks, at the latest

/// A loop's state.
struct Loop {
  struct Begin {
    Stop stop;
    int n;
    int done;  ///< iterations
  } at;
  bool ended;                                ///< the stop rule holds
  bool goes_on;                              ///< it does not, and there is a place for the changes of one more
  unsigned long long changed[kept_changes];  ///< of iteration i, from 0: at i modulo the places
};

/// One warp, after each iteration. `in_graph`: it is the last node of the body that `handle` repeats.
template <bool in_graph>
__global__ void end_iteration_kernel(Loop* loop, Histories histories, const unsigned long long* changed,
                                     [[maybe_unused]] unsigned long long handle) {
  const int iteration = loop->at.done;
  // Calls act(own, last) for each word at the iteration's own place, and at the last.
  const auto each_word = [&](const auto& act) {
#pragma unroll  // who is asked for by number must be a register
    for (int e = 0; e < most_histories; ++e) {
      if (e >= histories.count) break;
      const History& it = histories.of[e];
      unsigned* const own = it.first + size_t(min(iteration, it.places - 1)) * it.words;
      unsigned* const last = it.first + size_t(it.places - 1) * it.words;
      for (int word = threadIdx.x; word < it.words; word += 32) act(own[word], last[word]);
    }
  };
  each_word([&](unsigned& own, unsigned& last) {
    if (iteration == 0)  // it was none of the loop's
      last = own;
    else
      own = last;
  });
  __syncwarp();  // of the first iteration, too, `changed` is at the last place now
  bool ended = false;
  if (threadIdx.x == 0) {
    const int done = loop->at.done = iteration + 1;
    const unsigned long long now = loop->changed[iteration % kept_changes] = *changed;
    ended = loop->ended = loop->at.stop.reached(done, int64_t(now), loop->at.n);
    loop->goes_on = !ended && done % kept_changes != 0;
#ifdef __CUDACC__
    if constexpr (in_graph) cudaGraphSetConditional(handle, loop->goes_on);
#endif
  }
  if (__shfl_sync(0xffffffffu, int(ended), 0)) return;  // what the last iteration has may be nowhere else
  each_word([](unsigned&, unsigned& last) { last = 0; });
}

// ---- the host's side

struct GraphLoop {
  Loop *loop = nullptr, *host = nullptr;  // page-locked
  std::vector<int> key;                   // of the graph
#ifdef __CUDACC__
  cudaGraphExec_t graph = nullptr;
  ~GraphLoop() {
    if (graph) cudaGraphExecDestroy(graph);
  }
#endif
};

template <class T, class W>
void prepare_loop(Run<T, W>& s) {
  auto& own = s.ws.loop;
  own.loop = s.template device<Loop>(1);
  own.host = s.template pinned<Loop>(1);
  check(cudaMemsetAsync(own.loop, 0, sizeof *own.loop, s.stream), "clearing the state of the loop");
}

template <bool in_graph, class T, class W>
void end_iteration(Run<T, W>& s, const LoopBody& looped, unsigned long long handle = 0) {
  Histories histories{{}, int(looped.histories.size())};
  if (histories.count > most_histories) throw Error("a loop on the device keeps fewer histories");
  std::copy(looped.histories.begin(), looped.histories.end(), histories.of);
  launch(end_iteration_kernel<in_graph>, 1, 32, 0, s.stream, s.ws.loop.loop, histories, looped.changed, handle);
}

template <class T, class W>
void fetch_loop(Run<T, W>& s) {
  auto& own = s.ws.loop;
  check(cudaMemcpyAsync(own.host, own.loop, sizeof *own.loop, cudaMemcpyDeviceToHost, s.stream),
        "downloading the state of the loop");
  check(cudaStreamSynchronize(s.stream), "solving on the device");
}

#ifdef __CUDACC__
/// A graph that begins with an iteration, and repeats it while the loop goes on.
template <class T, class Iterate, class W>
cudaGraphExec_t make_loop(Run<T, W>& s, const LoopBody& looped, const Iterate& iterate) {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "making a graph");
  const std::shared_ptr<void> given_back(made, [](void* graph) { cudaGraphDestroy(static_cast<cudaGraph_t>(graph)); });
  cudaGraphConditionalHandle handle;
  check(cudaGraphConditionalHandleCreate(&handle, made, 1, cudaGraphCondAssignDefault), "making a condition");
  cudaGraphNodeParams loop{};
  loop.type = cudaGraphNodeTypeConditional;
  loop.conditional.handle = handle;
  loop.conditional.type = cudaGraphCondTypeWhile;
  loop.conditional.size = 1;
  cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
  check(cudaGraphAddNode(&node, made, nullptr, nullptr, 0, &loop), "making a loop");
#else
  check(cudaGraphAddNode(&node, made, nullptr, 0, &loop), "making a loop");
#endif
  check(cudaStreamBeginCaptureToGraph(s.stream, loop.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal),
        "beginning a capture");
  iterate();
  end_iteration<true>(s, looped, handle);
  cudaGraph_t body = nullptr;
  check(cudaStreamEndCapture(s.stream, &body), "ending a capture");
  cudaGraphExec_t graph = nullptr;
  check(cudaGraphInstantiate(&graph, made, 0), "making a loop ready");
  return graph;
}

/// Iterations until the loop no longer goes on.
template <class T, class Iterate, class W>
void run_loop(Run<T, W>& s, const LoopBody& looped, const Iterate& iterate) {
  auto& own = s.ws.loop;
  if (!own.graph || own.key != looped.key) {
    if (own.graph) check(cudaGraphExecDestroy(std::exchange(own.graph, nullptr)), "giving a graph back");
    own.graph = make_loop(s, looped, iterate);
    own.key = looped.key;
  }
  check(cudaGraphLaunch(own.graph, s.stream), "launching a graph");
  fetch_loop(s);
}
#else
/// The CPU device has no graphs: the host repeats.
template <class T, class Iterate, class W>
void run_loop(Run<T, W>& s, const LoopBody& looped, const Iterate& iterate) {
  do {
    iterate();
    end_iteration<false>(s, looped);
    fetch_loop(s);
  } while (s.ws.loop.host->goes_on);
}
#endif

/// Phase `solve` out of iterate(): assignment, update, count of changed labels. set_done(i) tells it on the host that i
/// iterations are done: so many, where one stands for all that follow, that it counts at the last places.
template <class T, class Iterate, class SetDone, class W>
void solve_on_device(Run<T, W>& s, const LoopBody& looped, const Iterate& iterate, const SetDone& set_done) {
  Loop& now = *s.ws.loop.host;
  now.at = {s.problem.stop, s.n, 0};
  to_device(s, &s.ws.loop.loop->at, &now.at, 1, "telling the stop rule");
  iterate();  // the first has other arguments: none was before it
  end_iteration<false>(s, looped);
  set_done(loop_on_device);
  if (s.problem.stop.reached(1, s.n, s.n))  // in it, every label has changed
    fetch_loop(s);
  else
    run_loop(s, looped, iterate);
  for (int told = 0;;) {
    for (; told < now.at.done; ++told) s.reassigned.push_back(int64_t(now.changed[told % kept_changes]));
    if (now.ended) break;
    run_loop(s, looped, iterate);
  }
  set_done(now.at.done);
}

/// Why there can be no such loop on this device; empty where there can.
inline std::string refuse_loop() {
#ifdef __CUDACC__
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  if (driver < 12040)
    return "its loop is a conditional node of a graph, which needs a driver for CUDA 12.4 or later; this one is for " +
           std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
#endif
  return "";
}

}  // namespace ladder
