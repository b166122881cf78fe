// Running one block: its threads, its barriers, and what happens when it can go no further.
#include <signal.h>
#include <simt/runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <tuple>

#include "counting/counts.hpp"
#include "crash.hpp"
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

/// Memory with `guard` bytes of inaccessible address space on either side.
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

}  // namespace

Worker::Worker()
    : threads_(device::max_threads_per_block),
      stacks_(map(stacks_bytes)),
      dynamic_memory_(map(shared_capacity, shared_guard)),
      dynamic_shared_(dynamic_memory_) {
#ifdef SIMT_CHECKED
  dynamic_cells_ = races::reserve_cells(shared_capacity / 4);
#endif
}

Worker::~Worker() {
  unmap(stacks_, stacks_bytes);
  unmap(dynamic_memory_, shared_capacity, shared_guard);
#ifdef SIMT_CHECKED
  races::release_cells(dynamic_cells_, shared_capacity / 4);
#endif
}

void Worker::run(Launch& launch) {
  begin(launch);
  while (!launch.failed) {
    const uint64_t block = launch.next_block.fetch_add(1, std::memory_order_relaxed);
    if (block >= launch.blocks) break;
    run_block(launch.block(block));
  }
  end();
}

void Worker::run(Launch& launch, uint64_t block) {
  begin(launch);
#ifdef SIMT_CHECKED
  has_ended_ = false;
#endif
  if (launch.call.in_cluster) launch.join_cluster(block, *this);
  run_block(block);
#ifdef SIMT_CHECKED
  has_ended_ = true;
#endif
  end();
  launch.leave_grid();
  if (launch.call.in_cluster) launch.leave_cluster();
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
  shared_begin_ = shared_end_ = nullptr;
  if (launch.call.in_cluster || counting::wanted()) find_shared_variables();
  begin_counting();
#ifndef SIMT_CHECKED
  give_crash_stack();
  // Its end is the end of the mapping: an access past it faults.
  dynamic_shared_ = dynamic_memory_ + shared_capacity - (launch.call.dynamic_shared_bytes + 15) / 16 * 16;
#else
  shared_ = module::shared_variables(launch.call.kernel);
  static_begin_ = static_end_ = nullptr;
  if (!shared_.empty()) {
    // From a word's bound on: a cell stands for one word.
    static_begin_ = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(shared_.front().address) & ~uintptr_t(3));
    for (const auto& variable : shared_)
      static_end_ = std::max<const char*>(static_end_, variable.address + variable.bytes);
    const size_t words = size_t(static_end_ - static_begin_ + 3) / 4;
    if (static_cells_.size() < words) static_cells_.assign(words, {});
  }
  if (launch.call.in_cluster) {  // accesses of other runs count there: those of old launches go
    std::ranges::fill(static_cells_, races::Cell{});
    if (dynamic_cells_) std::fill_n(dynamic_cells_, (launch.call.dynamic_shared_bytes + 3) / 4, races::Cell{});
  }
#endif
}

#ifndef SIMT_CHECKED
std::string Worker::describe_crash(int signal, const void* address) const {
  const size_t bytes = launch_->call.dynamic_shared_bytes;
  const auto* const a = static_cast<const char*>(address);
  std::string what;
  if (signal == SIGFPE) {
    what = "divides an integer by zero";
  } else if (a >= dynamic_memory_ - shared_guard && a < dynamic_memory_ + shared_capacity + shared_guard) {
    what = "touches memory " + std::string(a < dynamic_shared_ ? "before" : "past") + " the " + std::to_string(bytes) +
           " bytes of dynamic shared memory of the launch";
  } else {
    what = a < reinterpret_cast<const char*>(4096) ? "touches a null pointer" : "touches memory that is not there";
  }
  return "kernel " + module::function_name(launch_->call.kernel) + ", " + place() + " " + what;
}
#endif

std::string Worker::place() const { return "block " + text(simt_block_index) + ", thread " + text(simt_thread_index); }

void Worker::end() {
  end_counting();
  launch_ = nullptr;
}

// The boundary of a block: what counts per block starts and ends here.
void Worker::run_block(uint64_t block) {
  simt_block_index = launch_->block_index(block);
  started_ = done_ = waiting_in_warps_ = 0;
  if (!copies_.empty()) forget_copies();
  shuffled_ = launch_->seed != 0;
  if (shuffled_) {
    random_ = Random(launch_->seed + block);
    shuffle_threads();
  }
#ifdef SIMT_CHECKED
  fill_shared_with_nonsense();
  watch_words_of_small_variables();
  order_.start_block(launch_->releases, launch_->first_run, block, launch_->blocks);
#endif
  if (trace_) {
    trace_->start_block(size_, counts_);
    counts_.launches += block == 0;
  }
  while (done_ < size_) {
    if (launch_->failed) return abandon_fibers();
    if (!ready_.empty()) {
      current_ = take_ready();
      simt_thread_index = current_->index;
#ifdef SIMT_CHECKED
      refresh_moment();
#endif
      resume(*current_->fiber);
    } else if (started_ < size_) {
      resume(idle_fiber());
    } else if (!(trace_ && release_full_notes()) && !release_waiting()) {
      if (!launch_->failed) report_stuck();
      return abandon_fibers();
    }
    if (fault_.error != cudaSuccess) {
      report(fault_.error, fault_.sentence());
      fault_ = {};
      return abandon_fibers();
    }
  }
  if (trace_) trace_->replay();
}

// With a seed: another order of the threads that start, and of those that may go on, in each block and each interval
// between barriers. Kernels that rely on the order of threads then fail here, too.
void Worker::shuffle_threads() {
  for (int i = 0; i < size_; ++i) threads_[i].state = State::unborn;
  shuffled_order_.resize(size_t(size_));
  std::iota(shuffled_order_.begin(), shuffled_order_.end(), uint16_t(0));
  for (size_t i = shuffled_order_.size(); i > 1; --i)
    std::swap(shuffled_order_[i - 1], shuffled_order_[random_.below(i)]);
}

Thread* Worker::take_ready() {
  if (shuffled_) std::swap(ready_.front(), ready_[random_.below(ready_.size())]);
  Thread* const thread = ready_.front();
  ready_.pop_front();
  return thread;
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
  Thread& thread = threads_[next_thread()];
  simt_thread_index = thread.index;
  thread.state = State::running;
  thread.fiber = running_;
  current_ = &thread;
  ++started_;
#ifdef SIMT_CHECKED
  refresh_moment();
#endif
}

void Worker::finish_thread() {
  if (!copies_.empty()) deliver_copies(rank(*current_), std::numeric_limits<size_t>::max(), nullptr);
#ifdef SIMT_CHECKED
  find_unseen_writes();
#endif
  Thread& thread = *current_;
  thread.state = State::done;
  if (trace_) trace_->end(rank(thread));
  ++done_;
  if (waiting_in_warps_ == 0) return;
  // Lanes that have ended are not waited for: one that waits may have waited for this one alone.
  const int first = rank(thread) / 32 * 32;
  for (int i = first; i < std::min(first + 32, size_); ++i) {
    if (has_started(i) && threads_[i].state == State::warp && try_warp(threads_[i])) make_ready(threads_[i]);
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
#ifdef SIMT_CHECKED
  reads_count_ = 0;
#endif
  fibers_.clear();
  idle_.clear();
  ready_.clear();
#ifdef SIMT_CHECKED
  __asan_unpoison_memory_region(stacks_, stacks_bytes);
#endif
}

void Worker::wait(State state, std::source_location where) {
#ifdef SIMT_CHECKED
  find_unseen_writes();
#endif
  Thread& thread = *current_;
  thread.state = state;
  thread.where = where;
  thread.fiber->suspend();
}

void Worker::make_ready(Thread& thread) {
  thread.state = State::running;
  ready_.push_back(&thread);
}

void Worker::fault(cudaError_t error, std::function<std::string()> sentence) {
  fault_ = {error, std::move(sentence)};
  running_->suspend();
  std::abort();  // a failed fiber is never resumed
}
void Worker::fault(cudaError_t error, std::string what, std::source_location where) {
  fault(error, [this, what = std::move(what), where] { return what + ", " + in_this_thread(source_line(where)); });
}

int Worker::count(State state) const {
  int n = 0;
  for (int i = 0; i < size_; ++i) n += threads_[i].state == state;
  return n;
}

// ----------------------------------------------------------------------------------------------------------- barriers

int Worker::block_barrier(int predicate, std::source_location where) {
  current_->value = predicate != 0;
  Thread& thread = *current_;
  wait(State::block_barrier, where);
  return int(thread.result);
}

void Worker::grid_barrier(std::source_location where) {
  if (!launch_->call.cooperative) {
    fault(cudaErrorLaunchFailure, "grid.sync() in a launch that is not cooperative", where);
  }
  wait(State::grid_barrier, where);
}

bool Worker::release_waiting() {
  if (release_active_mask()) return true;
  if (count(State::block_barrier) == size_) return release_block_barrier();
  return count(State::grid_barrier) == size_ && release_grid_barrier();
}

bool Worker::release_block_barrier() {
  uint64_t sum = 0;
  bool together = true;
  for (int i = 0; i < size_; ++i) {
    sum += threads_[i].value;
    together &= same_place(threads_[i].where, threads_[0].where);
  }
  if (!together) {
    report_divergent();
    return false;
  }
#ifdef SIMT_CHECKED
  order_.block_barrier();
#endif
  for (int i = 0; i < size_; ++i) {
    threads_[i].result = sum;
    make_ready(threads_[i]);
  }
  return true;
}

bool Worker::release_grid_barrier() {
  if (!launch_->arrive_at_grid_barrier()) return false;
#ifdef SIMT_CHECKED
  order_.grid_barrier();
#endif
  for (int i = 0; i < size_; ++i) make_ready(threads_[i]);
  return true;
}

// ------------------------------------------------------------------------------------------------------------- faults

std::string Worker::describe_threads() const {
  struct Group {
    int threads = 0;
    const Thread* first = nullptr;
    std::string what;
  };
  std::map<std::tuple<State, std::string, unsigned>, Group> groups;
  for (int i = 0; i < size_; ++i) {
    const Thread& thread = threads_[i];
    const bool done = thread.state == State::done;
    Group& group = groups[{thread.state, done ? "" : thread.where.file_name(), done ? 0 : thread.where.line()}];
    if (group.threads++ > 0) continue;
    group.first = &thread;
    group.what = done                                   ? "have ended"
                 : thread.state == State::block_barrier ? "wait at __syncthreads()"
                 : thread.state == State::grid_barrier
                     ? (launch_->call.in_cluster ? "wait at a barrier of the cluster" : "wait at a grid barrier")
                     : "wait in a warp operation";
    if (!done) group.what += " at " + source_line(thread.where);
  }
  std::vector<Group> sorted;
  for (const auto& [key, group] : groups) sorted.push_back(group);
  std::ranges::stable_sort(sorted, std::greater(), &Group::threads);
  std::string all = "of " + std::to_string(size_) + " threads";
  for (const Group& group : sorted) {
    all += (&group == &sorted.front() ? " " : ", ") + std::to_string(group.threads) + " " + group.what + " (" +
           (group.threads > 1 ? "the first: " : "") + "thread " + text(group.first->index) + ")";
  }
  return all + "; in kernel " + module::function_name(launch_->call.kernel) + ", block " + text(simt_block_index) +
         "; ";
}

void Worker::report_stuck() {
  const bool barrier = count(State::block_barrier) + count(State::grid_barrier) > 0;
  const bool warps = count(State::warp) > 0;
  report(cudaErrorLaunchFailure,
         (barrier && !warps ? "a barrier that not all threads come to: " : "the block can never go on: ") +
             describe_threads() +
             (warps ? "all lanes of a mask must come to the same warp operation"
                    : "threads without work must come to every barrier too: no return before it, and no branch around "
                      "it that only some take"));
}

void Worker::report_divergent() {
  report(cudaErrorLaunchFailure,
         "the threads of a block wait at different barriers: " + describe_threads() +
             "all threads of a block must come to the same __syncthreads(): none may stand in a branch or a loop that "
             "only some take");
}

std::string Worker::in_this_thread(const std::string& line) const {
  return "in kernel " + module::function_name(launch_->call.kernel) + ", block " + text(simt_block_index) +
         ", thread " + text(current_->index) + (line.empty() ? "" : ", at " + line);
}

void Worker::report(cudaError_t error, const std::string& sentence) {
  launch_->fail();
  record_fault(error, sentence);
}

#ifdef SIMT_CHECKED
void Worker::fill_shared_with_nonsense() {
  for (const auto& variable : shared_) memory::fill_with_nonsense(variable.address, variable.bytes);
  memory::fill_with_nonsense(dynamic_shared_, launch_->call.dynamic_shared_bytes);
}
#endif

std::string text(uint3 v) {
  return std::string("(") + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

std::string source_line(std::source_location where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace simt

// ----------------------------------------------------------------------------------- what device code comes down to

using simt::Worker;

extern "C" {

void* simt_dynamic_shared() noexcept { return Worker::current()->dynamic_shared(); }

int simt_block_barrier(int predicate, std::source_location where) {
  Worker::current()->note(simt::counting::Kind::together, 0, __builtin_return_address(0));
  return Worker::current()->block_barrier(predicate, where);
}
void simt_grid_barrier(std::source_location where) {
  const void* const place = __builtin_return_address(0);
  const bool is_counted = Worker::current()->is_counted();
  Worker::current()->note(simt::counting::Kind::together, 0, place);
  if (is_counted) Worker::current()->note_grid_barrier(place);
  Worker::current()->grid_barrier(where);
  // A barrier of the block before it, and one behind.
  if (is_counted) Worker::current()->note(simt::counting::Kind::together, 0, place);
}
uint64_t simt_warp(simt::WarpOp op, unsigned mask, uint64_t value, int argument, int width,
                   std::source_location where) {
  Worker::current()->note(simt::counting::Kind::together, 1, __builtin_return_address(0));
  return Worker::current()->warp(op, mask, value, argument, width, where);
}
unsigned simt_active_mask(std::source_location where) { return Worker::current()->active_mask(where); }
void simt_trap(std::source_location where) { Worker::current()->fault(cudaErrorLaunchFailure, "__trap()", where); }

long long simt_clock() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}
}
