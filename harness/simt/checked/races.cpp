#include "races.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace simt::races {

Cell* reserve_cells(size_t words) {
  void* cells =
      mmap(nullptr, words * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) return nullptr;
  madvise(cells, words * sizeof(Cell), MADV_DONTDUMP);
  return static_cast<Cell*>(cells);
}

void release_cells(Cell* cells, size_t words) {
  if (cells) munmap(cells, words * sizeof(Cell));
}

void Releases::prepare() {
  if (of_blocks_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  if (memory_) return;
  memory_ = std::make_unique<std::atomic<uint32_t>[]>(blocks_);
  of_blocks_.store(memory_.get(), std::memory_order_release);
}

void Releases::release(uint64_t block, const void* address) {
  std::lock_guard lock(mutex_);
  const uint32_t now = std::min(clock_ + 1, last_stamp);
  clock_ = now;
  memory_[block] = now;
  at_[address] = now;
}

uint32_t Releases::acquire(const void* address) {
  std::lock_guard lock(mutex_);
  const auto found = at_.find(address);
  return found == at_.end() ? 0 : found->second;
}

void Order::start_block(Releases& releases, uint32_t first_run, uint64_t block, uint64_t blocks) {
  releases_ = &releases;
  first_run_ = first_run;
  run_ = first_run + uint32_t(block);
  blocks_ = blocks;
  acquired_ = 0;
  fenced_ = false;
  if (now_ > last_clock / 2) {
    now_ = 0;
    std::ranges::fill(seen_, Lanes{});
  }
  block_barrier();
}

void Order::block_barrier() {
  base_ = ++now_;
  std::ranges::fill(epochs_, base_);
  std::ranges::fill(warp_bases_, base_);
}

void Order::grid_barrier() {
  first_run_ += uint32_t(blocks_);
  run_ += uint32_t(blocks_);
  block_barrier();
}

void Order::warp_operation(int first, unsigned lanes, bool whole) {
  const uint32_t now = ++now_;
  if (whole) {
    warp_bases_[first / 32] = now;
    std::fill_n(&epochs_[first], 32, now);
    return;
  }
  Lanes joined;
  for (unsigned remaining = lanes; remaining; remaining &= remaining - 1) {
    const Lanes& one = seen_[first + __builtin_ctz(remaining)];
    for (int l = 0; l < 32; ++l) joined[l] = std::max(joined[l], one[l]);
  }
  for (unsigned remaining = lanes; remaining; remaining &= remaining - 1) joined[__builtin_ctz(remaining)] = now;
  for (unsigned remaining = lanes; remaining; remaining &= remaining - 1) {
    const int thread = first + __builtin_ctz(remaining);
    seen_[thread] = joined;
    epochs_[thread] = now;
  }
}

void Order::fence() {
  fenced_ = true;
  releases_->prepare();
}

}  // namespace simt::races
