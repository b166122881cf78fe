#include "counting/updates.hpp"

#include <bit>

#include "counting/rules.hpp"

namespace simt::counting {

void Updates::add(size_t warp, Place place, uint32_t mask, const std::array<uint64_t, 32>& address) {
  if (of_warp_.size() <= warp) of_warp_.resize(warp + 1);
  of_warp_[warp].push_back({.place = place, .mask = mask, .address = address});
}

void Updates::count(KernelCounts& counts) {
  std::vector<size_t> next(of_warp_.size());
  for (bool any = true; any;) {
    any = false;
    ++turn_;
    for (size_t w = 0; w < of_warp_.size(); ++w) {
      if (next[w] == of_warp_[w].size()) continue;
      any = true;
      Update& update = of_warp_[w][next[w]];
      const Cost load = cost_of(Kind::shared_load, update.place.size_log2(), update.address, update.mask);
      PlaceCounts& loads = counts.at(update.place.with_kind(Kind::shared_load));
      PlaceCounts& turns = counts.at(update.place);
      const auto lanes = uint64_t(std::popcount(update.mask));
      ++loads.requests, ++turns.requests;
      loads.lanes += lanes, turns.lanes += lanes;
      loads.units += load.units, loads.ideal += load.ideal;
      ++turns.units;
      turns.ideal += !update.is_begun;
      update.is_begun = true;
    }
    for (size_t w = 0; w < of_warp_.size(); ++w) {
      if (next[w] == of_warp_[w].size()) continue;
      Update& update = of_warp_[w][next[w]];
      update.mask &= ~try_once(update);
      if (!update.mask) ++next[w];
    }
  }
  of_warp_.clear();
  changed_.clear();
}

uint32_t Updates::try_once(const Update& update) {
  const int log2 = update.place.size_log2(), lanes = log2 == 3 ? 16 : 32;
  uint32_t succeeded = 0;
  for (int first = 0; first < 32; first += lanes) {
    uint32_t banks = 0;
    for (int lane = first; lane < first + lanes; ++lane) {
      if (!(update.mask >> lane & 1)) continue;
      const uint64_t address = update.address[size_t(lane)];
      const uint32_t bank = 1u << (address >> log2 & uint64_t(lanes - 1));
      if (banks & bank) continue;
      banks |= bank;
      uint64_t& changed = changed_[address];
      if (changed == turn_) continue;
      changed = turn_;
      succeeded |= 1u << lane;
    }
  }
  return succeeded;
}

}  // namespace simt::counting
