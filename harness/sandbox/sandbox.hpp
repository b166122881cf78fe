// A command that is not trusted, run where it can do little: as a user who owns nothing, without a network, with files
// that it cannot write, without homes, a /tmp of its own, no way to more rights, and limits on what it takes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace ladder {

/// What a command in the sandbox may use.
struct Sandbox {
  std::vector<std::filesystem::path> writable;  ///< folders that it may write to
  std::vector<std::filesystem::path> readable;  ///< what it needs that lies in a home or in /tmp
  std::vector<std::filesystem::path> hidden;    ///< folders that it sees empty, besides homes and /tmp
  double memory = 8.0 * (1 << 30);              ///< bytes, of all its processes together
  double file = 1 << 28;                        ///< bytes of one file, and of all in its /tmp
  double cpu_seconds = 600;                     ///< of each process
  int processes = 512;                          ///< and threads
};

/// The ways to make one, the best first.
enum class SandboxWay {
  namespaces,       ///< root: namespaces, and a user that owns nothing
  bubblewrap,       ///< the program bwrap
  user_namespaces,  ///< any user: namespaces of the user's own
  rights,           ///< root where namespaces are forbidden: a user that owns nothing, Landlock and seccomp
};

/// Which way works here; throws Error with what to install where none does. It is tried, once per process.
SandboxWay sandbox_way();
/// In words: what it is made of.
const char* to_string(SandboxWay way);

/// The words of a command that runs `words` in a sandbox: it calls this program.
std::vector<std::string> sandboxed(const Sandbox& sandbox, const std::vector<std::string>& words);
/// A program in `folder` that is called as `program` is, and runs it in a sandbox.
std::filesystem::path in_sandbox(const Sandbox& sandbox, const std::filesystem::path& program,
                                 const std::filesystem::path& folder);

/// Runs `words` in a sandbox and waits. Returns its exit status; a signal that ended it ends this process, too.
int run_in_sandbox(const Sandbox& sandbox, const std::vector<std::string>& words, SandboxWay way);

}  // namespace ladder
