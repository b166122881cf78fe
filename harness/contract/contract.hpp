// The contract between one revision of k-means (a *variant*, one file in variants/) and the harness.
//
// A variant states what it is in a card and what it does in a table of phases. The harness calls the phases, validates
// what they leave behind and times them; a variant never times or validates itself, the harness never names a variant.
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

#include "problem.hpp"

namespace ladder {

/// Throws when a call of the CUDA runtime failed. `what` names the attempt: "copying the labels to the host".
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
  std::vector<int> ordinals;   ///< GPUs given to this run; [0] is current. One but for variants with Card::gpus above 1
  int compute_capability = 0;  ///< 90 for 9.0; 0 on a CPU
  int multiprocessors = 1;     ///< streaming multiprocessors, or CPU cores
  size_t memory_bytes = 0;
  size_t constant_bytes = 64 << 10;
  size_t shared_bytes = 48 << 10;        ///< per block, without asking
  size_t shared_bytes_optin = 48 << 10;  ///< per block, after cudaFuncSetAttribute
  bool poisons = false;  ///< fresh device memory is poisoned: another variant used it, and its values may be right ones
};

/// The values of the tuning axes that the card declares.
struct Axes {
  std::map<std::string, int> value;
  int operator[](const std::string& name) const {
    const auto found = value.find(name);
    if (found == value.end()) throw Error("axis '" + name + "' is not in the variant's card: declare it in .axes");
    return found->second;
  }
};

/// Where results land on the host. The harness poisons it before every `download`.
template <class T>
struct Result {
  int32_t* label = nullptr;  ///< n
  T* centroids = nullptr;    ///< k x d, row-major
};

// --------------------------------------------------------------------------------------------------- a run's own state

/// Memory, streams and objects of one run; they are given back with it. Not a template: each variant compiles it once,
/// not for each element type.
class Resources {
 public:
  const Device& device_info;
  cudaStream_t stream = nullptr;  ///< this session's own; work elsewhere must be joined to it before a phase returns

  explicit Resources(const Device& dev) : device_info(dev) {}
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  /// Device memory, uninitialised, for `count` elements; on the `gpu`-th of the GPUs given to this run.
  template <class E>
  E* device(size_t count, int gpu = 0) {
    return static_cast<E*>(take_device(count * sizeof(E), gpu));
  }
  /// Page-locked host memory: the GPU's copy engine reads and writes it without a detour.
  template <class E>
  E* pinned(size_t count) {
    return static_cast<E*>(take_pinned(count * sizeof(E)));
  }
  /// Ordinary (pageable) host memory.
  template <class E>
  E* host(size_t count) {
    allocations_.emplace_back(new E[std::max<size_t>(1, count)], [](void* q) { delete[] static_cast<E*>(q); });
    return static_cast<E*>(allocations_.back().get());
  }
  size_t device_bytes() const { return device_bytes_; }

  // ---- several GPUs (Card::gpus)

  int gpus() const { return std::max(1, int(device_info.ordinals.size())); }
  /// Calls `work` with that GPU current; the first is current again afterwards.
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
  /// The stream of that GPU; that of the first is `stream`.
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
  /// What the other GPUs' streams get from now on waits for what `stream` has now.
  void fork() {
    for (int gpu = 1; gpu < gpus(); ++gpu) wait(stream_of(gpu), stream, gpu, 0);
  }
  /// What `stream` gets from now on waits for what the other GPUs' streams have now. A phase ends with it.
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
      check(cudaDeviceSynchronize(), "poisoning device memory");  // streams of the variant's own do not wait for it
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
    cudaEventDestroy(event);  // it goes once it has been reached
  }

  std::vector<std::shared_ptr<void>> allocations_;
  std::vector<std::shared_ptr<void>> streams_;  // of the GPUs after the first, made on first use
  size_t device_bytes_ = 0;
};

/// What the harness and a variant share about one run.
template <class T>
struct State : Resources {
  const Problem<T>& problem;
  const int n, k, d;
  const T* points;            ///< on the host, n x d; `prepare` may put a page-locked copy in the problem's place
  Csr<T> csr;                 ///< on the host, the same points where problem.sparse(); likewise
  T* x = nullptr;             ///< points on the device, in the layout that the variant's upload chose
  T* c = nullptr;             ///< centroids, where and in the layout that the variant chose
  int32_t* label = nullptr;   ///< n, on the device. Write-only for `assign`: it is poisoned before each one, unless the
                              ///< card says .reads_labels: then it holds those of the iteration before, at first -1
  int32_t* chosen = nullptr;  ///< k, on the device: the rows that `initialise` drew
  unsigned long long* changed = nullptr;  ///< on the device. Where `prepare` sets it, each `assign` or `iterate` leaves
                                          ///< there how many labels changed, and a solve pays for no other count
  Result<T> result;  ///< `download` fills it; `prepare` may put page-locked buffers in the harness's place
  Axes axes;
  std::vector<int64_t> reassigned;  ///< per iteration; a variant with a `solve` of its own appends to it
  /// What a variant counts, by name, a value per iteration: distances computed, points skipped, rows rechecked. Emptied
  /// before each restart; the record keeps those of one whole solve.
  std::map<std::string, std::vector<int64_t>> counters;

  State(const Problem<T>& p, const Device& dev)
      : Resources(dev), problem(p), n(p.n), k(p.k), d(p.d), points(p.points), csr(p.csr) {}
  virtual ~State() = default;
  /// The value of a tuning axis that the card declares.
  int axis(const std::string& name) const { return axes[name]; }
};

/// The state of a variant that keeps none of its own.
struct Stateless {};

/// A run of a variant that keeps state of its own: one struct, composed of the structs of the parts that it uses. A
/// part that needs a struct of type X names the member it expects: s.ws.sums.
template <class T, class Workspace>
struct Run : State<T> {
  using State<T>::State;
  Workspace ws;
};

/// One entry of a variant's table: a function of State<T>, or of the variant's Run<T, Workspace>.
template <class T, class Workspace>
struct PhaseEntry {
  void (*plain)(State<T>&) = nullptr;
  void (*with_workspace)(Run<T, Workspace>&) = nullptr;
  constexpr PhaseEntry(std::nullptr_t = nullptr) {}
  constexpr PhaseEntry(void (*f)(State<T>&)) : plain(f) {}
  constexpr PhaseEntry(void (*f)(Run<T, Workspace>&)) : with_workspace(f) {}
};

/// One function per phase; a null phase is one the variant does not have. In the order of their calls:
///   prepare   takes memory, makes handles; page-locked and pageable host buffers live from here. Not timed
///   upload    points from host memory to s.x, in the layout the variant wants
///   restart   problem.centroids to where `assign` reads them; what earlier iterations learnt is forgotten
///   initialise  centroids drawn from the points with problem.seed (Card::draws) to where `assign` reads them, and
///             their rows to s.chosen; only a variant that is about initialisation has it
///   assign    labels of all points for the present centroids, to s.label
///   update    the present centroids become the means of their points; a centroid without points stays
///   iterate   assign + update in one, where a variant fuses them (then both are null)
///   solve     everything until problem.stop is reached, where a variant keeps the loop for itself; leaves the labels
///             that belong to the centroids before its last update, and fills s.reassigned. It may have its steps
///             beside it: the harness follows and times these, and has whole runs done by solve
///   download  labels (row order) and centroids (row-major) to s.result
template <class T, class Workspace = Stateless>
struct Phases {
  PhaseEntry<T, Workspace> prepare = {}, upload = {}, restart = {}, initialise = {}, assign = {}, update = {},
                           iterate = {}, solve = {}, download = {};
};

/// A phase as the harness calls it, whatever state the variant keeps.
template <class T>
class Phase {
 public:
  Phase() = default;
  /// S: State<T>, or a struct derived from it, which PhaseTable::make makes.
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

/// A variant's Phases without the type of its state, and how a run of it is made.
template <class T>
struct PhaseTable {
  Phase<T> prepare, upload, restart, initialise, assign, update, iterate, solve, download;
  std::unique_ptr<State<T>> (*make)(const Problem<T>&, const Device&) = nullptr;

  PhaseTable() = default;
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

/// A tuning axis: `values` to sweep, `standard` used otherwise. s.axis(name) reads it. `reported`: those that the
/// card's source found best, on its GPU; pictures of a sweep mark them.
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
  std::string idea = "";     ///< that idea, in a line
  std::string expect = "";   ///< what should change, and by how much, before anybody measures
  std::string shows = "";    ///< the scope in which the change shows: assign, update, iteration, solve, end_to_end
  std::string counter = "";  ///< the counter of `ladder profile` that shows why (sectors_per_load)
  std::string source = "";   ///< where the idea is from
  std::string library = "";  ///< of a peer: what it calls, with versions ("scikit-learn 1.9.1, Python 3.11.7")
  Arithmetic arithmetic = {};
  std::vector<DeviceKind> devices = {DeviceKind::cuda, DeviceKind::simt};
  std::vector<Axis> axes = {};
  std::vector<Metric> metrics = {Metric::euclidean};  ///< those it can take; others are refused for it
  bool reads_labels = false;  ///< `assign` or `iterate` reads the labels of the iteration before (State::label)
  bool prunes = false;        ///< leaves out distances that bounds decide: the floor of N x K x D does not hold it
  bool implicit = false;      ///< kernel k-means: solves problems with a kernel; has labels, but no centroids
  bool moves_empty =
      false;  ///< a centroid without points goes where it likes (a peer's own rule); the rule is: it stays
  bool labels_last = false;  ///< `solve` ends with an assignment: its labels belong to the centroids that it leaves
  int gpus = 1;              ///< the most GPUs it can use (State::gpus)
  Draws draws = Draws::nothing;
  /// Why this variant cannot take this problem on this device with these axes (a full sentence), or nothing where it
  /// can. Asked where the problem is to be solved, with the device current. What it says of an element type that has no
  /// phases is told, too.
  std::string (*refuse)(const Shape&, const Device&, const Axes&) = nullptr;
  PhaseTable<float> f32 = {};
  PhaseTable<double> f64 = {};

  template <class T>
  const PhaseTable<T>& phases() const {
    if constexpr (sizeof(T) == 4)
      return f32;
    else
      return f64;
  }
};

/// Calls body.template operator()<V>() for the V of the list that equals `value`: an axis the compiler must know.
template <int... V, class F>
void dispatch(int value, F body) {
  const bool found = ((V == value && (body.template operator()<V>(), true)) || ...);
  if (!found) throw Error("axis value " + std::to_string(value) + " is not one this variant was compiled for");
}

/// Blocks of `per_block` threads that cover `count` items.
inline int blocks(int64_t count, int per_block) { return int((count + per_block - 1) / per_block); }

}  // namespace ladder

/// Makes the file a variant: LADDER_VARIANT(.id = "FILE_NAME", .base = "ID", ...).
#define LADDER_VARIANT(...)                                                                \
  extern "C" __attribute__((visibility("default"))) const ladder::Card* ladder_variant() { \
    static const ladder::Card card{__VA_ARGS__};                                           \
    return &card;                                                                          \
  }
