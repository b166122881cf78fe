// Running one block: its threads, its barriers, and what happens when it can go no further.
#include <simt/runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "device.hpp"
#include "fault.hpp"
#include "memory.hpp"
#include "worker.hpp"

// The built-in variables of kernels, which runtime.h declares const.
#define SIMT_TLS __attribute__((tls_model("initial-exec"), visibility("default"))) __thread
extern "C" {
SIMT_TLS uint3 simt_thread_index, simt_block_index, simt_block_size, simt_grid_size;
}

namespace simt {
namespace {

constexpr size_t stack_bytes = 256 << 10;
constexpr size_t stacks_bytes = stack_bytes * device::max_threads_per_block;
constexpr size_t shared_capacity = device::shared_bytes_per_multiprocessor;

/// Memory with `guard` bytes on either side that nobody may touch, and where nothing else can be mapped.
char* map(size_t bytes, size_t guard = 0) {
  void* range = mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  char* memory = static_cast<char*>(range) + guard;
  if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(range, bytes + 2 * guard);
    throw std::bad_alloc();
  }
  return memory;
}
void unmap(char* memory, size_t bytes, size_t guard = 0) { munmap(memory - guard, bytes + 2 * guard); }

std::string text(uint3 v) {
  return std::string("(") + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

}  // namespace

Worker::Worker()
    : threads_(device::max_threads_per_block),
      stacks_(map(stacks_bytes)),
      dynamic_shared_(map(shared_capacity, shared_guard)) {}

Worker::~Worker() {
  unmap(stacks_, stacks_bytes);
  unmap(dynamic_shared_, shared_capacity, shared_guard);
}

void Worker::run(Launch& launch) {
  begin(launch);
  while (!launch.failed) {
    const uint64_t block = launch.next_block.fetch_add(1, std::memory_order_relaxed);
    if (block >= launch.blocks) break;
    run_block(block);
  }
  end();
}

void Worker::run(Launch& launch, uint64_t block) {
  begin(launch);
  run_block(block);
  end();
  launch.leave_grid();
}

void Worker::begin(Launch& launch) {
  launch_ = &launch;
  simt_block_size = launch.call.block;
  simt_grid_size = launch.call.grid;
  size_ = int(simt_block_size.x * simt_block_size.y * simt_block_size.z);
  // Once per launch: to count on from the thread before would wait, in each thread, for a store of the last.
  int i = 0;
  for (unsigned z = 0; z < simt_block_size.z; ++z)
    for (unsigned y = 0; y < simt_block_size.y; ++y)
      for (unsigned x = 0; x < simt_block_size.x; ++x) threads_[i++].index = {x, y, z};
#ifdef SIMT_CHECKED
  shared_ = module::shared_variables(launch.call.kernel);
#endif
}

void Worker::end() { launch_ = nullptr; }

// The boundary of a block: what counts per block starts and ends here.
void Worker::run_block(uint64_t block) {
  const dim3 grid = launch_->call.grid;
  simt_block_index = {unsigned(block % grid.x), unsigned(block / grid.x % grid.y), unsigned(block / grid.x / grid.y)};
  started_ = done_ = waiting_in_warps_ = 0;
#ifdef SIMT_CHECKED
  fill_shared_with_nonsense();
#endif
  while (done_ < size_) {
    if (launch_->failed) return abandon_fibers();
    if (!ready_.empty()) {
      current_ = ready_.front();
      ready_.pop_front();
      simt_thread_index = current_->index;
      resume(*current_->fiber);
    } else if (started_ < size_) {
      resume(idle_fiber());
    } else if (!release_waiting()) {
      if (!launch_->failed) report_stuck();
      return abandon_fibers();
    }
    if (fault_.error != cudaSuccess) {
      report(fault_.error, fault_.what, *current_, fault_.place);
      fault_ = {};
      return abandon_fibers();
    }
  }
}

void Worker::run_threads() {
  for (;;) {
    while (started_ < size_ && !launch_->failed) {
      start_thread();
      launch_->call.body(launch_->call.arguments);
      finish_thread();
    }
    parked_ = true;
    running_->suspend();
  }
}

void Worker::start_thread() {
  Thread& thread = threads_[started_];
  simt_thread_index = thread.index;
  thread.state = State::running;
  thread.fiber = running_;
  current_ = &thread;
  ++started_;
}

void Worker::finish_thread() {
  Thread& thread = *current_;
  thread.state = State::done;
  ++done_;
  if (waiting_in_warps_ == 0) return;
  // Lanes that have ended are not waited for: one that waits may have waited for this one alone.
  const int first = rank(thread) / 32 * 32;
  for (int i = first; i < std::min(first + 32, started_); ++i) {
    if (threads_[i].state == State::warp && try_warp(threads_[i])) make_ready(threads_[i]);
  }
}

void Worker::resume(Fiber& fiber) {
  running_ = &fiber;
  parked_ = false;
  current_worker = this;
  fiber.resume();
  current_worker = nullptr;
  if (parked_) idle_.push_back(&fiber);
}

Fiber& Worker::idle_fiber() {
  if (idle_.empty()) {
    // Stacks are a power of two apart: without an offset of its own the top of each would fall into the same cache
    // sets.
    const size_t number = fibers_.size();
    const size_t offset = number % 61 * 192;
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->prepare(
        stacks_ + number * stack_bytes, stack_bytes - offset,
        [](void* worker) { static_cast<Worker*>(worker)->run_threads(); }, this);
    idle_.push_back(fibers_.back().get());
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void Worker::abandon_fibers() {
  fibers_.clear();
  idle_.clear();
  ready_.clear();
#ifdef SIMT_CHECKED
  __asan_unpoison_memory_region(stacks_, stacks_bytes);
#endif
}

void Worker::wait(State state, const void* place) {
  Thread& thread = *current_;
  thread.state = state;
  thread.place = place;
  thread.fiber->suspend();
}

void Worker::make_ready(Thread& thread) {
  thread.state = State::running;
  ready_.push_back(&thread);
}

void Worker::fault(cudaError_t error, std::string what, const void* place) {
  fault_ = {error, std::move(what), place};
  running_->suspend();
  std::abort();  // nobody resumes a fiber that has failed
}

int Worker::count(State state) const {
  int n = 0;
  for (int i = 0; i < started_; ++i) n += threads_[i].state == state;
  return n;
}

// ----------------------------------------------------------------------------------------------------------- barriers

int Worker::block_barrier(int predicate, const void* place) {
  current_->value = predicate != 0;
  Thread& thread = *current_;
  wait(State::block_barrier, place);
  return int(thread.result);
}

void Worker::grid_barrier(const void* place) {
  if (!launch_->call.cooperative) {
    fault(cudaErrorLaunchFailure, "grid.sync() in a launch that is not cooperative", place);
  }
  wait(State::grid_barrier, place);
}

bool Worker::release_waiting() {
  if (release_active_mask()) return true;
  if (count(State::block_barrier) == size_) {
    release_block_barrier();
    return true;
  }
  return count(State::grid_barrier) == size_ && release_grid_barrier();
}

void Worker::release_block_barrier() {
  uint64_t sum = 0;
  for (int i = 0; i < size_; ++i) sum += threads_[i].value;
  for (int i = 0; i < size_; ++i) {
    threads_[i].result = sum;
    make_ready(threads_[i]);
  }
}

bool Worker::release_grid_barrier() {
  if (!launch_->arrive_at_grid_barrier()) return false;
  for (int i = 0; i < size_; ++i) make_ready(threads_[i]);
  return true;
}

// ------------------------------------------------------------------------------------------------------------- faults

void Worker::report_stuck() {
  const Thread* first = nullptr;
  for (int i = 0; i < size_ && !first; ++i) {
    if (threads_[i].state != State::done) first = &threads_[i];
  }
  const auto part = [&](State state, const char* what) {
    const int n = count(state);
    return n == 0 ? std::string() : ", " + std::to_string(n) + " " + what;
  };
  report(cudaErrorLaunchFailure,
         "the block can never go on: of " + std::to_string(size_) + " threads" +
             part(State::block_barrier, "wait at __syncthreads()") + part(State::warp, "wait in a warp operation") +
             part(State::grid_barrier, "wait at a grid barrier") + part(State::done, "have ended") +
             "; here the first that waits",
         *first, first->place);
}

void Worker::report(cudaError_t error, const std::string& what, const Thread& thread, const void* place) {
  const std::string line = source_line(place);
  launch_->fail();
  record_fault(error, what + ", in kernel " + module::function_name(launch_->call.kernel) + ", block " +
                          text(simt_block_index) + ", thread " + text(thread.index) +
                          (line.empty() ? "" : ", at " + line));
}

void Worker::fill_shared_with_nonsense() {
  for (const auto& variable : shared_) memory::fill_with_nonsense(variable.address, variable.bytes);
  memory::fill_with_nonsense(dynamic_shared_, launch_->call.dynamic_shared_bytes);
}

}  // namespace simt

// ----------------------------------------------------------------------------------- what device code comes down to

using simt::Worker;

extern "C" {

void* simt_dynamic_shared() noexcept { return Worker::current()->dynamic_shared(); }

int simt_block_barrier(int predicate) {
  return Worker::current()->block_barrier(predicate, __builtin_return_address(0));
}
void simt_grid_barrier() { Worker::current()->grid_barrier(__builtin_return_address(0)); }
uint64_t simt_warp(simt::WarpOp op, unsigned mask, uint64_t value, int argument, int width) {
  return Worker::current()->warp(op, mask, value, argument, width, __builtin_return_address(0));
}
unsigned simt_active_mask() { return Worker::current()->active_mask(__builtin_return_address(0)); }
void simt_trap() { Worker::current()->fault(cudaErrorLaunchFailure, "__trap()", __builtin_return_address(0)); }

long long simt_clock() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}
}
