// ladder join: one record of several pieces of a run.
#include <memory>
#include <optional>

#include "base/files.hpp"
#include "commands/commands.hpp"
#include "records/join.hpp"
#include "records/record.hpp"

namespace ladder {
namespace fs = std::filesystem;

Command join_command(CLI::App& app, const std::vector<std::string>& argv) {
  struct Options {
    fs::path out;
    std::vector<fs::path> pieces;
    int samples = 0;
    bool force = false;
    bool renews = false, complete = false;
  };
  const auto o = std::make_shared<Options>();
  auto* join = app.add_subcommand("join", "Join the records of a run that was split, for example over several GPUs");
  join->add_option("out", o->out, "The record to write; it may be one of the pieces")->required();
  join->add_option(
          "pieces", o->pieces,
          "Records of one commit (but see --renew) on one machine; if several have a row, the last one is taken")
      ->required()
      ->expected(1, 1000);
  join->add_option("--samples", o->samples, "Keep at most this many samples of each row (default: all)")
      ->check(CLI::Range(10, 1000000));
  join->add_flag("--force", o->force, "OUT may replace a file that is no record");
  join->add_flag("--renew", o->renews,
                 "The first piece may be of an earlier commit, and of a host with other cores: rows of the others "
                 "come in the place of its own");
  join->add_flag("--complete", o->complete,
                 "Nothing is missing, though a piece was interrupted: what `results/make_record.py PLAN --stale` says");
  return {join, [o, argv] {
            need_place(o->out, {}, o->force);
            std::string holder;
            const auto alone = FileLock::take(o->out, holder);
            if (!alone)
              throw Error(fmt::format("{} is being written by {}: wait for it, or choose another name", o->out.string(),
                                      holder));
            std::vector<InputRecord> pieces;
            for (const fs::path& file : o->pieces) pieces.push_back({file, read_record(file)});
            nlohmann::json record = joined(pieces, argv, o->out, o->renews);
            if (o->complete) record["context"]["complete"] = true;
            if (o->samples > 0)
              for (nlohmann::json& row : record["rows"]) keep_samples(row, size_t(o->samples));
            write_record(record, o->out);
            fmt::print("{}: {} rows of {} workloads from {} records\n", o->out.string(), record["rows"].size(),
                       record["workloads"].size(), pieces.size());
            return 0;
          }};
}

}  // namespace ladder
