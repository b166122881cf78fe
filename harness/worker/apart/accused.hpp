// The process that runs a variant for a judge: started, asked, looked at, and ended.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "protocol/request.hpp"
#include "worker/apart/facts.hpp"
#include "worker/apart/mailbox.hpp"

namespace ladder::apart {

/// A refusal or an error of the accused is thrown here as Refusal or Error. Where its process ends, this one ends as it
/// did, by the same signal or status: who waits for this one sees what became of the variant.
class Accused {
 public:
  /// Starts `program` (which calls `serve` with the two descriptors behind its command `accused`) on a request. `room`:
  /// bytes that centroids or labels take at most.
  Accused(const std::string& program, const Request& request, size_t room);
  ~Accused();
  Accused(const Accused&) = delete;
  Accused& operator=(const Accused&) = delete;

  /// The module's card, and the phases that it has for the request's element type.
  const Facts& facts() const { return facts_; }

  /// One question, one answer. The pointer holds until the next question; `spin`: how long it is worth watching for it.
  const Answer& ask(const Question& question, double spin = 0);
  /// The same, in two steps: what lies between is the time that the accused took.
  void put(const Question& question);
  const Answer& take(double spin);
  /// The text of answers to `question`, in as many as it takes.
  std::string ask_text(Question question);

  /// `bytes` bytes at an address in the accused, taken over while all its threads are stopped. False where this system
  /// allows no process to look at another.
  bool read(uint64_t from, void* to, size_t bytes);
  char* room() const { return shared_.room(); }
  /// Seconds of CPU that its threads have used, all together; or those of its children, too.
  double cpu_seconds(bool and_children) const;
  /// Does one of its threads run, or wait for a core only? Or one of its children's: a peer's Python is one.
  bool is_at_work(bool and_children) const;
  /// Is there a process that it has started?
  bool has_company() const;
  /// Tells it that all was said, and waits for its end.
  void finish();

 private:
  void start(const std::string& program, int request);
  void look_for_its_end();
  [[noreturn]] void end_as_it_did(int status);

  Shared shared_;
  Answer answer_;
  Facts facts_;
  pid_t process_ = 0;
  clockid_t clock_ = 0;
  uint32_t number_ = 0;
};

}  // namespace ladder::apart
