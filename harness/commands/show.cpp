// ladder show: prints a record as a table.
#include <unistd.h>

#include <memory>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "protocol/scopes.hpp"
#include "records/record.hpp"
#include "records/renamed.hpp"
#include "records/table.hpp"

namespace ladder {

Command show_command(CLI::App& app) {
  struct Options {
    std::string file, scopes, over = "both";
    bool brief = false;
  };
  const auto o = std::make_shared<Options>();
  auto* show = app.add_subcommand("show", "Print a record as a table");
  show->add_option("record", o->file, "The record")->required();
  show->add_option("--scopes", o->scopes,
                   fmt::format("Of {} (default: all but transfers and initialisation)", listed(scope_names())));
  show->add_option("--over", o->over, "Speedups are over each variant's base, over the root of its tree, or both")
      ->check(CLI::IsMember({"base", "root", "both"}))
      ->capture_default_str();
  show->add_flag("--brief", o->brief, "Leave out, and count, what was refused, and simt where it is right");
  return {show, [o] {
            using Over = TableOptions::Over;
            const TableOptions options{.scopes = split(o->scopes),
                                       .over = o->over == "base"   ? Over::base
                                               : o->over == "root" ? Over::root
                                                                   : Over::both,
                                       .brief = o->brief,
                                       .grey = bool(isatty(STDOUT_FILENO))};
            const nlohmann::json record = read_record(o->file);
            fmt::print("{}", table(record, options));
            for (const std::string& sentence : retired_in(record, renamed_variants())) fmt::print("{}\n", sentence);
            return 0;
          }};
}

}  // namespace ladder
