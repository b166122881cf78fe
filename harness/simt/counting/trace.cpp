#include "counting/trace.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "counting/rules.hpp"

namespace simt::counting {

void Trace::start_block(int threads, KernelCounts& counts) {
  counts_ = &counts;
  threads_ = threads;
  if (int(lanes_.size()) < threads) lanes_.resize(size_t(threads));
  for (int i = 0; i < threads; ++i) {
    lanes_[i].events.clear();
    lanes_[i].next = lanes_[i].rest_end = lanes_[i].loop_end = lanes_[i].joined_end = lanes_[i].first_end = 0;
    lanes_[i].held = {};
    lanes_[i].depth = lanes_[i].silent = 0;
    lanes_[i].was_full = lanes_[i].ended = false;
    lanes_[i].longest = {};
    lanes_[i].levels.clear();
  }
  warps_.assign(size_t(threads + 31) / 32, {});
  for (size_t w = 0; w < warps_.size(); ++w) {
    const int lanes = std::min(32, threads - int(w) * 32);
    warps_[w].push_back({.mask = lanes == 32 ? ~0u : (1u << lanes) - 1});
  }
  ++counts.blocks;
  counts.warps += warps_.size();
}

bool Trace::add(int thread, const void* address, Kind kind, int size_log2, uint64_t value) {
  Lane& lane = lanes_[thread];
  if (lane.silent > 0) return true;
  lane.events.push_back({Place(lane.depth, address, kind, size_log2), value});
  lane.was_full = lane.count() >= capacity;
  return !lane.was_full;
}

void Trace::replay() {
  for (size_t w = 0; w < warps_.size(); ++w) replay(int(w) * 32, warps_[w]);
  updates_.count(*counts_);
  for (int i = 0; i < threads_; ++i) {
    Lane& lane = lanes_[i];
    lane.events.erase(lane.events.begin(), lane.events.begin() + std::ptrdiff_t(lane.next));
    lane.rest_end -= std::min(lane.rest_end, lane.next);
    lane.loop_end -= std::min(lane.loop_end, lane.next);
    lane.joined_end -= std::min(lane.joined_end, lane.next);
    lane.first_end -= std::min(lane.first_end, lane.next);
    lane.next = 0;
  }
}

void Trace::execute(int first, uint32_t mask) {
  std::array<uint64_t, 32> address{};
  const Place place = lanes_[first + std::countr_zero(mask)].head();
  for_each_lane(mask, [&](int lane) {
    Lane& of = lanes_[first + lane];
    address[size_t(lane)] = of.events[of.next++].value;
  });
  if (is_update(place.kind())) {
    is_held(place, first, mask, address);
    return updates_.add(size_t(first) / 32, place, mask, address);
  }
  if (place.kind() == Kind::code) enter_guarded(first, mask, place);
  if (is_joined(place, first, mask, address)) return;
  const Part whole{place.size_log2(), 0};
  const std::optional<Parts>& parts = access_of(place).parts;
  for (const Part& part : parts ? std::span(*parts) : std::span(&whole, 1)) {
    std::array<uint64_t, 32> its = address;
    for (uint64_t& a : its) a += uint64_t(part.shift);
    count(place.with_size(part.size_log2), first, mask, its);
  }
}

void Trace::count(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address) {
  if (is_held(place, first, mask, address)) return;
  PlaceCounts& counts = counts_->at(place);
  ++counts.requests;
  counts.lanes += uint64_t(std::popcount(mask));
  if (!is_access(place.kind())) return;
  const Cost cost = cost_of(place.kind(), place.size_log2(), address, mask);
  counts.units += cost.units;
  counts.ideal += cost.ideal;
}

bool Trace::is_joined(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address) {
  if (joined_.empty() || !is_load_or_store(place.kind())) return false;
  const auto joined = joined_.find(place.address());
  if (joined == joined_.end()) return false;
  bool in_joined_rounds = true, in_first = true, begins = true;
  for_each_lane(mask, [&](int number) {
    const Lane& lane = lanes_[first + number];
    in_joined_rounds &= lane.next <= lane.joined_end;
    in_first &= lane.next <= lane.first_end;
    begins &= (address[size_t(number)] & ((uint64_t(1) << joined->second) - 1)) == 0;
  });
  if (!in_joined_rounds) return false;
  if (begins || in_first) count(begins ? place.with_size(joined->second) : place, first, mask, address);
  return true;
}

bool Trace::is_held(Place place, int first, uint32_t mask, const std::array<uint64_t, 32>& address) {
  const Kind kind = place.kind();
  if (kind == Kind::code || kind == Kind::shared_load || kind == Kind::constant_load) return false;
  bool by_all = kind == Kind::global_load;
  const bool loaded_before = by_all && access_of(place).loaded_before;
  for_each_lane(mask, [&](int number) {
    std::array<Held, 8>& held = lanes_[first + number].held;
    if (kind == Kind::shared_store || kind == Kind::shared_atomic || is_update(kind)) {
      for (Held& h : held) h.shared_was_stored = true;
    } else if (kind == Kind::global_store || kind == Kind::global_atomic || kind == Kind::together) {
      held = {};
    } else if (kind == Kind::global_load) {
      const Held now{address[size_t(number)], address[size_t(number)] + (uint64_t(1) << place.size_log2())};
      auto before = std::find_if(held.begin(), held.end(),
                                 [&](const Held& h) { return h.begin <= now.begin && now.end <= h.end; });
      const bool is_there = before != held.end();
      by_all &= is_there && (loaded_before || before->shared_was_stored);
      if (!is_there) before = held.end() - 1;
      const Held keep = is_there ? Held{before->begin, before->end} : now;
      std::move_backward(held.begin(), before, before + 1);
      held.front() = keep;
    }
  });
  return by_all;
}

const Block& Trace::block_of(Place place) {
  if (place.address() != block_place_ || !block_) block_ = &block_at(place.address());
  block_place_ = place.address();
  return *block_;
}

const Access& Trace::access_of(Place place) {
  static const Access as_it_is;
  if (!is_load_or_store(place.kind())) return as_it_is;
  const auto [found, is_new] = accesses_.try_emplace(place.address());
  if (is_new) found->second = access_at(place.address());
  return found->second;
}

void Trace::replay(int first, Warp& warp) {
  const auto lane = [&](int i) -> Lane& { return lanes_[first + i]; };
  const auto lanes_that = [&](uint32_t mask, auto holds) {
    uint32_t found = 0;
    for_each_lane(mask, [&](int i) { found |= uint32_t(holds(lane(i))) << i; });
    return found;
  };
  for (;;) {
    Group& group = warp.back();
    const uint32_t alive =
        group.mask & ~lanes_that(group.mask, [&](const Lane& l) {
          if (group.until != Until::end && l.next == (group.until == Until::rest_end ? l.rest_end : l.loop_end))
            return true;
          return l.ended && !l.has_event();
        });
    const uint32_t ready = lanes_that(alive, [](const Lane& l) { return l.has_event(); });
    if (!ready) {
      // They have ended, or wait for lanes of a group below: for a barrier that it has yet to reach.
      const bool others = std::any_of(warp.begin(), warp.end() - 1, [&](const Group& g) {
        return lanes_that(g.mask & ~group.mask, [](const Lane& l) { return l.has_event(); }) != 0;
      });
      if (warp.size() == 1 || (alive && !others)) return;
      warp.pop_back();
      continue;
    }
    // A lane whose notes were full goes on later; it may be at the very same place then.
    if (lanes_that(alive & ~ready, [](const Lane& l) { return l.was_full; })) return;

    const Place head = lane(std::countr_zero(ready)).head();
    const bool same = lanes_that(ready, [&](const Lane& l) { return l.head() == head; }) == ready;
    if (same && warp.size() > 1 &&
        (head == group.meets_at || head.depth() < group.depth || (group.yielded && head.kind() == Kind::together))) {
      warp.pop_back();
      continue;
    }
    if (same && head.kind() != Kind::code) {
      execute(first, ready);
      continue;
    }
    if (same && (unroll(first, warp, ready, head) || yield(first, warp, head))) continue;
    // A block of code begins, or the lanes are at different places: behind the last block they may have parted.
    const Place last = std::exchange(group.last, Place());
    if (!last.is_nowhere() && (!same || ready != group.last_mask)) {
      ++counts_->at(last).parted;
      if (!same && split(first, warp, ready, last)) continue;
    }
    Place lowest = head;
    for_each_lane(ready, [&](int i) { lowest = std::min(lowest, lane(i).head()); });
    const uint32_t together = lanes_that(ready, [&](const Lane& l) { return l.head() == lowest; });
    execute(first, together);
    if (lowest.kind() == Kind::code) {
      warp.back().last = lowest;
      warp.back().last_mask = together;
    }
  }
}

bool Trace::split(int first, Warp& warp, uint32_t mask, Place branch) {
  const uint64_t meets_at = block_of(branch).meets_at;
  const Place meeting = meets_at ? branch.code_at(meets_at) : Place();
  std::vector<Group> sides;
  for (uint32_t rest = mask; rest;) {
    Place lowest = lanes_[first + std::countr_zero(rest)].head();
    for_each_lane(rest, [&](int i) { lowest = std::min(lowest, lanes_[first + i].head()); });
    uint32_t side = 0;
    for_each_lane(rest, [&](int i) { side |= uint32_t(lanes_[first + i].head() == lowest) << i; });
    rest &= ~side;
    if (lowest != meeting && lowest.depth() >= branch.depth())
      sides.push_back({.mask = side, .meets_at = meeting, .depth = branch.depth(), .until = warp.back().until});
  }
  warp.insert(warp.end(), sides.rbegin(), sides.rend());  // the lowest runs first
  return !sides.empty();
}

bool Trace::yield(int first, Warp& warp, Place header) {
  if (!block_of(header).yields) return false;
  const uint32_t running = warp.back().mask;
  for (size_t i = warp.size() - 1; i > 0; --i) {
    Group& group = warp[i];
    const Group& below = warp[i - 1];
    if (group.until != Until::end || (group.mask & ~below.mask)) return false;  // another side has yet to run
    if (group.meets_at == below.meets_at) continue;
    Group others = {.meets_at = below.meets_at, .depth = below.depth, .yielded = true};
    for_each_lane(below.mask & ~running, [&](int n) {
      const Lane& lane = lanes_[first + n];
      others.mask |= uint32_t(lane.has_event() && lane.head() == group.meets_at) << n;
    });
    if (!others.mask) continue;
    group.meets_at = below.meets_at, group.depth = below.depth, group.yielded = true;
    warp.push_back(others);
    return true;
  }
  return false;
}

void Trace::enter_guarded(int first, uint32_t mask, Place place) {
  const Block& block = block_of(place);
  if (!block.is_beside_guarded) return;
  const auto has = [](const std::vector<uint64_t>& places, Place one) {
    return std::find(places.begin(), places.end(), one.address()) != places.end();
  };
  for_each_lane(mask, [&](int number) {
    std::vector<Lane::Level>& levels = lanes_[first + number].levels;
    if (levels.size() <= size_t(place.depth())) levels.resize(size_t(place.depth()) + 1);
    Lane::Level& level = levels[size_t(place.depth())];
    if (!level.came_to.is_nowhere()) {
      const Block::Guarded& loop = block_at(level.came_to.address()).guarded;
      if (has(loop.inside, place)) ++counts_->at(level.came_to.with_kind(Kind::loop_entered)).lanes;
      if (!has(loop.header, place)) level.came_to = {};
    }
    const bool is_in_it = has(block.guarded.inside, level.last) || has(block.guarded.header, level.last);
    if (!block.guarded.inside.empty() && !is_in_it) level.came_to = place;
    level.last = place;
  });
}

bool Trace::unroll(int first, Warp& warp, uint32_t mask, Place header) {
  const Block& block = block_of(header);
  const std::vector<uint64_t>& loop = block.unrolled;
  if (block.unrolled_by < 2) return false;
  uint32_t with_rest = 0, with_whole = 0, entered = 0;
  bool known = true, differ = false;
  size_t rounds_of_one = 0;
  for_each_lane(mask, [&](int i) {
    Lane& lane = lanes_[first + i];
    if (lane.next < lane.loop_end || lane.longest == header) {  // in the loop already
      known = false;
      return;
    }
    entered |= 1u << i;
    std::vector<size_t> rounds;
    size_t at = lane.next;
    for (; at < lane.events.size(); ++at) {
      const Place place = lane.events[at].place;
      if (place == header) rounds.push_back(at);
      if (place.kind() == Kind::code && place.depth() == header.depth() &&
          std::find(loop.begin(), loop.end(), place.address()) == loop.end())
        break;
    }
    lane.loop_end = at;
    if (at == lane.events.size()) {
      lane.longest = header;
      known = false;
    }
    differ |= rounds_of_one != 0 && rounds_of_one != rounds.size();
    rounds_of_one = rounds.size();
    const size_t over = rounds.size() % block.unrolled_by;
    lane.rest_end = rounds.size() < block.unrolled_by ? at : rounds[over];
    lane.joined_end = over == 0 || block.joined.of_all ? at : rounds[rounds.size() - over];
    lane.first_end = !block.joined.of_all ? 0 : rounds.size() > 1 ? rounds[1] : at;
    with_rest |= uint32_t(over != 0) << i;
    with_whole |= uint32_t(rounds.size() >= block.unrolled_by) << i;
  });
  joined_.insert(block.joined.loads.begin(), block.joined.loads.end());
  if (!known || differ) for_each_lane(entered, [&](int i) { lanes_[first + i].joined_end = 0; });
  if (!known || !differ || !with_rest || !with_whole) return false;
  const Until until = warp.back().until;
  if (until != Until::end) return false;
  warp.push_back({.mask = with_whole, .depth = header.depth(), .until = Until::loop_end});
  warp.push_back({.mask = with_rest, .depth = header.depth(), .until = Until::rest_end});
  return true;
}

}  // namespace simt::counting
