// A worker: the OS thread that runs blocks, one after another, each to its end.
//
// The threads of a block run one after another on one fiber, as a plain loop: a kernel without barriers costs a call
// per thread. Only when a thread must wait, its fiber is set aside with it, and another fiber takes the loop up.
#pragma once
#include <simt/host_api.h>
#include <simt/runtime.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "checked/races.hpp"
#include "counting/trace.hpp"
#include "fiber/fiber.hpp"
#include "module.hpp"
#include "random.hpp"

namespace simt {

class Worker;

/// What all blocks of a running launch share.
struct Launch {
  explicit Launch(const KernelCall& c);

  const KernelCall& call;
  const uint64_t blocks;
  const uint64_t seed;  ///< of the order of threads and blocks; 0: their own
#ifdef SIMT_CHECKED
  bool watches_races = false;
  uint32_t first_run = 0;                     ///< races.hpp; given when the launch starts
  std::atomic<uint64_t>* next_run = nullptr;  ///< where the runs of the next launch begin
  races::Releases releases{blocks};
#endif
  std::atomic<uint64_t> next_block = 0;
  std::atomic<bool> failed = false;

  /// The block that is dealt out as number `i`.
  uint64_t block(uint64_t i) const {
    return seed == 0 ? i : uint64_t((static_cast<unsigned __int128>(i) * step_ + offset_) % blocks);
  }
  uint3 block_index(uint64_t block) const {
    const dim3 grid = call.grid;
    return {unsigned(block % grid.x), unsigned(block / grid.x % grid.y), unsigned(block / grid.x / grid.y)};
  }
  /// Waits until every block of the grid has arrived. False where that cannot happen any more.
  bool arrive_at_grid_barrier();
  /// A block has ended: no other block waits for it.
  void leave_grid();
  /// Ends the launch: blocks stop at their next wait, no further ones start.
  void fail();
  /// In a cluster: `worker` runs block `block`. Returns when it is known of all blocks who runs them.
  void join_cluster(uint64_t block, Worker& worker);
  /// Returns when all blocks have ended: until then their shared memory is there.
  void leave_cluster();
  /// The workers of a cluster's blocks; empty where there is no cluster.
  const std::vector<Worker*>& cluster() const { return cluster_; }

 private:
  uint64_t step_ = 1, offset_ = 0;  // step_ has no divisor in common with the number of blocks

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t arrived_ = 0, blocks_ended_ = 0, generation_ = 0;
  std::vector<Worker*> cluster_;
  uint64_t joined_ = 0;
};

enum class State : uint8_t { unborn, running, block_barrier, grid_barrier, warp, active_mask, notes_full, done };

/// A thread of the block that is running.
struct Thread {
  uint3 index = {};
  State state = State::running;
  Fiber* fiber = nullptr;
  std::source_location where;  ///< the line at which it waits
  // What it waits with, and what it gets.
  WarpOp op = {};
  unsigned mask = 0;
  int argument = 0, width = 32;
  uint64_t value = 0, result = 0;
};

/// An asynchronous copy that is under way.
struct AsyncCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0, zeros = 0;
  size_t group = 0;  ///< of its thread, counted from 0
};
/// Those of a thread, the oldest first.
struct AsyncCopies {
  std::deque<AsyncCopy> pending;
  size_t committed = 0;  ///< groups
};

class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs blocks of the launch until none is left.
  void run(Launch& launch);
  /// Runs the one block.
  void run(Launch& launch, uint64_t block);

  // ---- what device code asks; on a fiber
  void* dynamic_shared() { return dynamic_shared_; }
  int block_barrier(int predicate, std::source_location where);
  void grid_barrier(std::source_location where);
  /// Of a cluster: all threads of its blocks; of the block where it is alone.
  void cluster_barrier(std::source_location where);
  /// Blocks of the cluster; 1 without one.
  unsigned cluster_blocks() const { return launch_->call.in_cluster ? unsigned(launch_->blocks) : 1; }
  /// Where block `rank` of the cluster has what is at `address` in this block's shared memory.
  void* map_shared(const void* address, unsigned rank, std::source_location where);
  /// A store to shared memory of the cluster.
  void store_async(void* address, uint64_t bits, size_t bytes, const void* place);
  uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int argument, int width, std::source_location where);
  unsigned active_mask(std::source_location where);
  void async_copy(void* to, const void* from, size_t bytes, size_t zeros, std::source_location where,
                  const void* place);
  void async_commit();
  void async_wait(size_t last, const void* place);
  /// Ends the launch; never returns. `what` begins a sentence that the kernel, block, thread and line end.
  [[noreturn]] void fault(cudaError_t error, std::string what, std::source_location where);
  /// The same with a sentence of one's own, made up on a larger stack than a thread's.
  [[noreturn]] void fault(cudaError_t error, std::function<std::string()> sentence);
  /// "in kernel K, block (0, 0, 0), thread (0, 0, 0), at file.cu:12" of the thread that runs.
  std::string in_this_thread(const std::string& line) const;

  /// "block (0, 0, 0), thread (0, 0, 0)" of the thread that a signal has interrupted; on its own OS thread.
  std::string place() const;
#ifndef SIMT_CHECKED
  /// "kernel K, block (0, 0, 0), thread (0, 0, 0) touches memory ..." of the kernel that a signal has struck.
  std::string describe_crash(int signal, const void* address) const;
#endif

  // ---- a module that was compiled to be counted, while counts are wanted: counting/
  bool is_counted() const { return trace_ != nullptr; }
  enum class Way { load, store, atomic };
  /// An access of the running thread; `place`: behind the call in its code. Other memory than a GPU's is left out.
  /// `atomic_of_shared`: what an atomic is noted as where the memory is shared.
  void note_access(const void* address, int size_log2, Way way, const void* place,
                   counting::Kind atomic_of_shared = counting::Kind::shared_atomic);
  /// A load of an asynchronous copy to shared memory.
  void note_copy(const void* to, const void* from, int size_log2, const void* place);
  /// A block of code, a barrier (size_log2 0), or an operation of the warp (1).
  void note(counting::Kind kind, int size_log2, const void* place);
  void note_enter() { trace_->enter(rank(*current_)); }
  void note_leave() { trace_->leave(rank(*current_)); }
  /// A division of doubles whose numerator is 0.
  void note_zero_dividend(const void* place);
  /// A thread comes to a barrier of the grid: one atomic of each block, and loads until all blocks have come.
  void note_grid_barrier(const void* place);
  void note_silence(int by) { trace_->silence(rank(*current_), by); }

#ifdef SIMT_CHECKED
  // ---- the checked build, at each access of a kernel: check.cpp
  enum class Touch { read, write, atomic };
  void access(const void* address, size_t bytes, Touch touch, const void* place);
  void atomic_done(const void* address) {
    if (watching_) order_.see(address);
  }
  void fence() {
    if (!launch_->watches_races) return;
    find_unseen_writes();
    order_.fence();
  }
#endif

  /// The worker whose kernel the calling OS thread is inside of, or null.
  static Worker* current() { return current_worker; }

 private:
  void begin(Launch& launch);
  void end();
  void begin_counting();
  void end_counting();
  void run_block(uint64_t block);
  /// The bounds of the module's __shared__ variables of this block, for those of its cluster.
  void find_shared_variables();
  /// Whether the byte is in the shared memory of the block that `worker` runs, of the same launch.
  bool has_shared(const Worker& worker, const char* address) const {
    return (address >= worker.dynamic_shared_ &&
            address < worker.dynamic_shared_ + launch_->call.dynamic_shared_bytes) ||
           (address >= worker.shared_begin_ && address < worker.shared_end_);
  }
  /// The other block of the cluster whose shared memory has the byte; -1 where none does.
  int owner_in_cluster(const void* address) const;
  /// The copies of that thread come to their places, but for those of its group `end` and later ones. `place`: the wait
  /// in the program; null at the thread's end.
  void deliver_copies(int thread, size_t end, const void* place);
  void forget_copies();
  /// The thread that is started next, as an index; and whether thread i has been started in this block.
  int next_thread() const { return shuffled_ ? shuffled_order_[started_] : started_; }
  bool has_started(int i) const { return shuffled_ ? threads_[i].state != State::unborn : i < started_; }
  void shuffle_threads();
  Thread* take_ready();
  /// The body of every fiber: starts threads of the block while there are any.
  void run_threads();
  void start_thread();
  void finish_thread();
  /// The current thread waits until something makes it ready.
  void wait(State state, std::source_location where);
  void make_ready(Thread& thread);
  void resume(Fiber& fiber);
  Fiber& idle_fiber();
  /// Nothing can run: lets a complete barrier or a group of converged lanes go. False: the block is stuck.
  bool release_waiting();
  /// False where the threads wait at different barriers.
  bool release_block_barrier();
  bool release_grid_barrier();
  bool release_active_mask();
  /// Replays what the threads have noted; true where one can go on that waited for that.
  bool release_full_notes();
  void add_note(counting::Kind kind, int size_log2, uint64_t value, const void* place);
  /// Finishes the warp operation that `thread` waits in, if all lanes are there.
  bool try_warp(Thread& thread);
  void report_stuck();
  void report_divergent();
  /// "of 256 threads 200 wait at __syncthreads() at f.cu:54 (the first: thread (0, 0, 0)), 56 have ended ...; in kernel
  /// K, block (0, 0, 0); ".
  std::string describe_threads() const;
  void report(cudaError_t error, const std::string& sentence);
  void abandon_fibers();
#ifdef SIMT_CHECKED
  void fill_shared_with_nonsense();
  /// The variable that holds this byte; null where none does.
  const module::SharedVariable* shared_variable(const void* address) const;
  bool may_access(const void* address, size_t bytes, bool write);
  /// Whether the bytes are a variable's, or dynamic, in this block's shared memory.
  bool is_in_shared(const void* address, size_t bytes) const;
  /// Where this block has what the block with this rank has at `address`, in its shared memory.
  const char* own_place(const void* address, int rank) const;
  /// An access to the shared memory of another block of the cluster, which must have begun and not ended.
  void access_cluster(int rank, size_t bytes, Touch touch, const void* place);
  /// Whether no other block can access this memory, which is not device memory.
  bool is_of_block(const void* address) const;
  /// Why a kernel may not touch these bytes.
  std::string refuse_access(const void* address, size_t bytes, Touch touch);
  /// The words that others may touch too, of an access that is allowed; null if no other thread can access them.
  races::Cell* shared_cells(const void* address);
  void watch(const void* address, size_t bytes, Touch touch, const void* place);
  void find_unseen_writes();
  void watch_words_of_small_variables();
  void refresh_moment() {
    watching_ = launch_->watches_races && !order_.is_over();
    if (watching_) now_ = order_.access(rank(*current_));
  }
  [[noreturn]] void fail_by_race(const races::Access& before, const races::Access& now, const void* address,
                                 size_t bytes);
  std::string describe_race(const races::Access& before, const races::Access& now, const void* address, size_t bytes);
  std::string describe_memory(const void* address) const;
#endif

  int rank(const Thread& thread) const { return int(&thread - threads_.data()); }
  int lane(const Thread& thread) const { return rank(thread) % 32; }
  int count(State state) const;

  // initial-exec: one load from the thread's own block, where a library's thread_local would call a function.
  static inline __thread Worker* current_worker __attribute__((tls_model("initial-exec"))) = nullptr;

  Launch* launch_ = nullptr;
  std::vector<Thread> threads_;  // of the block: started_ of them have begun, done_ have ended
  int size_ = 0, started_ = 0, done_ = 0;
  std::deque<Thread*> ready_;
  Thread* current_ = nullptr;
  Fiber* running_ = nullptr;
  bool parked_ = false;  // the fiber that suspended last has no thread
  int waiting_in_warps_ = 0;

  std::vector<AsyncCopies> copies_;  // of each thread of the block; empty until there is one that comes late
  bool shuffled_ = false;
  Random random_;
  std::vector<uint16_t> shuffled_order_;

  std::unique_ptr<counting::Trace> trace_;                // null where nothing is counted
  counting::KernelCounts counts_;                         // of this launch
  char *shared_begin_ = nullptr, *shared_end_ = nullptr;  // the module's __shared__ variables: of counts and clusters

  struct Fault {
    cudaError_t error = cudaSuccess;
    std::function<std::string()> sentence;
  } fault_;

  char* stacks_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  /// Unused addresses on either side of dynamic shared memory: an access to one of them missed it.
  static constexpr size_t shared_guard = 256 << 10;
  char* dynamic_memory_ = nullptr;
  char* dynamic_shared_ = nullptr;  // of the launch, in that memory
#ifdef SIMT_CHECKED
  std::vector<module::SharedVariable> shared_;  // of the kernel's module, by address
  races::Order order_;
  std::atomic<bool> has_ended_ = false;  // of a block in a cluster
  races::Cell* dynamic_cells_ = nullptr;
  const char *static_begin_ = nullptr, *static_end_ = nullptr;  // the bounds of shared_
  std::vector<races::Cell> static_cells_;

  // The compiler leaves out the call at a write where it has put one at a read of the same word just before (`x[i] +=
  // y`), and at any access that is sure to be inside a __shared__ variable (a scalar by its name). Such writes are
  // found by what they do: whenever another thread may run, or order something, the words are looked at again.
  struct SeenRead {
    const volatile uint32_t* word;
    uint32_t value;
    int32_t place;
  };
  std::array<SeenRead, 64> reads_;
  size_t reads_count_ = 0;
  struct SmallWord {
    const volatile uint32_t* word;
    uint32_t value;
    races::Cell* cell;
    bool seen;  ///< an access that was seen explains the next change
  };
  std::vector<SmallWord> small_words_;

  bool watching_ = false;  // races are looked for, and the clocks have not run out
  races::Access now_;      // of the running thread, until it orders something
#endif
};

/// Runs a launch on the workers of this process; an error of the configuration, or of the run.
cudaError_t run_launch(const KernelCall& call);

/// Whether two threads wait in the same place of the source; of one inlined twice there are two copies of its words.
inline bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

/// "(1, 2, 3)".
std::string text(uint3 v);
/// "src/file.cu:12".
std::string source_line(std::source_location where);
#ifdef SIMT_CHECKED
/// The same of a return address in device code.
std::string source_line(const void* place);
#endif

}  // namespace simt
