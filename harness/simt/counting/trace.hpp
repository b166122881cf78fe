// What the threads of a block did, and the warp instructions that it was on a GPU.
//
// The CPU device runs the threads of a block one after another. Each writes down its accesses, its blocks of code, and
// its barriers; when no thread can go on, the notes of the 32 lanes of a warp are replayed side by side. Lanes at the
// same place form one instruction. Where lanes part at a branch, each side runs by itself until the place where all
// ways from the branch meet (its immediate post-dominator), as hardware does with a stack of masks: Fung, Sham, Yuan,
// Aamodt, "Dynamic Warp Formation and Scheduling for Efficient GPU Control Flow", MICRO 2007, section 2.
//
// nvcc unrolls short loops by four, with the rounds that are over in a loop of their own before. Lanes that differ in
// their number of rounds run those first: of 3 and 4 rounds 3, and then 4 in the other lanes.
//
// nvcc asks whether a loop has a round before it does what it takes out of that loop: this counts for the lanes that
// run a first round.
//
// Lanes that wait at a meeting place may keep the others from going on, as where they hold a lock. In loops in which
// that may be ptxas has a YIELD: then those that wait go on by themselves, to the next operation of the warp or the
// next meeting place (US patent 10,067,768: a barrier is passed when each of its threads waits at it or has yielded).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "counting/code.hpp"
#include "counting/counts.hpp"
#include "counting/event.hpp"
#include "counting/updates.hpp"

namespace simt::counting {

class Trace {
 public:
  /// The threads of the next block. What they do is added to `counts`, which outlives the block.
  void start_block(int threads, KernelCounts& counts);
  /// A thread enters, or leaves, a function that was not inlined.
  void enter(int thread) { ++lanes_[thread].depth; }
  void leave(int thread) { --lanes_[thread].depth; }
  /// What a thread does does not count while the sum of these is above 0.
  void silence(int thread, int by) { lanes_[thread].silent += by; }
  bool is_silent(int thread) const { return lanes_[thread].silent > 0; }
  /// Returns false where the thread's notes are full now: it has to wait until they were replayed.
  bool add(int thread, const void* address, Kind kind, int size_log2, uint64_t value);
  /// The thread has ended.
  void end(int thread) { lanes_[thread].ended = true; }
  /// Replays the notes of all warps, as far as they go. Called while no thread runs.
  void replay();
  /// Whether the thread, which waits because its notes were full, can go on.
  bool has_room(int thread) {
    Lane& lane = lanes_[thread];
    if (lane.count() >= capacity / 2) return false;
    lane.was_full = false;
    return true;
  }

 private:
  static constexpr size_t capacity = 4096;  ///< events of a thread
  /// What a lane has loaded from global memory, and nothing that it did since may have changed.
  struct Held {
    uint64_t begin = 0, end = 0;
    bool shared_was_stored = false;  ///< since, to shared memory: g++ takes that to change it
  };
  struct Lane {
    std::vector<Event> events;
    size_t next = 0;                ///< the first that was not replayed
    std::array<Held, 8> held = {};  ///< the last first
    int depth = 0, silent = 0;
    bool was_full = false, ended = false;
    /// Of a loop that is unrolled, as indices: where the rounds that are over end, and where all do.
    size_t rest_end = 0, loop_end = 0;
    size_t joined_end = 0;  ///< where the rounds end that have loads in common
    size_t first_end = 0;   ///< of these, where all are one block of code: the first one
    Place longest = {};     ///< a loop with more rounds than the notes hold: their number is unknown
    /// By the depth of calls, in functions with guarded loops (function.hpp): the block that it ran last, and the loop
    /// that it came to, while it may yet leave it.
    struct Level {
      Place last = {}, came_to = {};
    };
    std::vector<Level> levels = {};
    size_t count() const { return events.size() - next; }
    bool has_event() const { return next < events.size(); }
    Place head() const { return events[next].place; }
  };
  /// How far the lanes of a group run: as they do, or in a loop that is unrolled.
  enum class Until { end, rest_end, loop_end };
  /// Lanes that run together since a branch.
  struct Group {
    uint32_t mask = 0;
    Place meets_at = {};  ///< where they join the group below; nowhere: at the end of their function
    int depth = 0;        ///< of the branch
    Place last = {};      ///< the block of code that they ran last, while nothing came behind it but accesses
    uint32_t last_mask = 0;
    Until until = Until::end;
    bool yielded = false;  ///< or go on without it: they meet others at the next operation of the warp, too
  };
  using Warp = std::vector<Group>;  // the last one runs

  void replay(int first, Warp& warp);
  /// The event of these lanes, all at the same place, is an instruction of their warp.
  void execute(int first, uint32_t mask);
  /// Of an instruction of these lanes. True for a load of what each of them still holds.
  bool is_held(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address);
  /// A load that several rounds of a loop have in common. False where it is none.
  bool is_joined(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address);
  /// An instruction of these lanes.
  void count(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address);
  const Access& access_of(Place place);
  /// That of block_at(), which is asked for one place several times in turn.
  const Block& block_of(Place place);
  /// The lanes of a group went different ways behind `branch`. False where all of them are at the meeting place.
  bool split(int first, Warp& warp, uint32_t mask, Place branch);
  /// The lanes are at the first block of a loop. True where it is unrolled and they differ in their number of rounds:
  /// then they run it in two groups.
  bool unroll(int first, Warp& warp, uint32_t mask, Place header);
  /// These lanes begin a block: counts those that begin the first round of a guarded loop with it.
  void enter_guarded(int first, uint32_t mask, Place place);
  /// The lanes are at the first block of a loop. True where it yields, and others went on that waited for them.
  bool yield(int first, Warp& warp, Place header);

  std::vector<Lane> lanes_;  // of the block's threads
  int threads_ = 0;
  std::vector<Warp> warps_;
  Updates updates_;  // of the block, since its last replay
  KernelCounts* counts_ = nullptr;
  std::unordered_map<uint64_t, Access> accesses_;  // by the address of the place
  std::unordered_map<uint64_t, int> joined_;       // loads of all loops that were entered (code.hpp)
  const Block* block_ = nullptr;                   // of block_place_, since the last block_of()
  uint64_t block_place_ = 0;
};

}  // namespace simt::counting
