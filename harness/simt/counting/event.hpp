// What a thread did, in the order in which it did it: the trace that counting.hpp makes warp instructions of.
#pragma once
#include <bit>
#include <cstdint>

namespace simt::counting {

/// What happened. A space and a way of access are told together, so that an event's place says all that lanes must have
/// in common to be one instruction of their warp.
enum class Kind : uint8_t {
  code,           ///< a block of code begins
  together,       ///< a barrier, or an operation of the warp
  zero_dividend,  ///< a division of doubles that took the longer way of 0 / b: counted by lanes, not in a trace
  grid_poll,      ///< a load of a block that waits at a barrier of the grid: an estimate, not in a trace
  loop_entered,   ///< a round of a loop is the first: counted by lanes, not in a trace
  global_load,
  global_store,
  global_atomic,
  shared_load,
  shared_store,
  shared_atomic,
  constant_load,
  shared_update,    ///< an atomic that takes several turns (updates.hpp)
  shared_addition,  ///< one whose change is an addition of floating-point numbers
};
inline constexpr bool is_access(Kind kind) { return kind >= Kind::global_load; }
inline constexpr bool is_update(Kind kind) { return kind >= Kind::shared_update; }
inline constexpr bool is_load_or_store(Kind kind) {
  return kind == Kind::global_load || kind == Kind::global_store || kind == Kind::shared_load ||
         kind == Kind::shared_store;
}

/// Where in the program: lanes at equal places do the same thing. Ordered so that what is inside the most calls comes
/// first, then what has the lowest address: lanes in a callee, or behind in a loop, catch up with the others.
class Place {
 public:
  constexpr Place() = default;
  /// `address`: behind the call that reported it. `size_log2`: of an access; of `together`, 0 for a barrier and 1 for
  /// an operation of the warp.
  Place(int depth, const void* address, Kind kind, int size_log2)
      : bits_(uint64_t(uint8_t(~depth)) << 56 | (reinterpret_cast<uint64_t>(address) & address_mask) << 8 |
              uint64_t(kind) << 4 | unsigned(size_log2)) {}

  int depth() const { return uint8_t(~(bits_ >> 56)); }
  uint64_t address() const { return bits_ >> 8 & address_mask; }
  Kind kind() const { return Kind(bits_ >> 4 & 15); }
  int size_log2() const { return int(bits_ & 15); }
  /// The same, of a block of code that begins at `address` and as many calls deep as this one.
  Place code_at(uint64_t address) const {
    Place other;
    other.bits_ = (bits_ & 0xffull << 56) | address << 8 | uint64_t(Kind::code) << 4;
    return other;
  }
  /// The same in whatever depth of calls: one line of the program, one entry of a table.
  Place at_any_depth() const {
    Place other;
    other.bits_ = bits_ & ~(0xffull << 56);
    return other;
  }
  Place with_size(int size_log2) const {
    Place other;
    other.bits_ = (bits_ & ~15ull) | unsigned(size_log2);
    return other;
  }
  Place with_kind(Kind kind) const {
    Place other;
    other.bits_ = (bits_ & ~0xf0ull) | uint64_t(kind) << 4;
    return other;
  }
  bool is_nowhere() const { return bits_ == 0; }
  uint64_t bits() const { return bits_; }
  friend bool operator==(Place a, Place b) { return a.bits_ == b.bits_; }
  friend bool operator<(Place a, Place b) { return a.bits_ < b.bits_; }

 private:
  static constexpr uint64_t address_mask = 0xffffffffffff;
  uint64_t bits_ = 0;
};

/// Of Place::bits().
inline Kind kind_of(uint64_t bits) { return Kind(bits >> 4 & 15); }
inline uint64_t address_of(uint64_t bits) { return bits >> 8 & 0xffffffffffff; }

/// Calls body(lane) for each bit of a mask of lanes, the lowest first.
template <class Body>
void for_each_lane(uint32_t mask, Body body) {
  for (; mask; mask &= mask - 1) body(std::countr_zero(mask));
}

struct Event {
  Place place;
  uint64_t value = 0;  ///< of an access: the address
};

}  // namespace simt::counting
