// What a judge and its accused say to each other: one question, one answer, in memory that both map.
//
//   judge                                        accused
//   load                                         the card (facts.hpp) of the request's module
//   refuse                                       why it does not take the problem, or nothing
//   begin     points, upload?                    a run begins: prepare and, where it is wanted, upload
//   act       phase, start, stop rule, seed      the phase was called
//   synchronize, forget, poison_labels, poison_result, download, clear_drawn
//   solve     stop rule                          iterations
//   measure   phases, how                        seconds, cpu seconds, iterations
//   count, clock, sample_memory, watch, unwatch, peak
//   told      from which byte on                 labels changed, counters and a remark, as JSON
//   chosen                                       where the drawn rows lie
//   publish   labels or centroids                copied to the shared memory behind the mailbox
//   end_run, quit
//
// Every answer says where labels and centroids lie in the accused's memory. The judge takes an answer over once, and
// believes of it only what it checks.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "contract/problem.hpp"

namespace ladder::apart {

enum class What : uint32_t {
  load,
  refuse,
  begin,
  act,
  synchronize,
  forget,
  poison_labels,
  poison_result,
  download,
  clear_drawn,
  solve,
  measure,
  count,
  clock,
  sample_memory,
  watch,
  unwatch,
  peak,
  told,
  chosen,
  publish,
  end_run,
  quit
};

struct Question {
  What what = What::quit;
  unsigned acts = 0;   ///< of a sample
  int64_t value = 0;   ///< points, a phase, a byte, or which result
  uint64_t start = 0;  ///< number of the start; its centroids lie in the shared memory
  uint64_t seed = 1;
  Stop stop = {};
  bool upload = false, from_host = false, cold = false, waited = false;
  double spin = 0;
};

struct Answer {
  enum class Kind : uint32_t { done, refused, error } kind = Kind::done;
  int64_t value = 0;
  double seconds = 0, submit_seconds = 0, cpu_seconds = 0;
  uint64_t label = 0, centroids = 0, chosen = 0;  ///< addresses in the accused
  int keeps_count = -1;     ///< whether the variant counts changed labels itself; -1: no run has begun
  uint64_t text_bytes = 0;  ///< of the whole text, of which `text` holds a part
  char text[32768] = {};
};

/// A number that one process sets and the other waits for. To wake who sleeps is a system call: it is made where
/// somebody does.
struct alignas(64) Bell {
  std::atomic<uint32_t> number = 0, asleep = 0;
};

struct Mailbox {
  Bell asked;  ///< number of the last question
  Bell answered;
  alignas(64) Question question;
  alignas(64) Answer answer;
};

/// Memory that two processes map: a mailbox, and behind it room for bytes.
class Shared {
 public:
  /// The judge: new memory.
  explicit Shared(size_t room);
  /// The accused: that of a descriptor that it was given.
  static Shared of(int descriptor);
  Shared(Shared&& other) noexcept;
  ~Shared();

  Mailbox& box() const { return *static_cast<Mailbox*>(memory_); }
  char* room() const { return static_cast<char*>(memory_) + box_bytes; }
  size_t room_bytes() const { return bytes_ - box_bytes; }
  int descriptor() const { return descriptor_; }

  static constexpr size_t box_bytes = (sizeof(Mailbox) + 4095) / 4096 * 4096;

 private:
  Shared() = default;
  void map();
  int descriptor_ = -1;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
};

/// Waits until the number is `value`: first watching it for `spin` seconds, then asleep, and calls `awake()` about
/// every 50 ms meanwhile.
template <class Awake>
void await(Bell& bell, uint32_t value, double spin, const Awake& awake);
/// Sets the number and wakes who waits for it.
void announce(Bell& bell, uint32_t value);

namespace detail {
bool watch_bell(const Bell& bell, uint32_t value, double seconds);
void sleep_on(Bell& bell, uint32_t seen);
}  // namespace detail

template <class Awake>
void await(Bell& bell, uint32_t value, double spin, const Awake& awake) {
  if (detail::watch_bell(bell, value, spin)) return;
  for (uint32_t seen; (seen = bell.number.load(std::memory_order_acquire)) != value;) {
    detail::sleep_on(bell, seen);
    if (bell.number.load(std::memory_order_acquire) != value) awake();
  }
}

}  // namespace ladder::apart
