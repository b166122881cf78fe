// Clusters: a grid whose blocks reach each other's shared memory. As of a cooperative launch each block has an OS
// thread, so that the shared memory of all of them exists.
#include <simt/runtime.h>

#include <algorithm>
#include <cstring>

#include "fault.hpp"
#include "worker.hpp"

namespace simt {

void Launch::join_cluster(uint64_t block, Worker& worker) {
  std::unique_lock lock(mutex_);
  cluster_.resize(blocks);
  cluster_[block] = &worker;
  ++joined_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return joined_ == blocks; });
}

void Launch::leave_cluster() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return blocks_ended_ == blocks; });
}

void Worker::find_shared_variables() {
  for (const auto& variable : module::shared_variables(launch_->call.kernel)) {
    if (!shared_begin_ || variable.address < shared_begin_) shared_begin_ = variable.address;
    shared_end_ = std::max(shared_end_, variable.address + variable.bytes);
  }
}

int Worker::owner_in_cluster(const void* address) const {
  const std::vector<Worker*>& blocks = launch_->cluster();
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    if (blocks[rank] != this && has_shared(*blocks[rank], static_cast<const char*>(address))) return int(rank);
  }
  return -1;
}

void Worker::cluster_barrier(std::source_location where) {
  if (launch_->call.in_cluster)
    wait(State::grid_barrier, where);
  else
    block_barrier(0, where);
}

void* Worker::map_shared(const void* address, unsigned rank, std::source_location where) {
  if (rank >= cluster_blocks()) {
    fault(cudaErrorIllegalAddress,
          "map_shared_rank() to block " + std::to_string(int(rank)) + " of a cluster of " +
              std::to_string(cluster_blocks()),
          where);
  }
  if (!launch_->call.in_cluster) return const_cast<void*>(address);
  const auto* const a = static_cast<const char*>(address);
  // One past the end is a place, too: the end of an array.
  const bool is_dynamic = a >= dynamic_shared_ && a <= dynamic_shared_ + launch_->call.dynamic_shared_bytes;
  if (!is_dynamic && !(shared_begin_ && a >= shared_begin_ && a <= shared_end_)) {
    fault(cudaErrorIllegalAddress, "map_shared_rank() of an address outside the block's shared memory", where);
  }
  const Worker& other = *launch_->cluster()[rank];
  return is_dynamic ? other.dynamic_shared_ + (a - dynamic_shared_) : other.shared_begin_ + (a - shared_begin_);
}

void Worker::store_async(void* address, uint64_t bits, size_t bytes, [[maybe_unused]] const void* place) {
#ifdef SIMT_CHECKED
  access(address, bytes, Touch::write, place);
#endif
  std::memcpy(address, &bits, bytes);
}

}  // namespace simt

using simt::Worker;

extern "C" {

void simt_cluster_barrier(std::source_location where) {
  Worker::current()->note(simt::counting::Kind::together, 0, __builtin_return_address(0));
  Worker::current()->cluster_barrier(where);
}
unsigned simt_cluster_blocks() noexcept { return Worker::current()->cluster_blocks(); }
void* simt_map_shared(const void* address, unsigned rank, std::source_location where) noexcept {
  return Worker::current()->map_shared(address, rank, where);
}
void simt_store_async(void* address, uint64_t bits, size_t bytes) {
  Worker::current()->store_async(address, bits, bytes, __builtin_return_address(0));
}
}
