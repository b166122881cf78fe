// The processes of a run that has several, *ranks*: how they find each other, what they tell each other, and what ends
// all of them when one is gone. Rank 0 drives the session and reports; the others repeat each step that it takes.
//
// All ranks run on one host. They meet at a local socket beside the request, over which rank 0 has two connections to
// every other rank: one for data, and one that only tells that the other side lives. A thread of each process watches
// the latter, so that a rank that dies is noticed within milliseconds, whatever the others are waiting for.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ladder {

/// What launchers of MPI tell a process of itself; both are -1 where none did.
struct LaunchedRank {
  int rank = -1, count = -1;
};
LaunchedRank rank_from_launcher();

class Ranks {
 public:
  /// Called in a thread of its own with a sentence that names the rank that ended. It ends the process.
  using Lost = std::function<void(const std::string&)>;

  /// Rank 0. Starts the others (this program, with `follow REQUEST RANK`), unless a launcher did, and waits for them.
  /// Throws Error if one does not come within half a minute.
  static std::unique_ptr<Ranks> lead(const std::filesystem::path& request, int count, bool launched, Lost lost);
  /// Any other rank: connects to rank 0. The process ends when rank 0 does.
  static std::unique_ptr<Ranks> follow(const std::filesystem::path& request, int rank, int count);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int count() const { return count_; }

  /// Rank 0 to all others: two pieces, which arrive as one.
  void tell(const void* head, size_t head_bytes, const void* rest = nullptr, size_t rest_bytes = 0);
  /// The other ranks: the next thing told. Waits; at most so many seconds, where that is above 0. Empty: nothing came.
  std::vector<char> listen(double seconds = 0);
  /// Every rank gives `bytes` bytes, and `all` gets those of rank 0, 1, ...
  void gather(const void* mine, size_t bytes, void* all);
  /// words[0 .. count) become the sums over all ranks, modulo 2^64.
  void sum(unsigned long long* words, size_t count);

  /// When all is done: nothing that a rank does from here on ends the run. Rank 0 waits until the others are here.
  void finish();
  /// Another rank that cannot go on: rank 0 ends the run for this reason, if it has none of its own by then.
  [[noreturn]] void give_up(const std::string& reason);

 private:
  struct Peer {
    int rank = -1;
    int data = -1, alive = -1;  // sockets
    pid_t process = 0;
    bool child = false;  // of this process
  };

  Ranks(int rank, int count) : rank_(rank), count_(count) {}
  void start_others(const std::filesystem::path& request);
  void accept_all(int listening);
  void watch(Lost lost);
  void end_watch();
  std::string how_ended(const Peer& peer) const;
  void send_all(const Peer& peer, char kind, const void* head, size_t head_bytes, const void* rest, size_t rest_bytes);
  void receive_all(const Peer& peer, char kind, void* to, size_t bytes);
  size_t receive_header(const Peer& peer, char kind);
  void receive_bytes(const Peer& peer, void* to, size_t bytes);
  [[noreturn]] void lost_connection(const Peer& peer);

  const int rank_, count_;
  std::vector<Peer> peers_;  // of rank 0 the others in order, of another rank rank 0 alone
  int stop_[2] = {-1, -1};   // a pipe: what is written to it ends the watch
  std::jthread watching_;
  std::filesystem::path socket_;
  bool finished_ = false;
  std::vector<unsigned long long> received_;
};

}  // namespace ladder
