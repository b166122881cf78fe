// The loop of a solve on the device: one iteration, captured as the body of a graph's WHILE node, is repeated until the
// stop rule holds, and the host waits once. A graph keeps the kernel arguments of the captured iteration, so every
// iteration counts at the same entry; the kernel at its end copies the counters to the iteration's entry and evaluates
// the stop rule. v46_graph_loop introduces it.
#pragma once
#include "../filter/filter_report.cuh"

namespace ladder {

/// An array of counters with an entry per iteration: `words` of 32 bits each; iterations beyond the last of `places`
/// entries use that one. In a loop all but the first iteration count at the last entry: it is copied to the iteration's
/// own and cleared for the next.
struct History {
  unsigned* first;
  int words, places;
};

/// What the loop must know of its iterations.
struct LoopBody {
  std::vector<History> histories;     ///< at most most_histories
  const unsigned long long* changed;  ///< on the device: labels changed by an iteration, at a last entry
  std::vector<int> key;               ///< what kernel arguments depend on; with another key the graph is captured again
};
constexpr int most_histories = 4;
struct Histories {
  History of[most_histories];
  int count;
};

constexpr int kept_changes = 1024;  ///< iterations after which the host reads the loop's state, at the latest

/// A loop's state.
struct Loop {
  struct Begin {
    Stop stop;
    int n;
    int done;  ///< iterations
  } state;
  bool ended;                                ///< the stop rule holds
  bool goes_on;                              ///< it does not, and `changed` has room for one more
  unsigned long long changed[kept_changes];  ///< of iteration i, from 0: entry i modulo kept_changes
};

/// One warp, after each iteration. `in_graph`: it is the last node of the body that `handle` repeats.
template <bool in_graph>
__global__ void end_iteration_kernel(Loop* loop, Histories histories, const unsigned long long* changed,
                                     [[maybe_unused]] unsigned long long handle) {
  const int iteration = loop->state.done;
  // Calls act(current, last) for each word of the iteration's entry and of the last one.
  const auto each_word = [&](const auto& act) {
#pragma unroll  // a dynamically indexed array would go to local memory
    for (int e = 0; e < most_histories; ++e) {
      if (e >= histories.count) break;
      const History& it = histories.of[e];
      unsigned* const current = it.first + size_t(min(iteration, it.places - 1)) * it.words;
      unsigned* const last = it.first + size_t(it.places - 1) * it.words;
      for (int word = threadIdx.x; word < it.words; word += 32) act(current[word], last[word]);
    }
  };
  each_word([&](unsigned& current, unsigned& last) {
    if (iteration == 0)  // it was launched outside the loop
      last = current;
    else
      current = last;
  });
  __syncwarp();  // `changed` is valid after the first iteration, too
  bool ended = false;
  if (threadIdx.x == 0) {
    const int done = loop->state.done = iteration + 1;
    const unsigned long long now = loop->changed[iteration % kept_changes] = *changed;
    ended = loop->ended = loop->state.stop.reached(done, int64_t(now), loop->state.n);
    loop->goes_on = !ended && done % kept_changes != 0;
#ifdef __CUDACC__
    if constexpr (in_graph) cudaGraphSetConditional(handle, loop->goes_on);
#endif
  }
  if (__shfl_sync(0xffffffffu, int(ended), 0)) return;  // keep the last iteration's counters
  each_word([](unsigned&, unsigned& last) { last = 0; });
}

// ---- host code

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
  auto& loop_state = s.ws.loop;
  loop_state.loop = s.template device<Loop>(1);
  loop_state.host = s.template pinned<Loop>(1);
  check(cudaMemsetAsync(loop_state.loop, 0, sizeof *loop_state.loop, s.stream), "clearing the state of the loop");
}

template <bool in_graph, class T, class W>
void end_iteration(Run<T, W>& s, const LoopBody& body_info, unsigned long long handle = 0) {
  Histories histories{{}, int(body_info.histories.size())};
  if (histories.count > most_histories) throw Error("a loop on the device keeps fewer histories");
  std::copy(body_info.histories.begin(), body_info.histories.end(), histories.of);
  launch(end_iteration_kernel<in_graph>, 1, 32, 0, s.stream, s.ws.loop.loop, histories, body_info.changed, handle);
}

template <class T, class W>
void fetch_loop(Run<T, W>& s) {
  auto& loop_state = s.ws.loop;
  check(cudaMemcpyAsync(loop_state.host, loop_state.loop, sizeof *loop_state.loop, cudaMemcpyDeviceToHost, s.stream),
        "downloading the state of the loop");
  check(cudaStreamSynchronize(s.stream), "solving on the device");
}

#ifdef __CUDACC__
/// A graph that begins with an iteration, and repeats it while the loop goes on.
template <class T, class Iterate, class W>
cudaGraphExec_t make_loop(Run<T, W>& s, const LoopBody& body_info, const Iterate& iterate) {
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
  end_iteration<true>(s, body_info, handle);
  cudaGraph_t body = nullptr;
  check(cudaStreamEndCapture(s.stream, &body), "ending a capture");
  cudaGraphExec_t graph = nullptr;
  check(cudaGraphInstantiate(&graph, made, 0), "making a loop ready");
  return graph;
}

/// Iterations until the loop no longer goes on.
template <class T, class Iterate, class W>
void run_loop(Run<T, W>& s, const LoopBody& body_info, const Iterate& iterate) {
  auto& loop_state = s.ws.loop;
  if (!loop_state.graph || loop_state.key != body_info.key) {
    if (loop_state.graph) check(cudaGraphExecDestroy(std::exchange(loop_state.graph, nullptr)), "giving a graph back");
    loop_state.graph = make_loop(s, body_info, iterate);
    loop_state.key = body_info.key;
  }
  check(cudaGraphLaunch(loop_state.graph, s.stream), "launching a graph");
  fetch_loop(s);
}
#else
/// The CPU device has no graphs: the host repeats.
template <class T, class Iterate, class W>
void run_loop(Run<T, W>& s, const LoopBody& body_info, const Iterate& iterate) {
  do {
    iterate();
    end_iteration<false>(s, body_info);
    fetch_loop(s);
  } while (s.ws.loop.host->goes_on);
}
#endif

/// Phase `solve` from iterate(): assignment and update. set_done(i) sets the host's count of iterations: loop_on_device
/// while iterations count at the last entries, at the end the real number.
template <class T, class Iterate, class SetDone, class W>
void solve_on_device(Run<T, W>& s, const LoopBody& body_info, const Iterate& iterate, const SetDone& set_done) {
  Loop& now = *s.ws.loop.host;
  now.state = {s.problem.stop, s.n, 0};
  to_device(s, &s.ws.loop.loop->state, &now.state, 1, "telling the stop rule");
  iterate();  // the first one has other kernel arguments
  end_iteration<false>(s, body_info);
  set_done(loop_on_device);
  if (s.problem.stop.reached(1, s.n, s.n))  // it changes every label
    fetch_loop(s);
  else
    run_loop(s, body_info, iterate);
  for (int told = 0;;) {
    for (; told < now.state.done; ++told) s.reassigned.push_back(int64_t(now.changed[told % kept_changes]));
    if (now.ended) break;
    run_loop(s, body_info, iterate);
  }
  set_done(now.state.done);
}

/// Why this device cannot run such a loop; empty where it can.
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

/// Phase `solve` of a rung with filter and incremental sums; iterate() is an assignment and an update.
template <class T, class Iterate, class W>
void solve_filtered(Run<T, W>& s, const Iterate& iterate) {
  auto& refine = s.ws.refinement;
  auto& moved = s.ws.sums;
  const auto& f = s.ws.filter;
  const FixedPoint& format = moved.format;
  const auto history = [](auto* first, int places) {
    return History{reinterpret_cast<unsigned*>(first), int(sizeof *first / sizeof(unsigned)), places};
  };
  LoopBody body{.histories = {history(refine.refine_counters, counted), history(moved.moves, kept_iterations_of_moves)},
                .changed = &moved.moves[kept_iterations_of_moves - 1].points,
                .key = {f.width, format.low, format.high, format.bits, format.words}};
  if (f.width > 0) body.histories.push_back(history(f.counters, counted));
  solve_on_device(s, body, iterate, [&](int done) { refine.done = moved.done = done; });
}

}  // namespace ladder
