// ladder sandbox: runs a command as `ladder run --sandbox` runs its sessions.
#include "sandbox/sandbox.hpp"

#include <memory>

#include "commands/commands.hpp"

namespace ladder {

Command sandbox_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> words, writable, readable, hidden;
    double memory = 8192, file = 256, cpu = 600;
    int processes = 512;
    bool which = false;
  };
  const auto o = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "sandbox",
      "Run a command without a network, rights or files to write to, as sessions of `run --sandbox` are run");
  auto* which = command->add_flag("--which", o->which, "Say what the sandbox is made of here, and run nothing");
  command->add_option("--write", o->writable, "A folder that it may write to")->take_all()->allow_extra_args(false);
  command->add_option("--read", o->readable, "What it needs of homes and /tmp, which it does not see")
      ->expected(1)
      ->take_all();
  command->add_option("--hide", o->hidden, "A further folder that it does not see")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--memory", o->memory, "MiB, of all its processes")->check(above_zero());
  command->add_option("--file", o->file, "MiB of a file")->check(above_zero());
  command->add_option("--cpu", o->cpu, "Seconds of CPU time of a process")->check(above_zero());
  command->add_option("--processes", o->processes, "Processes and threads")->check(above_zero());
  command->add_option("command", o->words, "The command, after --")->excludes(which);
  command->footer("Exit status: that of the command; 2 where no sandbox works here.");
  return {command, [o] {
            const SandboxWay way = sandbox_way();
            if (o->which) {
              fmt::print("{}\n", to_string(way));
              return 0;
            }
            if (o->words.empty()) throw Error("name a command: ladder sandbox -- COMMAND");
            Sandbox sandbox;
            sandbox.memory = o->memory * (1 << 20);
            sandbox.file = o->file * (1 << 20);
            sandbox.cpu_seconds = o->cpu;
            sandbox.processes = o->processes;
            sandbox.writable.assign(o->writable.begin(), o->writable.end());
            sandbox.readable.assign(o->readable.begin(), o->readable.end());
            sandbox.hidden.assign(o->hidden.begin(), o->hidden.end());
            return run_in_sandbox(sandbox, o->words, way);
          }};
}

}  // namespace ladder
