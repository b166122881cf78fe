// ladder show: a record as a table.
#include <memory>

#include "commands/commands.hpp"
#include "records/record.hpp"

namespace ladder {

Command show_command(CLI::App& app) {
  const auto file = std::make_shared<std::string>();
  auto* show = app.add_subcommand("show", "Print a record as a table");
  show->add_option("record", *file, "The record")->required();
  return {show, [file] {
            fmt::print("{}", table(read_record(*file)));
            return 0;
          }};
}

}  // namespace ladder
