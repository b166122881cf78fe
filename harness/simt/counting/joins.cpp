#include "counting/joins.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

namespace simt::counting {
namespace {

constexpr int widest_log2 = 4;
constexpr uint64_t call_bytes = 5;  // of a direct call

/// "__tsan_read4": a load of 4 bytes. Unaligned and volatile accesses have other names.
bool is_access(std::string_view called, bool& is_store, int& size_log2) {
  for (const bool store : {false, true}) {
    const std::string_view name = store ? "__tsan_write" : "__tsan_read";
    if (called.substr(0, name.size()) != name) continue;
    called.remove_prefix(name.size());
    unsigned bytes = 0;
    const auto [end, error] = std::from_chars(called.data(), called.data() + called.size(), bytes);
    if (error != std::errc() || end != called.data() + called.size()) return false;
    is_store = store;
    size_log2 = std::countr_zero(bytes);
    return true;
  }
  return false;
}

}  // namespace

template <class Which>
void Joins::close(Which which) {
  for (size_t i = open_.size(); i-- > 0;) {
    if (!which(open_[i])) continue;
    join(open_[i]);
    open_.erase(open_.begin() + std::ptrdiff_t(i));
  }
}

void Joins::begin() {
  close([](const Chain&) { return true; });
}

void Joins::visit(const Instruction& x, const Values& values) {
  if (x.name != "call" || finds_thread_variables(x) || reports_a_division(x)) return;
  bool is_store = false;
  int size_log2 = 0;
  if (!is_access(x.called, is_store, size_log2)) return begin();
  const Value address = values.of("%rdi");
  close([&](const Chain& chain) {
    const bool is_same = chain.is_store == is_store && chain.size_log2 == size_log2 &&
                         chain.accesses.front().address.base == address.base;
    return (is_store || chain.is_store) && !is_same;  // they may be to the same memory
  });
  const uint64_t place = x.address + call_bytes;
  if (!is_store && is_loaded(address, size_log2)) {
    found_[place] = {.is_first = false};
    return;
  }
  const auto chain = std::find_if(open_.begin(), open_.end(), [&](const Chain& c) {
    return c.is_store == is_store && c.size_log2 == size_log2 && c.accesses.front().address.base == address.base;
  });
  Chain& its = chain != open_.end() ? *chain : open_.emplace_back(Chain{is_store, size_log2, {}});
  its.accesses.push_back({place, address});
}

bool Joins::is_loaded(const Value& address, int size_log2) const {
  const auto end = [](int64_t offset, int log2) { return offset + (int64_t(1) << log2); };
  return std::any_of(open_.begin(), open_.end(), [&](const Chain& chain) {
    return !chain.is_store && std::any_of(chain.accesses.begin(), chain.accesses.end(), [&](const Access& before) {
      return before.address.base == address.base && before.address.offset <= address.offset &&
             end(address.offset, size_log2) <= end(before.address.offset, chain.size_log2);
    });
  });
}

void Joins::join(Chain& chain) {
  const std::vector<Access> in_order = chain.accesses;
  std::vector<Access>& all = chain.accesses;
  std::stable_sort(all.begin(), all.end(),
                   [](const Access& a, const Access& b) { return a.address.offset < b.address.offset; });
  const int64_t size = int64_t(1) << chain.size_log2;
  for (size_t first = 0; first < all.size();) {
    size_t count = 1;
    for (int log2 = widest_log2; log2 > chain.size_log2; --log2) {
      const size_t wanted = size_t(1) << (log2 - chain.size_log2);
      if (!all[first].address.is_multiple(log2) || first + wanted > all.size()) continue;
      bool side_by_side = true;
      for (size_t i = 1; i < wanted; ++i)
        side_by_side &= all[first + i].address.offset == all[first].address.offset + int64_t(i) * size;
      if (!side_by_side) continue;
      count = wanted;
      const auto leads = std::find_if(in_order.begin(), in_order.end(), [&](const Access& access) {
        return std::any_of(all.begin() + std::ptrdiff_t(first), all.begin() + std::ptrdiff_t(first + count),
                           [&](const Access& one) { return one.place == access.place; });
      });
      for (size_t i = first; i < first + count; ++i)
        found_[all[i].place] = {.is_first = all[i].place == leads->place,
                                .size_log2 = log2,
                                .shift = all[first].address.offset - leads->address.offset};
      break;
    }
    first += count;
  }
}

}  // namespace simt::counting
