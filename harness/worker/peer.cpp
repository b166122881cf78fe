#include "worker/peer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/folders.hpp"
#include "protocol/json.hpp"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string python() {
  if (const char* chosen = std::getenv("LADDER_PYTHON"); chosen && *chosen) return chosen;
  const fs::path of_checkout = source_folder() / ".venv" / "bin" / "python";
  return fs::exists(of_checkout) ? of_checkout.string() : "python3";
}

/// The Python process of one peer's file. It ends with this object, and, whatever happens, with this process.
class Peer {
 public:
  explicit Peer(const fs::path& file) : file(file), name_(file.filename().string()), python_(python()) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw Error(fmt::format("no socket for {} can be made: {}", name_, std::strerror(errno)));
    }
    const std::string script = (source_folder() / "harness" / "worker" / "peer.py").string();
    const std::string path = file.string();
    constexpr int theirs = 3;
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ < 0) throw Error(fmt::format("no process for {} can be started: {}", name_, std::strerror(errno)));
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      // Nothing else of the worker's stays open there: a pipe to the run would otherwise never be seen to end.
      if (ends[1] == theirs)
        fcntl(theirs, F_SETFD, 0);
      else
        dup2(ends[1], theirs);
      close_range(theirs + 1, ~0u, 0);
      execlp(python_.c_str(), python_.c_str(), script.c_str(), path.c_str(), "3", nullptr);
      _exit(127);
    }
    close(ends[1]);
    link_ = ends[0];
  }
  ~Peer() {
    close(link_);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const fs::path file;

  /// One request, one reply. Throws Error with what Python raised, or with how Python ended.
  json ask(const json& request) {
    const std::string call = request.at("call");
    const std::string line = request.dump() + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count = send(link_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) gone(call);
      sent += size_t(count);
    }
    size_t end;
    while ((end = pending_.find('\n')) == std::string::npos) {
      char buffer[4096];
      const ssize_t count = recv(link_, buffer, sizeof buffer, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) gone(call);
      pending_.append(buffer, size_t(count));
    }
    json reply = json::parse(pending_.substr(0, end));
    pending_.erase(0, end + 1);
    if (reply.contains("error")) throw Error(fmt::format("{} raised {}", call, reply["error"].get<std::string>()));
    return reply;
  }
  int next_run() { return ++runs_; }

 private:
  [[noreturn]] void gone(const std::string& call) {
    int status = 0;
    waitpid(process_, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      throw Error(fmt::format("{} needs Python, and '{}' does not start: install python3, or name one in LADDER_PYTHON",
                              name_, python_));
    }
    throw Error(fmt::format("Python ended in {} of {} ({} {})", call, name_, WIFSIGNALED(status) ? "signal" : "status",
                            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
  }

  std::string name_, python_, pending_;
  pid_t process_ = -1;
  int link_ = -1, runs_ = 0;
};

std::shared_ptr<Peer> current;  // that of the card loaded last

// ---------------------------------------------------------------------------------------------------- memory for both

/// Memory that Python maps by the path of its descriptor. Unlike /dev/shm it has no limit of its own.
class Shared {
 public:
  explicit Shared(size_t bytes) : bytes_(std::max<size_t>(1, bytes)), fd_(memfd_create("ladder-peer", MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, off_t(bytes_)) != 0) fail();
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (memory_ == MAP_FAILED) fail();
  }
  ~Shared() {
    munmap(memory_, bytes_);
    close(fd_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }
  template <class E>
  E* at(size_t offset) const {
    return reinterpret_cast<E*>(static_cast<char*>(memory_) + offset);
  }

 private:
  [[noreturn]] void fail() {
    const std::string why = std::strerror(errno);
    if (fd_ >= 0) close(fd_);
    throw Error(fmt::format("no {} bytes of memory can be shared with Python: {}", bytes_, why));
  }
  size_t bytes_;
  int fd_;
  void* memory_ = nullptr;
};

struct Place {
  std::string file;
  size_t offset;
};
/// The file that is mapped where `memory` points to, if it is one that can be mapped again. Problems are mapped files,
/// so that a peer reads the points where they lie.
std::optional<Place> file_behind(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0, offset = 0;
    unsigned long inode = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu %n", &begin, &end, &offset, &inode, &path_at) < 4) continue;
    if (address < begin || address >= end) continue;
    const std::string path = line.substr(size_t(path_at));
    struct stat found {};
    if (inode == 0 || stat(path.c_str(), &found) != 0 || found.st_ino != inode) return std::nullopt;
    return Place{path, offset + (address - begin)};
  }
  return std::nullopt;
}

// --------------------------------------------------------------------------------------------------------- one run

/// What a run of a peer holds on this side.
template <class T>
struct PeerState {
  std::shared_ptr<Peer> peer;
  int id = 0;
  std::optional<Shared> shared, points;
  T* centroids = nullptr;  // the initial ones, where Python reads them

  ~PeerState() {
    if (!peer || id == 0) return;
    try {
      peer->ask({{"call", "release"}, {"run", id}});
    } catch (const std::exception&) {  // Python has ended, and with it what it held
    }
  }
};
template <class T>
using PeerRun = Run<T, PeerState<T>>;

json rule_of(const Stop& stop) {
  static const char* const rules[] = {"reassigned", "exact", "fixed"};
  return {{"rule", rules[int(stop.rule)]},
          {"fraction", stop.fraction},
          {"iterations", stop.iterations},
          {"max_iterations", stop.max_iterations}};
}

template <class T>
json request(const char* call, PeerRun<T>& s) {
  return {{"call", call}, {"run", s.ws.id}, {"stop", rule_of(s.problem.stop)}, {"seed", s.problem.seed}};
}

template <class T>
void ask(const char* call, PeerRun<T>& s) {
  const json reply = s.ws.peer->ask(request(call, s));
  for (const json& count : reply.at("reassigned")) s.reassigned.push_back(count);
  for (const auto& [name, counts] : reply.at("counters").items()) {
    std::vector<int64_t>& all = s.counters[name];
    for (const json& count : counts) all.push_back(count);
  }
}

template <class T>
void prepare(PeerRun<T>& s) {
  auto& run = s.ws;
  run.peer = current;
  run.id = current->next_run();

  size_t end = 0;
  const auto place = [&](size_t bytes) {
    const size_t begin = end;
    end += (bytes + 63) / 64 * 64;  // a cache line of its own: what a library may align to
    return begin;
  };
  const size_t matrix = size_t(s.k) * s.d * sizeof(T);
  const size_t label = place(s.n * sizeof(int32_t)), chosen = place(s.k * sizeof(int32_t)), c = place(matrix),
               initial = place(matrix);
  run.shared.emplace(end);
  s.label = run.shared->template at<int32_t>(label);
  s.chosen = run.shared->template at<int32_t>(chosen);
  s.c = run.shared->template at<T>(c);
  run.centroids = run.shared->template at<T>(initial);

  std::optional<Place> points = file_behind(s.points);
  if (!points) {
    const size_t bytes = size_t(s.n) * s.d * sizeof(T);
    run.points.emplace(bytes);
    std::memcpy(run.points->template at<char>(0), s.points, bytes);
    points = Place{run.points->path(), 0};
  }
  json prepare = request("prepare", s);
  prepare.update({{"n", s.n},
                  {"k", s.k},
                  {"d", s.d},
                  {"type", sizeof(T) == 4 ? "float32" : "float64"},
                  {"axes", s.axes.value},
                  {"gpu", s.device_info.ordinals.empty() ? json(nullptr) : json(s.device_info.ordinals[0])},
                  {"points", {{"file", points->file}, {"offset", points->offset}}},
                  {"shared", run.shared->path()},
                  {"at", {{"label", label}, {"chosen", chosen}, {"c", c}, {"centroids", initial}}}});
  run.peer->ask(prepare);
}

template <class T>
void restart(PeerRun<T>& s) {
  std::memcpy(s.ws.centroids, s.problem.centroids, size_t(s.k) * s.d * sizeof(T));
  ask("restart", s);
}

/// From the shared memory to where the harness wants it; before, Python's own download, where it has one.
template <class T, bool own>
void download(PeerRun<T>& s) {
  if (own) ask("download", s);
  std::memcpy(s.result.label, s.label, s.n * sizeof(int32_t));
  std::memcpy(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T));
}

template <class T>
PhaseTable<T> phases(const std::vector<std::string>& of_file) {
  const auto has = [&](const char* phase) { return std::find(of_file.begin(), of_file.end(), phase) != of_file.end(); };
  Phases<T, PeerState<T>> p;
  p.prepare = prepare<T>;
  p.restart = restart<T>;
  if (has("upload")) p.upload = +[](PeerRun<T>& s) { ask("upload", s); };
  if (has("initialise")) p.initialise = +[](PeerRun<T>& s) { ask("initialise", s); };
  if (has("assign")) p.assign = +[](PeerRun<T>& s) { ask("assign", s); };
  if (has("update")) p.update = +[](PeerRun<T>& s) { ask("update", s); };
  if (has("iterate")) p.iterate = +[](PeerRun<T>& s) { ask("iterate", s); };
  if (has("solve")) p.solve = +[](PeerRun<T>& s) { ask("solve", s); };
  p.download = has("download") ? download<T, true> : download<T, false>;
  return p;
}

std::string refuse(const Shape& shape, const Device& device, const Axes& axes) {
  return current
      ->ask({{"call", "refuse"},
             {"shape",
              {{"n", shape.n},
               {"k", shape.k},
               {"d", shape.d},
               {"element_bytes", shape.element_bytes},
               {"nnz", shape.nnz},
               {"metric", to_string(shape.metric)},
               {"stop", rule_of(shape.stop)}}},
             {"device",
              {{"kind", to_string(device.kind)},
               {"name", device.name},
               {"ordinal", device.ordinals.empty() ? json(nullptr) : json(device.ordinals[0])},
               {"memory_bytes", device.memory_bytes}}},
             {"axes", axes.value}})
      .at("refused");
}

// ------------------------------------------------------------------------------------------------------------ the card

Arithmetic arithmetic(const json& told) {
  Arithmetic a;
  for (const auto& [key, value] : told.items()) {
    if (key == "form") {
      const std::string form = value;
      if (form == "difference")
        a.form = Arithmetic::Form::difference;
      else if (form == "expanded")
        a.form = Arithmetic::Form::expanded;
      else if (form == "exact")
        a.form = Arithmetic::Form::exact;
      else
        throw Error("arithmetic of the form '" + form + "' is unknown: difference, expanded or exact");
    } else if (key == "distance_roundoff") {
      a.distance_roundoff = value;
    } else if (key == "input_roundoff") {
      a.input_roundoff = value;
    } else if (key == "sum_roundoff") {
      a.sum_roundoff = value;
    } else if (key == "centred") {
      a.centred = value;
    } else {
      throw Error("the card's 'arithmetic' has '" + key +
                  "': form, distance_roundoff, input_roundoff, sum_roundoff and centred are known");
    }
  }
  return a;
}

Draws draws(const std::string& name) {
  if (name == "uniform") return Draws::uniform;
  if (name == "kmeanspp") return Draws::kmeanspp;
  if (name == "afkmc2") return Draws::afkmc2;
  throw Error("the card draws '" + name + "': uniform, kmeanspp or afkmc2");
}

/// The card from what Python told; keys have the names of Card's fields, beside `types` and `library`.
Card card_of(const json& told, const std::vector<std::string>& of_file) {
  Card card;
  std::vector<std::string> types = {"f32", "f64"};
  for (const auto& [key, value] : told.items()) {
    if (key == "id") {
      card.id = value;
    } else if (key == "base") {
      card.base = value;
    } else if (key == "idea") {
      card.idea = value;
    } else if (key == "expect") {
      card.expect = value;
    } else if (key == "shows") {
      card.shows = value;
    } else if (key == "source") {
      card.source = value;
    } else if (key == "devices") {
      card.devices.clear();
      for (const json& name : value) card.devices.push_back(device_kind(name));
    } else if (key == "types") {
      types = value.get<std::vector<std::string>>();
    } else if (key == "arithmetic") {
      card.arithmetic = arithmetic(value);
    } else if (key == "axes") {
      for (const json& axis : value)
        card.axes.push_back(
            {axis.at("name"), axis.at("values"), axis.at("standard"), axis.value("reported", std::vector<int>())});
    } else if (key == "metrics") {
      card.metrics.clear();
      for (const json& name : value) card.metrics.push_back(metric_named(name));
    } else if (key == "reads_labels") {
      card.reads_labels = value;
    } else if (key == "prunes") {
      card.prunes = value;
    } else if (key == "moves_empty") {
      card.moves_empty = value;
    } else if (key == "labels_last") {
      card.labels_last = value;
    } else if (key == "draws") {
      card.draws = draws(value);
    } else if (key != "library") {
      throw Error(
          "the card has '" + key +
          "', which no card has: see the fields of Card in harness/contract/contract.hpp, `types` and `library`");
    }
  }
  const auto has = [&](const char* phase) { return std::find(of_file.begin(), of_file.end(), phase) != of_file.end(); };
  if (has("assign") != has("update")) {
    throw Error(fmt::format("there is {} without {}: give both, or iterate, or solve",
                            has("assign") ? "assign" : "update", has("assign") ? "update" : "assign"));
  }
  if (!has("assign") && !has("iterate") && !has("solve") && !has("initialise")) {
    throw Error("there is no phase that does anything: define assign and update, or iterate, or solve");
  }
  for (const std::string& type : types) {
    if (type == "f32")
      card.f32 = phases<float>(of_file);
    else if (type == "f64")
      card.f64 = phases<double>(of_file);
    else
      throw Error("the card's 'types' has '" + type + "': f32 and f64 are known");
  }
  card.refuse = refuse;
  return card;
}

}  // namespace

const Card* load_peer(const fs::path& file) {
  // A card lives as long as the process, like that of a module: sessions keep references to it.
  static std::vector<std::unique_ptr<Card>> cards;
  if (!current || current->file != file) current = std::make_shared<Peer>(file);
  const json told = current->ask({{"call", "card"}});
  try {
    cards.push_back(std::make_unique<Card>(card_of(told.at("card"), told.at("phases"))));
    cards.back()->library = told.at("version");
  } catch (const json::exception& error) {
    throw Error(
        fmt::format("the card of {} has a value of the wrong kind: {}", file.filename().string(), error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file.filename().string(), error.what()));
  }
  return cards.back().get();
}

}  // namespace ladder
