// What was counted, by kernel and place in the program, and the file that it is written to.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "counting/event.hpp"

namespace simt::counting {

/// Of one place in the program: instructions of warps.
struct PlaceCounts {
  uint64_t requests = 0;  ///< warp instructions
  uint64_t lanes = 0;     ///< threads that took part, over all of them
  uint64_t units = 0, ideal = 0;
  uint64_t parted = 0;  ///< of a block of code: how often lanes went different ways behind it
};

struct KernelCounts {
  uint64_t launches = 0, blocks = 0, warps = 0;
  std::unordered_map<uint64_t, PlaceCounts> places;  ///< by Place::at_any_depth
  PlaceCounts& at(Place place) { return places[place.at_any_depth().bits()]; }
  void add(const KernelCounts& other);
};

/// A kernel with its launch sizes: "assign_kernel<float>", and grid and block.
struct KernelName {
  std::string name;
  std::array<unsigned, 3> grid{}, block{};
  friend auto operator<=>(const KernelName&, const KernelName&) = default;
};

/// Whether counts are wanted now: between simt_start_counting and simt_stop_counting, which the host calls.
bool wanted();
/// Adds what one worker counted of a launch.
void add(const KernelName& kernel, const KernelCounts& counts);

}  // namespace simt::counting
