// ladder grade: grades a folder of submissions by a teacher's assignment. The work is done by grade/, a Python package.
#include <unistd.h>

#include <cstring>

#include "commands/commands.hpp"

namespace ladder {
namespace fs = std::filesystem;

Command grade_command(CLI::App& app) {
  auto* command = app.add_subcommand("grade", "Grade a folder of submissions by a teacher's assignment");
  command->set_help_flag();  // the package has its own
  command->allow_extras();
  return {command, [command]() -> int {
            const fs::path venv = source_folder() / ".venv" / "bin" / "python";
            std::vector<std::string> words = {fs::exists(venv) ? venv.string() : "python3",
                                              (source_folder() / "grade").string()};
            for (const std::string& word : command->remaining()) words.push_back(word);
            setenv("LADDER_PROGRAM", fs::read_symlink("/proc/self/exe").c_str(), 1);
            std::vector<char*> argv;
            for (std::string& word : words) argv.push_back(word.data());
            argv.push_back(nullptr);
            execvp(argv[0], argv.data());
            throw Error(
                fmt::format("{} cannot be started ({}): install Python 3.11 or later", words[0], std::strerror(errno)));
          }};
}

}  // namespace ladder
