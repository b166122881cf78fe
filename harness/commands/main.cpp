// ladder: the command line. Each command is a file beside this one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "commands/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app("K-means Ladder: every revision of GPU k-means, validated and timed");
  app.require_subcommand(1);
  const std::vector<std::string> words(argv, argv + argc);
  const std::vector<ladder::Command> commands = {
      ladder::list_command(app),        ladder::new_command(app),
      ladder::check_command(app),       ladder::run_command(app, words),
      ladder::compare_command(app),     ladder::count_command(app, words),
      ladder::diff_command(app),        ladder::explain_command(app),
      ladder::predict_command(app),     ladder::grade_command(app),
      ladder::join_command(app, words), ladder::sandbox_command(app),
      ladder::show_command(app),        ladder::profile_command(app, words),
      ladder::doctor_command(app),      ladder::tune_command(app, words),
      ladder::choose_command(app),      ladder::timeline_command(app, words),
  };
  const auto named = [&](const CLI::App* command) { return command->get_name() == words[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty()) {
    fmt::print(stderr, "ladder: there is no command '{}': `ladder --help` shows all\n", argv[1]);
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const ladder::Command& command : commands) {
      if (!*command.words) continue;
      ladder::need_sound_values(*command.words);
      return command.run();
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "ladder: {}\n", error.what());
  }
  return 2;
}
