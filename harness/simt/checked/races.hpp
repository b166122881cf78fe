// Race detection in the checked build: the last accesses to each word, and whether synchronisation orders two of them.
//
// Every word of 4 bytes that threads share has a cell with its last write and two of its last reads. A new access is
// held against them: of two by different threads, at least one a write, not both atomic, one must be ordered before the
// other. Orders are: an earlier launch or grid barrier; within a block a barrier; within a warp a warp operation; and
// anywhere a fence with an atomic behind it that the other side's atomic on the same word has seen. What is forgotten,
// because a cell holds three accesses and not all, can hide a race but never make one up.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device.hpp"

namespace simt::races {

/// One access. Workers read and write the cells of global memory side by side, each access in one instruction.
struct alignas(16) Access {
  /// run << 32 | clock << 10 | thread. A run is one block between two grid barriers; runs count on from launch to
  /// launch, 0 is none. The clock is the block's.
  uint64_t moment = 0;
  /// stamp << 38 | wrote << 37 | is atomic << 36 | which of the 4 bytes << 32 | place. The stamp is the launch's, the
  /// place that in the program, in bytes from the kernel's address on, 0 where it is unknown.
  uint64_t detail = 0;

  static constexpr uint64_t byte_bit = 1ull << 32, bytes_mask = 15ull << 32;
  static constexpr uint64_t atomic_bit = 1ull << 36, write_bit = 1ull << 37;
  static constexpr int stamp_shift = 38;
  uint32_t run() const { return uint32_t(moment >> 32); }
  int thread() const { return int(moment & 1023); }
  uint32_t clock() const { return uint32_t(moment) >> 10; }
  uint32_t stamp() const { return uint32_t(detail >> stamp_shift); }
  int32_t place() const { return int32_t(uint32_t(detail)); }
  bool is_atomic() const { return detail & atomic_bit; }
  bool wrote() const { return detail & write_bit; }
};
inline constexpr uint32_t last_clock = (1u << 22) - 1, last_stamp = (1u << 26) - 1;

using Packed = unsigned long long __attribute__((vector_size(16), may_alias));
inline Access load(const Access& from) {
  const Packed packed = *reinterpret_cast<const volatile Packed*>(&from);
  return {packed[0], packed[1]};
}
inline void store(Access& to, const Access& access) {
  *reinterpret_cast<volatile Packed*>(&to) = Packed{access.moment, access.detail};
}

struct Cell {
  Access write, read, other_read;
};

/// Zeroed cells for `words` words; untouched pages cost nothing. Null if no addresses are left.
Cell* reserve_cells(size_t words);
void release_cells(Cell* cells, size_t words);

/// Fences and atomics of a launch: its clock counts the releases, an atomic of a thread whose block had a fence.
class Releases {
 public:
  explicit Releases(uint64_t blocks) : blocks_(blocks) {}
  /// A block has come to its first fence.
  void prepare();
  bool any() const { return clock_.load(std::memory_order_relaxed) != 0; }
  uint32_t stamp() const { return clock_.load(std::memory_order_relaxed); }
  /// What the block did so far is released by an atomic at `address`.
  void release(uint64_t block, const void* address);
  /// The stamp up to which an atomic at `address` sees what was released there.
  uint32_t acquire(const void* address);
  /// Whether the block has released what it did at `stamp`.
  bool has_released(uint64_t block, uint32_t stamp) const {
    const auto* of_blocks = of_blocks_.load(std::memory_order_acquire);
    return of_blocks && of_blocks[block].load(std::memory_order_relaxed) > stamp;
  }

 private:
  const uint64_t blocks_;
  std::atomic<uint32_t> clock_ = 0;
  std::mutex mutex_;
  std::unordered_map<const void*, uint32_t> at_;  // behind mutex_
  std::unique_ptr<std::atomic<uint32_t>[]> memory_;
  std::atomic<std::atomic<uint32_t>*> of_blocks_ = nullptr;
};

/// The order of what the threads of the block that is running do.
class Order {
 public:
  /// A block starts: number `block` of the launch whose runs begin at `first_run`.
  void start_block(Releases& releases, uint32_t first_run, uint64_t block, uint64_t blocks);
  /// All threads of the block have met.
  void block_barrier();
  /// All threads of the grid have met.
  void grid_barrier();
  /// These lanes of the warp that begins at thread `first` have met; `whole`: they are all the threads it has.
  void warp_operation(int first, unsigned lanes, bool whole);
  void fence();
  /// An atomic at `address`, before it is held against others.
  void atomic(const void* address) {
    see(address);
    if (fenced_) releases_->release(run_ - first_run_, address);
  }
  /// The same after its step: another block may have released there while this one was on its way.
  void see(const void* address) {
    if (releases_->any()) acquired_ = std::max(acquired_, releases_->acquire(address));
  }

  /// An access of `thread` now, but for its bytes, place and kind.
  Access access(int thread) const {
    return {uint64_t(run_) << 32 | epochs_[size_t(thread)] << 10 | unsigned(thread), uint64_t(releases_->stamp())
                                                                                         << Access::stamp_shift};
  }
  /// The clock or the stamps have run out: what follows in this block goes unwatched.
  bool is_over() const { return now_ >= last_clock || releases_->stamp() >= last_stamp; }

  /// Records a write, or an atomic; the access that races with it, or one whose `moment` is 0. `of_block`: no other
  /// block can access the word.
  Access write(Cell& cell, const Access& now, bool of_block) const {
    const Access w = load(cell.write);
    if (same(w, now)) return {};
    if (race(w, now, of_block)) return w;
    for (const Access* reader : {&cell.read, &cell.other_read}) {
      const Access r = load(*reader);
      if (race(r, now, of_block)) return r;
    }
    store(cell.write, merged(w, now));
    return {};
  }
  /// The same for a read. `again`: the thread has read the word at the same moment before.
  Access read(Cell& cell, const Access& now, bool of_block, bool& again) const {
    const Access r = load(cell.read);
    again = same(r, now);
    if (again) return {};
    const Access w = load(cell.write);
    if (race(w, now, of_block)) return w;
    if (is_before(r, now, of_block)) {
      store(cell.read, merged(r, now));
      return {};
    }
    // Two readers are kept, of two blocks where there are: a writer then differs from one of them.
    const Access other = load(cell.other_read);
    again = same(other, now);
    if (!again && (is_before(other, now, of_block) || (other.run() == r.run() && now.run() != r.run())))
      store(cell.other_read, merged(other, now));
    return {};
  }

  /// Whether nothing orders the beginning of that block before what this one does now; in a launch whose runs begin at
  /// `first_run`.
  bool may_not_have_begun(uint64_t block, uint32_t first_run) const {
    const Access begun{(uint64_t(first_run) + block) << 32, 0};
    return begun.run() >= first_run_ && !(acquired_ > 0 && releases_->has_released(block, 0));
  }

  uint64_t block_of(const Access& access) const { return access.run() - first_run_; }

 private:
  static bool same(const Access& old, const Access& now) {
    return old.moment == now.moment && ((old.detail ^ now.detail) & (Access::atomic_bit | Access::bytes_mask)) == 0;
  }
  /// Of two accesses by one thread at one moment the plain one is kept: more races with it.
  static Access merged(const Access& old, const Access& now) {
    if (old.moment != now.moment) return now;
    Access both = now.is_atomic() ? old : now;
    both.detail |= (old.detail | now.detail) & Access::bytes_mask;
    return both;
  }
  bool race(const Access& old, const Access& now, bool of_block) const {
    return (old.detail & now.detail & Access::bytes_mask) != 0 && !(old.is_atomic() && now.is_atomic()) &&
           !is_before(old, now, of_block);
  }
  /// Whether something orders `old` before `now`, an access of the running thread.
  bool is_before(const Access& old, const Access& now, bool of_block) const {
    if (old.run() != run_) {
      if (old.run() < first_run_ || of_block) return true;
      return acquired_ > old.stamp() && releases_->has_released(block_of(old), old.stamp());
    }
    const int thread = old.thread(), me = now.thread();
    if (thread == me || old.clock() < base_) return true;
    if (thread / 32 == me / 32 && (old.clock() < warp_bases_[me / 32] || old.clock() < seen_[me][thread % 32]))
      return true;
    return acquired_ > old.stamp() && releases_->has_released(block_of(old), old.stamp());
  }

  Releases* releases_ = nullptr;
  uint32_t first_run_ = 0, run_ = 0;
  uint64_t blocks_ = 0;
  uint32_t now_ = 0;       // the block's clock: one step at each barrier and each warp operation
  uint32_t base_ = 0;      // the last barrier: what threads did before it is ordered before all that follows
  uint32_t acquired_ = 0;  // the launch's stamp up to which atomics of this block have seen others
  bool fenced_ = false;

  static constexpr int threads = device::max_threads_per_block;
  struct Lanes {
    uint32_t clock[32] = {};
    uint32_t& operator[](int lane) { return clock[lane]; }
    uint32_t operator[](int lane) const { return clock[lane]; }
  };
  std::vector<uint32_t> epochs_ = std::vector<uint32_t>(threads);           // when each thread was last ordered
  std::vector<uint32_t> warp_bases_ = std::vector<uint32_t>(threads / 32);  // the last time that all of a warp met
  std::vector<Lanes> seen_ = std::vector<Lanes>(threads);  // up to where a thread has seen each lane of its warp
};

}  // namespace simt::races
