#include <bit>
// Asynchronous copies (cp.async): at once where threads run in their own order. In a drawn order they come as late as
// they may: at the wait of their thread for their group, or with its end. Until then their place holds nonsense, as it
// may on a GPU, so that a read before the wait, or after a missing wait or commit, does not return the old value.
#include <cstring>

#include "counting/text/device_text.hpp"
#include "memory.hpp"
#include "worker.hpp"

namespace simt {
namespace {

void copy(const AsyncCopy& c) {
  std::memcpy(c.to, c.from, c.bytes - c.zeros);
  std::memset(static_cast<char*>(c.to) + c.bytes - c.zeros, 0, c.zeros);
}

}  // namespace

void Worker::async_copy(void* to, const void* from, size_t bytes, size_t zeros, std::source_location where,
                        [[maybe_unused]] const void* place) {
  const auto misplaced = [bytes](const void* address) { return reinterpret_cast<uintptr_t>(address) % bytes != 0; };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes || misplaced(to) || misplaced(from)) {
    fault(cudaErrorIllegalAddress,
          "an asynchronous copy of " + std::to_string(bytes) + " bytes, the last " + std::to_string(zeros) +
              " of them zeros: 4, 8 or 16 can be copied, between addresses that are multiples of it",
          where);
  }
  if (memory::is_device(to)) {
    fault(cudaErrorIllegalAddress, "an asynchronous copy to global memory: they go to shared memory", where);
  }
#ifdef SIMT_CHECKED
  if (bytes > zeros) access(from, bytes - zeros, Touch::read, place);
  access(to, bytes, Touch::write, place);  // from now on a GPU may write it
#endif
  const AsyncCopy begun{to, from, bytes, zeros};
  if (!shuffled_) return copy(begun);
  if (copies_.empty()) copies_.resize(size_t(size_));
  AsyncCopies& copies = copies_[size_t(rank(*current_))];
  copies.pending.push_back(begun);
  copies.pending.back().group = copies.committed;
  memory::fill_with_nonsense(to, bytes);
}

void Worker::async_commit() {
  if (!copies_.empty()) ++copies_[size_t(rank(*current_))].committed;
}

void Worker::async_wait(size_t last, const void* place) {
  if (copies_.empty()) return;
  const int thread = rank(*current_);
  const size_t committed = copies_[size_t(thread)].committed;
  if (committed > last) deliver_copies(thread, committed - last, place);
}

void Worker::deliver_copies(int thread, size_t end, [[maybe_unused]] const void* place) {
  auto& pending = copies_[size_t(thread)].pending;
  for (; !pending.empty() && pending.front().group < end; pending.pop_front()) {
#ifdef SIMT_CHECKED
    if (place) access(pending.front().to, pending.front().bytes, Touch::write, place);  // up to now
#endif
    copy(pending.front());
  }
}

void Worker::forget_copies() {
  if (copies_.size() != size_t(size_)) return copies_.clear();
  for (AsyncCopies& of_thread : copies_) of_thread.pending.clear(), of_thread.committed = 0;
}

}  // namespace simt

using simt::Worker;

extern "C" {

void simt_async_copy(void* to, const void* from, size_t bytes, size_t zeros, std::source_location where) {
  // For the CPU device alone it stands for a bulk copy, which is no load of a warp.
  if (Worker::current()->is_counted() && bytes > zeros &&
      !simt::counting::is_for_cpu_alone(where.file_name(), where.line()))
    Worker::current()->note_copy(to, from, std::countr_zero(bytes), __builtin_return_address(0));
  Worker::current()->async_copy(to, from, bytes, zeros, where, __builtin_return_address(0));
}
void simt_async_commit() { Worker::current()->async_commit(); }
void simt_async_wait(size_t last) { Worker::current()->async_wait(last, __builtin_return_address(0)); }
}
