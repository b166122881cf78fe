#include "worker/ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

constexpr double start_seconds = 30;

/// What precedes each message of the data connections: a mismatch of kind or size is a mistake in a variant.
struct Header {
  char kind;  // t: told, g: gather, s: sum
  size_t bytes;
};

/// The first message of each connection.
struct Greeting {
  int rank;
  pid_t process;
  bool data;
};

sockaddr_un address_of(const fs::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = socket.string();
  if (name.size() >= sizeof address.sun_path)
    throw Error(
        fmt::format("the ranks of a run cannot meet at {}: {} characters are too many, set TMPDIR to a folder "
                    "with a shorter name",
                    name, name.size()));
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  return address;
}

int make_socket() {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) throw Error(fmt::format("no socket can be made: {}", std::strerror(errno)));
  return made;
}

bool send_bytes(int to, const void* bytes, size_t count) {
  for (auto* from = static_cast<const char*>(bytes); count > 0;) {
    const ssize_t sent = send(to, from, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent, count -= size_t(sent);
  }
  return true;
}

bool read_bytes(int from, void* bytes, size_t count) {
  for (auto* to = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = read(from, to, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, count -= size_t(got);
  }
  return true;
}

fs::path meeting_place(const fs::path& request) { return request.string() + ".ranks"; }

std::string ended_as(int status) {
  if (WIFSIGNALED(status)) return fmt::format("by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("with status {}", WEXITSTATUS(status));
}

}  // namespace

LaunchedRank rank_from_launcher() {
  const auto number = [](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (const char* text = std::getenv(name); text && *text) return std::atoi(text);
    }
    return -1;
  };
  return {number({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}),
          number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})};
}

std::unique_ptr<Ranks> Ranks::lead(const fs::path& request, int count, bool launched, Lost lost) {
  std::unique_ptr<Ranks> ranks(new Ranks(0, count));
  ranks->socket_ = meeting_place(request);
  unlink(ranks->socket_.c_str());
  const sockaddr_un address = address_of(ranks->socket_);
  const int listening = make_socket();
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening, 2 * count) != 0) {
    const std::string why = std::strerror(errno);
    close(listening);
    throw Error(fmt::format("the ranks of a run cannot meet at {}: {}", ranks->socket_.string(), why));
  }
  ranks->peers_.resize(size_t(count) - 1);
  for (int rank = 1; rank < count; ++rank) ranks->peers_[size_t(rank) - 1].rank = rank;
  if (!launched) ranks->start_others(request);
  try {
    ranks->accept_all(listening);
  } catch (...) {
    close(listening);
    throw;
  }
  close(listening);
  ranks->watch(std::move(lost));
  return ranks;
}

void Ranks::start_others(const fs::path& request) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const pid_t parent = getpid();
  for (Peer& peer : peers_) {
    const std::string rank = std::to_string(peer.rank);
    const pid_t child = fork();
    if (child < 0) throw Error(fmt::format("rank {} cannot be started: {}", peer.rank, std::strerror(errno)));
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      execl(program.c_str(), program.c_str(), "follow", request.c_str(), rank.c_str(), nullptr);
      _exit(127);
    }
    peer.process = child, peer.child = true;
  }
}

void Ranks::accept_all(int listening) {
  const double deadline = now_seconds() + start_seconds;
  const auto missing = [&] {
    return std::find_if(peers_.begin(), peers_.end(), [](const Peer& p) { return p.data < 0 || p.alive < 0; });
  };
  while (missing() != peers_.end()) {
    for (Peer& peer : peers_) {
      int status = 0;
      if (!peer.child || waitpid(peer.process, &status, WNOHANG) != peer.process) continue;
      peer.child = false;
      throw Error(
          fmt::format("rank {} (process {}) ended {} before the run began", peer.rank, peer.process, ended_as(status)));
    }
    if (now_seconds() > deadline)
      throw Error(fmt::format("rank {} did not come within {:.0f} s", missing()->rank, start_seconds));
    pollfd calls{listening, POLLIN, 0};
    if (poll(&calls, 1, 50) <= 0) continue;
    const int made = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    Greeting greeting{};
    if (made < 0) continue;
    if (!read_bytes(made, &greeting, sizeof greeting) || greeting.rank < 1 || greeting.rank >= count_) {
      close(made);
      continue;
    }
    Peer& peer = peers_[size_t(greeting.rank) - 1];
    int& place = greeting.data ? peer.data : peer.alive;
    if (place >= 0) {
      close(made);
      throw Error(fmt::format("two processes say that they are rank {}", greeting.rank));
    }
    place = made;
    peer.process = greeting.process;
  }
}

std::unique_ptr<Ranks> Ranks::follow(const fs::path& request, int rank, int count) {
  std::unique_ptr<Ranks> ranks(new Ranks(rank, count));
  Peer leader;
  leader.rank = 0;
  const sockaddr_un address = address_of(meeting_place(request));
  const double deadline = now_seconds() + start_seconds;
  for (const bool data : {true, false}) {
    int& made = data ? leader.data : leader.alive;
    for (made = make_socket(); connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;) {
      if (now_seconds() > deadline) throw Error(fmt::format("rank {} did not find rank 0", rank));
      usleep(10000);  // rank 0 may start later
    }
    const Greeting greeting{rank, getpid(), data};
    if (!send_bytes(made, &greeting, sizeof greeting)) throw Error(fmt::format("rank {} lost rank 0", rank));
  }
  ranks->peers_.push_back(leader);
  ranks->watch([](const std::string&) { _exit(0); });  // a launcher is to report the status of rank 0
  return ranks;
}

void Ranks::watch(Lost lost) {
  if (pipe2(stop_, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe can be made: {}", std::strerror(errno)));
  watching_ = std::jthread([this, lost = std::move(lost)] {
    std::vector<pollfd> watched{{stop_[0], POLLIN, 0}};
    for (const Peer& peer : peers_) watched.push_back({peer.alive, POLLIN, 0});
    for (;;) {
      if (poll(watched.data(), watched.size(), -1) < 0) continue;
      if (watched[0].revents != 0) return;
      for (size_t i = 1; i < watched.size(); ++i) {
        if (watched[i].revents == 0) continue;
        const Peer& peer = peers_[i - 1];
        char text[4096];
        const ssize_t got = read(peer.alive, text, sizeof text);
        if (got > 0 && text[0] == 'q') {  // it is done
          watched[i].fd = -1;
        } else if (got > 0) {
          lost(fmt::format("rank {}: {}", peer.rank, std::string(text + 1, size_t(got) - 1)));
        } else {
          lost(fmt::format("rank {} (process {}) ended {}: the other ranks were ended, too", peer.rank, peer.process,
                           how_ended(peer)));
        }
      }
    }
  });
}

std::string Ranks::how_ended(const Peer& peer) const {
  for (int tries = 0; peer.child && tries < 100; ++tries) {
    siginfo_t ended{};  // it is still to be waited for
    if (waitid(P_PID, id_t(peer.process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (ended.si_pid == peer.process) {
      return ended.si_code == CLD_EXITED
                 ? fmt::format("with status {}", ended.si_status)
                 : fmt::format("by signal {} ({})", ended.si_status, strsignal(ended.si_status));
    }
    usleep(10000);
  }
  return "without a word";
}

void Ranks::end_watch() {
  if (watching_.joinable() && write(stop_[1], "q", 1) == 1) watching_.join();
}

Ranks::~Ranks() {
  end_watch();
  for (const int end : stop_) {
    if (end >= 0) close(end);
  }
  for (Peer& peer : peers_) {
    if (rank_ > 0 && finished_) send_bytes(peer.alive, "q", 1);  // that the connection ends now is no loss
    for (const int connection : {peer.data, peer.alive}) {
      if (connection >= 0) close(connection);
    }
    if (!peer.child) continue;
    int status = 0;
    const double deadline = now_seconds() + (finished_ ? 5 : 1);
    while (waitpid(peer.process, &status, WNOHANG) == 0) {
      if (now_seconds() > deadline) kill(peer.process, SIGKILL);
      usleep(1000);
    }
  }
  if (!socket_.empty()) unlink(socket_.c_str());
}

void Ranks::lost_connection(const Peer& peer) {
  sleep(3);  // meanwhile the watch says why, and ends the process
  throw Error(fmt::format("rank {} lost its connection to rank {}", rank_, peer.rank));
}

void Ranks::send_all(const Peer& peer, char kind, const void* head, size_t head_bytes, const void* rest,
                     size_t rest_bytes) {
  const Header header{kind, head_bytes + rest_bytes};
  if (!send_bytes(peer.data, &header, sizeof header) || !send_bytes(peer.data, head, head_bytes) ||
      !send_bytes(peer.data, rest, rest_bytes))
    lost_connection(peer);
}

void Ranks::receive_bytes(const Peer& peer, void* to, size_t bytes) {
  if (!read_bytes(peer.data, to, bytes)) lost_connection(peer);
}

size_t Ranks::receive_header(const Peer& peer, char kind) {
  Header header{};
  receive_bytes(peer, &header, sizeof header);
  if (header.kind != kind)
    throw Error(fmt::format("rank {} is at another step than rank {}: the variant does not make the same calls on all",
                            peer.rank, rank_));
  return header.bytes;
}

void Ranks::receive_all(const Peer& peer, char kind, void* to, size_t bytes) {
  const size_t given = receive_header(peer, kind);
  if (given != bytes)
    throw Error(fmt::format("rank {} gives {} bytes where rank {} gives {}", peer.rank, given, rank_, bytes));
  receive_bytes(peer, to, bytes);
}

void Ranks::tell(const void* head, size_t head_bytes, const void* rest, size_t rest_bytes) {
  for (const Peer& peer : peers_) send_all(peer, 't', head, head_bytes, rest, rest_bytes);
}

std::vector<char> Ranks::listen(double seconds) {
  pollfd told_by{peers_[0].data, POLLIN, 0};
  if (seconds > 0 && poll(&told_by, 1, int(seconds * 1000)) == 0) return {};
  std::vector<char> told(receive_header(peers_[0], 't'));
  receive_bytes(peers_[0], told.data(), told.size());
  return told;
}

void Ranks::gather(const void* mine, size_t bytes, void* all) {
  char* const place = static_cast<char*>(all);
  if (rank_ > 0) {
    send_all(peers_[0], 'g', mine, bytes, nullptr, 0);
    return receive_all(peers_[0], 'g', all, bytes * size_t(count_));
  }
  std::memcpy(place, mine, bytes);
  for (const Peer& peer : peers_) receive_all(peer, 'g', place + size_t(peer.rank) * bytes, bytes);
  for (const Peer& peer : peers_) send_all(peer, 'g', all, bytes * size_t(count_), nullptr, 0);
}

void Ranks::sum(unsigned long long* words, size_t count) {
  const size_t bytes = count * sizeof *words;
  if (rank_ > 0) {
    send_all(peers_[0], 's', words, bytes, nullptr, 0);
    return receive_all(peers_[0], 's', words, bytes);
  }
  received_.resize(count);
  for (const Peer& peer : peers_) {
    receive_all(peer, 's', received_.data(), bytes);
    for (size_t i = 0; i < count; ++i) words[i] += received_[i];
  }
  for (const Peer& peer : peers_) send_all(peer, 's', words, bytes, nullptr, 0);
}

void Ranks::finish() {
  finished_ = true;
  end_watch();
  if (rank_ > 0) return;
  for (const Peer& peer : peers_) {
    pollfd gone{peer.alive, POLLIN, 0};
    poll(&gone, 1, 5000);
  }
}

void Ranks::give_up(const std::string& reason) {
  sleep(1);  // rank 0 mostly has the same reason, and says it better
  const std::string text = "e" + reason.substr(0, 4000);
  send_bytes(peers_[0].alive, text.data(), text.size());
  sleep(5);  // rank 0 ends the run
  _exit(1);
}

}  // namespace ladder
