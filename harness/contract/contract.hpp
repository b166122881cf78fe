// The contract between one revision of k-means (a *variant*, one file in variants/) and the harness.
//
// A variant describes itself in a card and has a table of phases. The harness calls the phases, validates their results
// and times them. A variant never times or validates itself; the harness never names a variant.
//
// Shapes throughout: points N x D, centroids K x D, both row-major on the host; labels N, 32-bit, 0 .. K-1.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "communicator.hpp"
#include "problem.hpp"

namespace ladder {

/// Throws Error if a call of the CUDA runtime failed. `what` says what was tried: "copying the labels to the host".
__attribute__((noinline)) inline void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw Error(what + ": " + cudaGetErrorString(status));
}
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) check(status, std::string(what));
}

// ------------------------------------------------------------------------------------------------- where it is solved

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  bool host_memory = false;  ///< labels and centroids live in host memory: native CPU code, and peers in Python
  std::string name;
  std::vector<int> ordinals;  ///< GPUs of this process; [0] is current. More than one only if Card::gpus is above 1
  int ranks = 1, rank = 0;    ///< processes of this run, each with as many GPUs, and the number of this one
  Communicator* communicator = nullptr;  ///< of all GPUs of all ranks; null: there is one GPU, or else
  std::string no_communicator = "";      ///< why several GPUs have none, as a sentence for `refuse`
  int compute_capability = 0;            ///< 90 for 9.0; 0 on a CPU
  int multiprocessors = 1;               ///< streaming multiprocessors, or CPU cores
  size_t memory_bytes = 0;
  size_t constant_bytes = 64 << 10;
  size_t shared_bytes = 48 << 10;        ///< per block, by default
  size_t shared_bytes_optin = 48 << 10;  ///< per block, after cudaFuncSetAttribute
  bool poisons = false;  ///< poison new device memory: another variant may have left correct results there
  /// GPUs of this run, in all its processes.
  int devices() const { return ranks * std::max(1, int(ordinals.size())); }
};

/// The values of the card's tuning axes in this run.
struct Axes {
  std::map<std::string, int> value;
  int operator[](const std::string& name) const {
    const auto found = value.find(name);
    if (found == value.end()) throw Error("axis '" + name + "' is not in the variant's card: declare it in .axes");
    return found->second;
  }
};

/// Where `download` puts results on the host. The harness poisons it before every `download`.
template <class T>
struct Result {
  int32_t* label = nullptr;  ///< n
  T* centroids = nullptr;    ///< k x d, row-major
};

// --------------------------------------------------------------------------------------------------- a run's own state

/// Memory and streams of one run, freed with it. Not a template: each variant compiles it once instead of once for each
/// element type.
class Resources {
 public:
  const Device& device_info;
  cudaStream_t stream = nullptr;  ///< of this session; a phase joins work in other streams to it before it returns

  explicit Resources(const Device& dev) : device_info(dev) {}
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  /// Device memory for `count` elements, uninitialised, on GPU number `gpu` of this run.
  template <class E>
  E* device(size_t count, int gpu = 0) {
    return static_cast<E*>(take_device(count * sizeof(E), gpu));
  }
  /// Page-locked host memory for `count` elements: the GPU's copy engine accesses it directly.
  template <class E>
  E* pinned(size_t count) {
    return static_cast<E*>(take_pinned(count * sizeof(E)));
  }
  /// Pageable host memory for `count` elements.
  template <class E>
  E* host(size_t count) {
    allocations_.emplace_back(new E[std::max<size_t>(1, count)], [](void* q) { delete[] static_cast<E*>(q); });
    return static_cast<E*>(allocations_.back().get());
  }
  size_t device_bytes() const { return device_bytes_; }

  // ---- several GPUs (Card::gpus)

  int gpus() const { return std::max(1, int(device_info.ordinals.size())); }
  /// Calls `work` with GPU number `gpu` current, then makes GPU 0 current again.
  template <class F>
  void on_gpu(int gpu, F work) {
    if (gpu == 0) return work();
    check(cudaSetDevice(device_info.ordinals[gpu]), "choosing GPU " + std::to_string(device_info.ordinals[gpu]));
    struct Back {
      int first;
      ~Back() { cudaSetDevice(first); }
    } back{device_info.ordinals[0]};
    work();
  }
  /// The stream of GPU number `gpu`; that of GPU 0 is `stream`.
  cudaStream_t stream_of(int gpu) {
    if (gpu == 0) return stream;
    if (streams_.empty()) streams_.resize(gpus());
    if (!streams_[gpu]) {
      cudaStream_t made = nullptr;
      on_gpu(gpu, [&] { check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream"); });
      streams_[gpu] = std::shared_ptr<void>(made, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); });
    }
    return static_cast<cudaStream_t>(streams_[gpu].get());
  }
  /// Makes later work in the other GPUs' streams wait for the work that `stream` has now.
  void fork() {
    for (int gpu = 1; gpu < gpus(); ++gpu) wait(stream_of(gpu), stream, gpu, 0);
  }
  /// Makes later work in `stream` wait for the work that the other GPUs' streams have now. A phase ends with it.
  void join() {
    for (int gpu = 1; gpu < gpus(); ++gpu) wait(stream, stream_of(gpu), 0, gpu);
  }

 private:
  __attribute__((noinline)) void* take_device(size_t bytes, int gpu) {
    void* p = nullptr;
    on_gpu(gpu, [&] {
      const cudaError_t status = cudaMalloc(&p, std::max<size_t>(1, bytes));
      if (status != cudaSuccess) check(status, "taking " + std::to_string(bytes) + " bytes of device memory");
      if (!device_info.poisons) return;
      check(cudaMemset(p, 0xff, std::max<size_t>(1, bytes)), "poisoning device memory");
      check(cudaDeviceSynchronize(), "poisoning device memory");  // the variant's streams do not wait for it
    });
    allocations_.emplace_back(p, [](void* q) { cudaFree(q); });
    device_bytes_ += bytes;
    return p;
  }
  __attribute__((noinline)) void* take_pinned(size_t bytes) {
    void* p = nullptr;
    const cudaError_t status = cudaMallocHost(&p, std::max<size_t>(1, bytes));
    if (status != cudaSuccess) check(status, "page-locking " + std::to_string(bytes) + " bytes of host memory");
    allocations_.emplace_back(p, [](void* q) { cudaFreeHost(q); });
    return p;
  }
  void wait(cudaStream_t waits, cudaStream_t for_stream, int waiting_gpu, int awaited_gpu) {
    cudaEvent_t event = nullptr;
    on_gpu(awaited_gpu, [&] {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
      check(cudaEventRecord(event, for_stream), "recording an event");
    });
    on_gpu(waiting_gpu, [&] { check(cudaStreamWaitEvent(waits, event, 0), "waiting for another GPU"); });
    cudaEventDestroy(event);  // CUDA frees it when it has been reached
  }

  std::vector<std::shared_ptr<void>> allocations_;
  std::vector<std::shared_ptr<void>> streams_;  // of GPUs 1, 2, ..., created on first use
  size_t device_bytes_ = 0;
};

/// The data of one run that the harness and a variant share.
template <class T>
struct State : Resources {
  const Problem<T>& problem;
  const int n, k, d;
  const T* points;            ///< on the host, n x d; `prepare` may replace it by a page-locked copy
  Csr<T> csr;                 ///< on the host, the same points as CSR rows if problem.sparse(); may be replaced, too
  T* x = nullptr;             ///< points on the device, in the layout that `upload` chose
  T* c = nullptr;             ///< centroids, in the memory and layout that the variant chose
  int32_t* label = nullptr;   ///< n, on the device. Write-only for `assign` and poisoned before it; with
                              ///< Card::reads_labels it holds the previous labels, -1 before the first iteration
  int32_t* chosen = nullptr;  ///< k, on the device: the rows that `initialise` drew
  unsigned long long* changed = nullptr;  ///< on the device. If `prepare` sets it, `assign` or `iterate` stores the
                                          ///< number of changed labels there, and the harness does not count them
  Result<T> result;  ///< filled by `download`; `prepare` may replace the buffers by page-locked ones
  Axes axes;
  std::vector<int64_t> reassigned;  ///< labels changed, per iteration; a variant's `solve` appends to it
  /// A variant's counters by name, one value per iteration: distances computed, points skipped, rows refined. Cleared
  /// before each restart; the record keeps those of one whole solve.
  std::map<std::string, std::vector<int64_t>> counters;

  State(const Problem<T>& p, const Device& dev)
      : Resources(dev), problem(p), n(p.n), k(p.k), d(p.d), points(p.points), csr(p.csr) {}
  virtual ~State() = default;
  /// The value of a tuning axis of the card. Throws Error if the card does not declare it.
  int axis(const std::string& name) const { return axes[name]; }
};

/// The workspace of a variant that needs none.
struct Stateless {};

/// A run of a variant with a workspace: one struct, composed of the structs of the parts that it uses. A part expects
/// its struct under a fixed member name, such as s.ws.sums.
template <class T, class Workspace>
struct Run : State<T> {
  using State<T>::State;
  Workspace ws;
};

/// One entry of a variant's table: a function of State<T> or of Run<T, Workspace>.
template <class T, class Workspace>
struct PhaseEntry {
  void (*plain)(State<T>&) = nullptr;
  void (*with_workspace)(Run<T, Workspace>&) = nullptr;
  constexpr PhaseEntry(std::nullptr_t = nullptr) {}
  constexpr PhaseEntry(void (*f)(State<T>&)) : plain(f) {}
  constexpr PhaseEntry(void (*f)(Run<T, Workspace>&)) : with_workspace(f) {}
};

/// One function per phase; null if the variant does not have it. In the order of their calls:
///   prepare   allocates device and host memory, creates handles. Not timed
///   upload    copies the points from host memory to s.x, in any layout
///   restart   puts problem.centroids where `assign` reads them and discards everything kept of earlier iterations
///   initialise  draws centroids from the points with problem.seed (Card::draws), puts them where `assign` reads them
///   and
///             their rows into s.chosen; only variants that are about initialisation have it
///   assign    computes labels of all points for the current centroids into s.label
///   update    replaces the centroids by the means of their points; a centroid without points stays
///   iterate   assign + update in one function (then both are null)
///   solve     all iterations until problem.stop is reached, if the variant has its own loop. Leaves the labels that
///             belong to the centroids before its last update, and fills s.reassigned. A variant may have steps, too:
///             then the harness validates and times the steps as usual and uses solve for whole runs
///   download  copies labels (row order) and centroids (row-major) to s.result
template <class T, class Workspace = Stateless>
struct Phases {
  PhaseEntry<T, Workspace> prepare = {}, upload = {}, restart = {}, initialise = {}, assign = {}, update = {},
                           iterate = {}, solve = {}, download = {};
};

/// A phase as the harness calls it, without the type of the variant's state.
template <class T>
class Phase {
 public:
  Phase() = default;
  /// S: State<T> or the struct derived from it that PhaseTable::make creates.
  template <class S>
  Phase(void (*function)(S&)) {
    if (!function) return;
    function_ = reinterpret_cast<void (*)()>(function);
    call_ = [](void (*f)(), State<T>& s) { reinterpret_cast<void (*)(S&)>(f)(static_cast<S&>(s)); };
  }
  template <class Workspace>
  Phase(const PhaseEntry<T, Workspace>& entry)
      : Phase(entry.plain ? Phase(entry.plain) : Phase(entry.with_workspace)) {}
  explicit operator bool() const { return function_ != nullptr; }
  void operator()(State<T>& s) const { call_(function_, s); }

 private:
  void (*function_)() = nullptr;
  void (*call_)(void (*)(), State<T>&) = nullptr;
};

/// A variant's Phases without the type of its state, and a function that creates a run.
template <class T>
struct PhaseTable {
  Phase<T> prepare, upload, restart, initialise, assign, update, iterate, solve, download;
  std::unique_ptr<State<T>> (*make)(const Problem<T>&, const Device&) = nullptr;

  PhaseTable() = default;
#ifdef LADDER_ELEMENT_BYTES  // a module for elements of this size alone: the other type takes as long to compile
  template <class Workspace>
  requires(sizeof(T) != LADDER_ELEMENT_BYTES) __attribute__((always_inline)) PhaseTable(const Phases<T, Workspace>&) {}
#endif
  template <class Workspace>
  PhaseTable(const Phases<T, Workspace>& p)
      : prepare(p.prepare),
        upload(p.upload),
        restart(p.restart),
        initialise(p.initialise),
        assign(p.assign),
        update(p.update),
        iterate(p.iterate),
        solve(p.solve),
        download(p.download),
        make([](const Problem<T>& problem, const Device& device) -> std::unique_ptr<State<T>> {
          return std::make_unique<Run<T, Workspace>>(problem, device);
        }) {}
  explicit operator bool() const { return assign || iterate || solve || initialise; }
};

// ------------------------------------------------------------------------------------------------------------ the card

/// A tuning axis: `values` to sweep, and the `standard` one. s.axis(name) reads the value. `reported`: values that the
/// card's source found best on its GPU; pictures of a sweep mark them.
struct Axis {
  std::string name;
  std::vector<int> values;
  int standard;
  std::vector<int> reported = {};
};
/// from, from + step, ... up to and including `to`.
inline std::vector<int> range(int from, int to, int step) {
  std::vector<int> values;
  for (int v = from; v <= to; v += step) values.push_back(v);
  return values;
}

struct Card {
  std::string id = "";       ///< the file's name without its ending
  std::string base = "";     ///< the variant this one differs from by one idea; empty for a root
  std::string joins = "";    ///< another variant, where the idea is to take over its parts as they are; mostly empty
  std::string idea = "";     ///< that idea, in one line
  std::string expect = "";   ///< what should change and by how much, written before measuring
  std::string shows = "";    ///< the scope in which the change shows: assign, update, iteration, solve, end_to_end
  std::string counter = "";  ///< the counter of `ladder profile` that shows why (sectors_per_load)
  std::string source = "";   ///< where the idea is from
  std::string library = "";  ///< of a peer: the library and its version ("scikit-learn 1.9.1, Python 3.11.7")
  Arithmetic arithmetic = {};
  std::vector<DeviceKind> devices = {DeviceKind::cuda, DeviceKind::simt};
  std::vector<Axis> axes = {};
  std::vector<Metric> metrics = {Metric::euclidean};  ///< supported metrics; the harness refuses others
  bool reads_labels = false;  ///< `assign` or `iterate` reads the previous labels (State::label)
  bool prunes = false;        ///< skips distances by bounds: the least time for N x K x D operations does not apply
  bool implicit = false;      ///< kernel k-means: solves problems with a kernel; has labels and no centroids
  bool moves_empty = false;   ///< a peer moves centroids without points by a rule of its own; ours: they stay
  bool labels_last = false;   ///< `solve` ends with an assignment: its labels belong to its final centroids
  int gpus = 1;               ///< the most GPUs it can use, those of all ranks together (State::gpus)
  Draws draws = Draws::nothing;
  /// Returns a full sentence on why this variant cannot take this problem on this device with these axes; empty if it
  /// can. Called with the device current. Its answer for an element type without phases is reported, too.
  std::string (*refuse)(const Shape&, const Device&, const Axes&) = nullptr;
  PhaseTable<float> f32 = {};
  PhaseTable<double> f64 = {};
  std::string for_cuda = "";  ///< the file's line `// for cuda: 90a`, which the build puts here; empty: it has none

  template <class T>
  const PhaseTable<T>& phases() const {
    if constexpr (sizeof(T) == 4)
      return f32;
    else
      return f64;
  }
};

/// Calls body.template operator()<V>() with the V of the list that equals `value`: an axis as a template argument.
template <int... V, class F>
void dispatch(int value, F body) {
  const bool found = ((V == value && (body.template operator()<V>(), true)) || ...);
  if (!found) throw Error("axis value " + std::to_string(value) + " is not one this variant was compiled for");
}

/// Blocks of `per_block` threads that cover `count` items.
inline int blocks(int64_t count, int per_block) { return int((count + per_block - 1) / per_block); }

}  // namespace ladder

#ifndef LADDER_FOR_CUDA
#define LADDER_FOR_CUDA ""  // cmake/variants.cmake says otherwise for files that have such a line
#endif

/// Makes the file a variant: LADDER_VARIANT(.id = "FILE_NAME", .base = "ID", ...).
#define LADDER_VARIANT(...)                                                                \
  extern "C" __attribute__((visibility("default"))) const ladder::Card* ladder_variant() { \
    static const ladder::Card card{__VA_ARGS__, .for_cuda = LADDER_FOR_CUDA};              \
    return &card;                                                                          \
  }
