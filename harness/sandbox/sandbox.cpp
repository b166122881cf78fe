#include "sandbox/sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void give_up(const std::string& what) {
  throw Error(fmt::format("the sandbox cannot be made: {}: {}", what, std::strerror(errno)));
}
void need(bool done, const std::string& what) {
  if (!done) give_up(what);
}

void write_file(const char* file, const std::string& text) {
  const int out = open(file, O_WRONLY | O_CLOEXEC);
  need(out >= 0 && write(out, text.data(), text.size()) == ssize_t(text.size()), file);
  close(out);
}

/// A user and group that own nothing, and that no other sandbox has; `nobody` where so many users are not known.
constexpr uid_t first_user = 1800000000, nobody = 65534;
uid_t user_of_its_own() {
  std::ifstream map("/proc/self/uid_map");
  double inside = 0, outside = 0, count = 0;
  map >> inside >> outside >> count;
  return count > 2e9 ? first_user + uid_t(getpid()) : nobody;
}

// -------------------------------------------------------------------------------------------------------- its files

/// Files of the GPUs and their driver, which stay reachable.
std::vector<fs::path> gpu_files() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator("/dev"))
    if (entry.path().filename().string().rfind("nvidia", 0) == 0) found.push_back(entry.path());
  return found;
}

const std::vector<fs::path> temporary = {"/tmp", "/var/tmp", "/dev/shm"}, homes = {"/home", "/root"};

bool lies_in(const fs::path& path, const fs::path& folder) {
  const std::string below = path.lexically_relative(folder).string();
  return !below.empty() && below.rfind("..", 0) != 0;
}

bool is_temporary(const fs::path& path) {
  return std::any_of(temporary.begin(), temporary.end(), [&](const fs::path& folder) { return lies_in(path, folder); });
}

/// A file or folder that the command sees, or a folder that it sees empty.
struct Shown {
  enum class What { empty, readable, writable } what;
  fs::path path;
  bool folder = true;
  int file = -1;  ///< opened before anything is hidden
};

/// Parents first, so that the nearest of the views above a file holds for it.
std::vector<Shown> shown_parts(const Sandbox& sandbox) {
  std::vector<Shown> all;
  const auto add = [&](Shown::What what, const fs::path& path) {
    std::error_code error;
    const fs::path whole = fs::canonical(path, error);
    if (error) return;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Shown& view) { return view.path == whole; });
    if (same == all.end())
      all.push_back({what, whole, fs::is_directory(whole)});
    else
      same->what = what;
  };
  for (const fs::path& path : temporary) add(Shown::What::empty, path);
  for (const fs::path& path : homes) add(Shown::What::empty, path);
  for (const fs::path& path : sandbox.hidden) add(Shown::What::empty, path);
  for (const fs::path& path : sandbox.readable) add(Shown::What::readable, path);
  for (const fs::path& path : sandbox.writable) {
    if (!fs::is_directory(path))
      throw Error(fmt::format("--write {}: that is no folder: make it first", path.string()));
    add(Shown::What::writable, path);
  }
  const auto depth = [](const Shown& view) { return std::distance(view.path.begin(), view.path.end()); };
  std::stable_sort(all.begin(), all.end(), [&](const Shown& a, const Shown& b) { return depth(a) < depth(b); });
  return all;
}

bool is_shown(const std::vector<Shown>& all, const fs::path& path) {
  Shown::What what = Shown::What::readable;
  for (const Shown& view : all)
    if (lies_in(path, view.path)) what = view.what;
  return what != Shown::What::empty;
}

/// A folder of root's is shown to a user who owns nothing: by the group alone, or handed over.
void hand_over(const std::vector<Shown>& all, uid_t user) {
  for (const Shown& view : all) {
    struct stat is {};
    if (!view.folder || view.what == Shown::What::empty || stat(view.path.c_str(), &is) != 0) continue;
    const bool writable = view.what == Shown::What::writable;
    const bool by_another_sandbox = is.st_uid >= first_user || is.st_uid == nobody;
    if (is.st_uid != 0 && !(writable && by_another_sandbox)) continue;
    if (writable) {
      need(chown(view.path.c_str(), user, gid_t(-1)) == 0, view.path.string());
    } else if ((is.st_mode & S_IXOTH) == 0 && is_temporary(view.path)) {
      need(chown(view.path.c_str(), uid_t(-1), user) == 0 && chmod(view.path.c_str(), is.st_mode | 050) == 0,
           view.path.string());
    }
  }
}

void set_writable(const char* path, bool writable, bool all_below) {
  mount_attr attributes = {};
  (writable ? attributes.attr_clr : attributes.attr_set) = MOUNT_ATTR_RDONLY;
  if (!writable) attributes.attr_set |= MOUNT_ATTR_NOSUID;
  need(mount_setattr(AT_FDCWD, path, all_below ? AT_RECURSIVE : 0, &attributes, sizeof attributes) == 0,
       fmt::format("{} as {}", path, writable ? "writable" : "read-only"));
}

/// All is read-only. What is not to be seen is covered by an empty folder, on which its shown parts are mounted again.
void change_mounts(std::vector<Shown> all, double bytes) {
  need(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mounts of its own");
  for (Shown& view : all) {
    view.file = open(view.path.c_str(), O_PATH | O_CLOEXEC);
    need(view.file >= 0, view.path.string());
  }
  set_writable("/", false, true);
  umask(022);
  for (size_t i = 0; i < all.size(); ++i) {
    const Shown& view = all[i];
    const std::vector<Shown> above(all.begin(), all.begin() + long(i));
    const bool covered = !is_shown(above, view.path);
    if (view.what == Shown::What::empty) {
      if (covered) continue;
      const std::string options = fmt::format("mode={},size={:.0f}", is_temporary(view.path) ? 1777 : 755, bytes);
      need(mount("tmpfs", view.path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0, view.path.string());
      continue;
    }
    const bool writable = view.what == Shown::What::writable;
    if (!covered && !writable) continue;
    if (covered) {
      fs::create_directories(view.folder ? view.path : view.path.parent_path());
      if (!view.folder) std::ofstream(view.path).put('\n');
    }
    const std::string from = fmt::format("/proc/self/fd/{}", view.file);
    need(mount(from.c_str(), view.path.c_str(), nullptr, MS_BIND, nullptr) == 0, view.path.string());
    if (writable) set_writable(view.path.c_str(), true, false);
  }
  mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);  // where it fails, the old one stays
}

/// Without mounts, the kernel refuses to read what is hidden, and every change outside the writable folders.
void limit_by_landlock(const std::vector<Shown>& all) {
  constexpr unsigned long long read_file = LANDLOCK_ACCESS_FS_READ_FILE, read_folder = LANDLOCK_ACCESS_FS_READ_DIR;
  landlock_ruleset_attr rules = {};
  rules.handled_access_fs = 0x1ffe;  // all of the first version but executing
  const int ruleset =
      int(syscall(SYS_landlock_create_ruleset, &rules,
                  offsetof(landlock_ruleset_attr, handled_access_fs) + sizeof rules.handled_access_fs, 0));
  need(ruleset >= 0, "Landlock");
  const auto allow = [&](const fs::path& path, unsigned long long what) {
    landlock_path_beneath_attr below = {};
    below.allowed_access = what;
    below.parent_fd = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (below.parent_fd < 0) return;
    need(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0) == 0, path.string());
    close(below.parent_fd);
  };
  // A rule holds for all below a folder, so a folder with something hidden in it is allowed entry by entry.
  const auto allow_reading = [&](const auto& self, const fs::path& path) -> void {
    const auto is_above = [&](const Shown& view) { return view.path == path || lies_in(view.path, path); };
    if (fs::is_symlink(path)) return;  // what it leads to has its own rule
    const bool folder = fs::is_directory(path);
    if (std::none_of(all.begin(), all.end(), is_above)) {
      if (is_shown(all, path)) allow(path, folder ? read_file | read_folder : read_file);
    } else if (!folder) {
      if (is_shown(all, path)) allow(path, read_file);
    } else {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(path, error)) self(self, entry.path());
    }
  };
  allow_reading(allow_reading, "/");
  for (const Shown& view : all)
    if (view.what == Shown::What::writable) allow(view.path, rules.handled_access_fs);
  for (const char* device : {"/dev/null", "/dev/zero"}) allow(device, LANDLOCK_ACCESS_FS_WRITE_FILE);
  for (const fs::path& file : gpu_files()) allow(file, LANDLOCK_ACCESS_FS_WRITE_FILE);
  need(syscall(SYS_landlock_restrict_self, ruleset, 0) == 0, "Landlock");
  close(ruleset);
}

/// Without a network namespace: sockets within the machine alone.
void forbid_sockets() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1 /* AF_UNIX */, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

// ------------------------------------------------------------------------------------------------------- its limits

void set_limits(const Sandbox& sandbox) {
  const auto limit = [](auto what, double value) {
    rlimit now{};
    getrlimit(what, &now);
    now.rlim_max = std::min<rlim_t>(now.rlim_max, rlim_t(value));
    now.rlim_cur = now.rlim_max;
    need(setrlimit(what, &now) == 0, "limits");
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, sandbox.file);
  limit(RLIMIT_CPU, sandbox.cpu_seconds);
  limit(RLIMIT_NPROC, sandbox.processes);
}

/// Nothing of the caller's environment but what programs need to run: no keys, no addresses.
void clear_environment(const fs::path& temporary) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    for (const char* known : {"PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LADDER_*", "CUDA_*", "NVIDIA_*", "OMP_*",
                              "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONPATH", "VIRTUAL_ENV"}) {
      const size_t star = std::string(known).find('*');
      if (star == std::string::npos ? name == known : name.compare(0, star, known, star) == 0) kept.push_back(text);
    }
  }
  kept.push_back("HOME=" + temporary.string());
  kept.push_back("TMPDIR=" + temporary.string());
  clearenv();
  for (const std::string& entry : kept) {
    const size_t sign = entry.find('=');
    setenv(entry.substr(0, sign).c_str(), entry.substr(sign + 1).c_str(), 1);
  }
}

void drop_rights(std::optional<uid_t> user) {
  for (int right = 0; prctl(PR_CAPBSET_READ, right) >= 0; ++right) prctl(PR_CAPBSET_DROP, right);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (user) {
    need(setgroups(0, nullptr) == 0 && setresgid(*user, *user, *user) == 0 && setresuid(*user, *user, *user) == 0,
         "another user");
  }
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new rights");
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw Error(fmt::format("{} cannot be started in the sandbox ({}): it and its folders must be readable for all users",
                          words[0], std::strerror(errno)));
}

std::vector<std::string> under_bubblewrap(const Sandbox& sandbox, const std::vector<std::string>& words) {
  std::vector<std::string> all = {
      "bwrap",  "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
      "--proc", "/proc"};
  for (const fs::path& file : gpu_files()) all.insert(all.end(), {"--dev-bind", file.string(), file.string()});
  const std::vector<Shown> views = shown_parts(sandbox);
  for (const Shown& view : views) {
    if (view.what == Shown::What::empty)
      all.insert(all.end(), {"--tmpfs", view.path.string()});
    else
      all.insert(all.end(),
                 {view.what == Shown::What::writable ? "--bind" : "--ro-bind", view.path.string(), view.path.string()});
  }
  const fs::path here = fs::current_path();
  all.insert(all.end(), {"--chdir", is_shown(views, here) ? here.string() : "/", "--"});
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// ------------------------------------------------------------------------------------------------------ its processes

volatile sig_atomic_t told_to = 0;
pid_t handed_to = 0;
void hand_on(int signal) {
  told_to = 1;
  if (handed_to > 0) kill(handed_to, signal);
}

/// The first process of the sandbox: makes it, starts the command in it, and stays to see all end. Reports to `status`
/// how the command ended.
[[noreturn]] void be_first(const Sandbox& sandbox, const std::vector<std::string>& words, SandboxWay way, int status,
                           uid_t own_user) {
  try {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::vector<Shown> views = shown_parts(sandbox);
    const bool by_root = way == SandboxWay::namespaces || way == SandboxWay::rights;
    std::optional<uid_t> user;
    if (by_root) user = own_user, hand_over(views, *user);
    if (way == SandboxWay::rights) {
      set_limits(sandbox);
      drop_rights(user);
      limit_by_landlock(views);
      forbid_sockets();
      clear_environment(sandbox.writable.empty() ? fs::path("/nonexistent") : sandbox.writable[0]);
    } else if (way != SandboxWay::bubblewrap) {
      const fs::path here = fs::current_path();
      need(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0, "namespaces");
      change_mounts(views, sandbox.file);
      if (chdir(here.c_str()) != 0 && chdir("/") != 0) give_up("a folder to work in");
      set_limits(sandbox);
      drop_rights(user);
      clear_environment("/tmp");
    }
    const pid_t command = fork();
    need(command >= 0, "a process");
    if (command == 0) {
      try {
        close(status);
        struct sigaction standard {};
        standard.sa_handler = SIG_DFL;
        for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &standard, nullptr);
        if (way == SandboxWay::bubblewrap) {
          const std::vector<std::string> all = under_bubblewrap(sandbox, words);
          set_limits(sandbox);
          clear_environment("/tmp");
          become(all);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(words);
      } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        std::fflush(stderr);
        _exit(126);
      }
    }
    handed_to = command;
    int ended = 0, how = 0;
    for (pid_t process; (process = waitpid(-1, &how, 0)) != -1 || errno == EINTR;) {
      if (process != command) continue;
      ended = how;
      break;
    }
    if (write(status, &ended, sizeof ended) < 0) _exit(1);
    _exit(0);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    std::fflush(stderr);
    _exit(125);
  }
}

/// Without a namespace of processes, what the command left goes on; its user is known by no other sandbox.
void end_all_of(uid_t user) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(user, user, user) == 0) kill(-1, SIGKILL);
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

void enter_user_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  need(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0, "a user namespace");
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user));
  write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

/// Is there such a way here? It is tried on a command that does nothing.
bool works(SandboxWay way) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    try {
      _exit(run_in_sandbox(Sandbox(), {"true"}, way));
    } catch (const std::exception&) {
      _exit(1);
    }
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

std::optional<SandboxWay> find_way() {
  using enum SandboxWay;
  const std::vector<SandboxWay> ways =
      geteuid() == 0 ? std::vector{namespaces, rights} : std::vector{bubblewrap, user_namespaces};
  for (const SandboxWay way : ways)
    if (works(way)) return way;
  return std::nullopt;
}

}  // namespace

SandboxWay sandbox_way() {
  static const std::optional<SandboxWay> found = find_way();
  if (found) return *found;
  throw Error(geteuid() == 0
                  ? "no sandbox works here, for this container may neither make namespaces nor use Landlock: give it "
                    "the right SYS_ADMIN, or run ladder as another user with bubblewrap installed"
                  : "no sandbox works here, for there is no bubblewrap and user namespaces are forbidden: install "
                    "bubblewrap, or allow them (sysctl kernel.unprivileged_userns_clone=1)");
}

const char* to_string(SandboxWay way) {
  switch (way) {
    case SandboxWay::namespaces:
      return "namespaces, and a user that owns nothing";
    case SandboxWay::bubblewrap:
      return "bubblewrap";
    case SandboxWay::user_namespaces:
      return "user namespaces";
    case SandboxWay::rights:
      return "a user that owns nothing, Landlock and seccomp";
  }
  return "";
}

std::vector<std::string> sandboxed(const Sandbox& sandbox, const std::vector<std::string>& words) {
  std::vector<std::string> all = {fs::read_symlink("/proc/self/exe").string(), "sandbox"};
  for (const fs::path& path : sandbox.writable) all.insert(all.end(), {"--write", path.string()});
  for (const fs::path& path : sandbox.readable) all.insert(all.end(), {"--read", path.string()});
  for (const fs::path& path : sandbox.hidden) all.insert(all.end(), {"--hide", path.string()});
  all.insert(all.end(),
             {"--memory", fmt::format("{:.0f}", sandbox.memory / (1 << 20)), "--file",
              fmt::format("{:.0f}", sandbox.file / (1 << 20)), "--cpu", fmt::format("{:.0f}", sandbox.cpu_seconds),
              "--processes", std::to_string(sandbox.processes), "--"});
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

fs::path in_sandbox(const Sandbox& sandbox, const fs::path& program, const fs::path& folder) {
  const fs::path script = folder / ("sandboxed_" + program.filename().string());
  std::string text = "#!/bin/sh\nexec";
  for (const std::string& word : sandboxed(sandbox, {program.string()})) text += " " + quoted(word);
  std::ofstream(script) << text << " \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

int run_in_sandbox(const Sandbox& sandbox, const std::vector<std::string>& words, SandboxWay way) {
  int status[2];
  need(pipe2(status, O_CLOEXEC) == 0, "a pipe");
  struct sigaction action {};
  action.sa_handler = hand_on;
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  if (way == SandboxWay::user_namespaces) enter_user_namespace();
  if (way == SandboxWay::namespaces) need(unshare(CLONE_NEWPID) == 0, "a namespace of processes");
  const uid_t user = user_of_its_own();
  const pid_t first = fork();
  need(first >= 0, "a process");
  if (first == 0) {
    close(status[0]);
    be_first(sandbox, words, way, status[1], user);
  }
  close(status[1]);
  handed_to = first;
  int how = 0;
  bool too_much = false;
  while (waitpid(first, &how, WNOHANG) == 0) {
    if (memory_below(first) > sandbox.memory) {
      fmt::print(stderr, "ended by the sandbox: more than {:.0f} MiB of memory\n", sandbox.memory / (1 << 20));
      std::fflush(stderr);
      kill(first, SIGKILL);
      too_much = true;
    }
    usleep(20000);
  }
  if (way == SandboxWay::rights && user != nobody) end_all_of(user);
  int ended = 0;
  const bool heard = read(status[0], &ended, sizeof ended) == sizeof ended;
  close(status[0]);
  if (too_much || !heard) return too_much ? 137 : WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
  if (WIFEXITED(ended)) return WEXITSTATUS(ended);
  signal(WTERMSIG(ended), SIG_DFL);
  raise(WTERMSIG(ended));
  return 128 + WTERMSIG(ended);
}

}  // namespace ladder
