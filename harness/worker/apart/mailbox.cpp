#include "worker/apart/mailbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace ladder::apart {

Shared::Shared(size_t room) : bytes_(box_bytes + room) {
  descriptor_ = memfd_create("ladder-mailbox", MFD_CLOEXEC);
  if (descriptor_ < 0 || ftruncate(descriptor_, off_t(bytes_)) != 0)
    throw Error(
        fmt::format("no {} bytes of memory can be shared with another process: {}", bytes_, std::strerror(errno)));
  map();
  new (memory_) Mailbox;
}

Shared Shared::of(int descriptor) {
  Shared shared;
  struct stat found {};
  if (fstat(descriptor, &found) != 0 || size_t(found.st_size) < box_bytes)
    throw Error("this process was given no memory to share: it is started by another worker alone");
  shared.descriptor_ = descriptor;
  shared.bytes_ = size_t(found.st_size);
  shared.map();
  return shared;
}

Shared::Shared(Shared&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)) {}

Shared::~Shared() {
  if (memory_) munmap(memory_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

void Shared::map() {
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory_ != MAP_FAILED) return;
  memory_ = nullptr;
  throw Error(fmt::format("shared memory cannot be mapped: {}", std::strerror(errno)));
}

// The number is stored before `asleep` is read, and a sleeper sets `asleep` before it reads the number: one of the two
// sees what the other did (both are sequentially consistent). The other process can write here too; who was not woken
// looks again after 50 ms.
void announce(Bell& bell, uint32_t value) {
  bell.number.store(value);
  if (bell.asleep.load() != 0) syscall(SYS_futex, &bell.number, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

namespace detail {

bool watch_bell(const Bell& bell, uint32_t value, double seconds) {
  const double until = seconds > 0 ? now_seconds() + seconds : 0;
  do {
    for (int i = 0; i < 64; ++i) {
      if (bell.number.load(std::memory_order_acquire) == value) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (seconds > 0 && now_seconds() < until);
  return false;
}

void sleep_on(Bell& bell, uint32_t seen) {
  const timespec most{0, 50'000'000};
  bell.asleep.store(1);
  if (bell.number.load() == seen) syscall(SYS_futex, &bell.number, FUTEX_WAIT, seen, &most, nullptr, 0);
  bell.asleep.store(0);
}

}  // namespace detail
}  // namespace ladder::apart
