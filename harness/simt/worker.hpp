// A worker: the OS thread that runs blocks, one after another, each to its end.
//
// The threads of a block run one after another on one fiber, as a plain loop: a kernel without barriers costs a call
// per thread. Only when a thread must wait, its fiber is set aside with it, and another fiber takes the loop up.
#pragma once
#include <simt/host_api.h>
#include <simt/runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "module.hpp"

namespace simt {

/// What all blocks of a running launch share.
struct Launch {
  explicit Launch(const KernelCall& c) : call(c), blocks(uint64_t(c.grid.x) * c.grid.y * c.grid.z) {}

  const KernelCall& call;
  const uint64_t blocks;
  std::atomic<uint64_t> next_block = 0;
  std::atomic<bool> failed = false;

  /// Waits until every block of the grid has arrived. False where that cannot happen any more.
  bool arrive_at_grid_barrier();
  /// A block has ended: nobody may wait for it.
  void leave_grid();
  /// Ends the launch: blocks stop at their next wait, no further ones start.
  void fail();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t arrived_ = 0, left_ = 0, generation_ = 0;
};

enum class State : uint8_t { running, block_barrier, grid_barrier, warp, active_mask, done };

/// A thread of the block that is running.
struct Thread {
  uint3 index = {};
  State state = State::running;
  Fiber* fiber = nullptr;
  const void* place = nullptr;  ///< where in the program it waits
  // What it waits with, and what it gets.
  WarpOp op = {};
  unsigned mask = 0;
  int argument = 0, width = 32;
  uint64_t value = 0, result = 0;
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
  int block_barrier(int predicate, const void* place);
  void grid_barrier(const void* place);
  uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int argument, int width, const void* place);
  unsigned active_mask(const void* place);
  /// Ends the launch; never returns. `what` begins a sentence that the kernel, block, thread and place end.
  [[noreturn]] void fault(cudaError_t error, std::string what, const void* place);

  /// Why a kernel may not touch these bytes, or an empty string where it may. See check.cpp.
  std::string refuse_access(const void* address, size_t bytes, bool write);
  bool may_access(const void* address, size_t bytes, bool write);

  /// The worker whose kernel the calling OS thread is inside of, or null.
  static Worker* current() { return current_worker; }

 private:
  void begin(Launch& launch);
  void end();
  void run_block(uint64_t block);
  /// The body of every fiber: starts threads of the block while there are any.
  void run_threads();
  void start_thread();
  void finish_thread();
  /// The current thread waits until something makes it ready.
  void wait(State state, const void* place);
  void make_ready(Thread& thread);
  void resume(Fiber& fiber);
  Fiber& idle_fiber();
  /// Nothing can run: lets a complete barrier or a group of converged lanes go. False: the block is stuck.
  bool release_waiting();
  void release_block_barrier();
  bool release_grid_barrier();
  bool release_active_mask();
  /// Finishes the warp operation that `thread` waits in, if all lanes are there.
  bool try_warp(Thread& thread);
  void report_stuck();
  void report(cudaError_t error, const std::string& what, const Thread& thread, const void* place);
  void abandon_fibers();
  void fill_shared_with_nonsense();

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

  struct Fault {
    cudaError_t error = cudaSuccess;
    std::string what;
    const void* place = nullptr;
  } fault_;

  char* stacks_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  /// Addresses on either side of dynamic shared memory that are nobody's: one of them was meant for it.
  static constexpr size_t shared_guard = 256 << 10;
  char* dynamic_shared_ = nullptr;
  std::vector<module::SharedVariable> shared_;  // of the kernel's module; known in a checked build only
};

/// Runs a launch on the workers of this process; an error of the configuration, or of the run.
cudaError_t run_launch(const KernelCall& call);

/// "src/file.cu:12" of a return address in device code, or an empty string where that is not known.
std::string source_line(const void* place);

}  // namespace simt
