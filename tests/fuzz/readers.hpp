// Every reader of files that the ladder did not just write itself, and what is done with what it read. Shared by the
// test that mutates small files and by the libFuzzer programs.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/foreign.hpp"
#include "base/npy.hpp"
#include "records/comparison.hpp"
#include "records/join.hpp"
#include "records/profile.hpp"
#include "records/record.hpp"
#include "records/renamed.hpp"
#include "records/table.hpp"
#include "records/tuned.hpp"
#include "runner/choice.hpp"
#include "runner/timeline.hpp"
#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder::fuzz {
namespace fs = std::filesystem;
using nlohmann::json;

/// Throws Error with the file's name in it, or nothing; what `use` is called with then throws Error, or nothing.
struct Reader {
  std::string name;  ///< of the folder with its examples, too
  void (*read)(const fs::path& file);
  void (*use)(const fs::path& file);
};

/// All that the commands do with a record.
inline void use_record(const fs::path& file) {
  const json record = read_record(file);
  table(record);
  TableOptions brief;
  brief.brief = true;
  table(record, brief);
  retired_in(record, renamed_variants());
  machine_differences(record.at("context"), record.at("context"));
  table(compare_records(record, record));
  compare_variants(record, [](const json& row) { return row.at("base").get<std::string>(); });
  if (record.at("schema_version") != record_version) return;
  times_in(record);
  why_not_together(record.at("context"), record.at("context"));
  const InputRecord piece{file, record};
  for (const bool renews : {false, true}) {
    json both = joined({piece, piece}, {"ladder", "join"}, file.parent_path() / "joined.json", renews);
    for (json& row : both["rows"]) keep_samples(row, 10);
  }
}

inline const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"record", [](const fs::path& file) { read_record(file); }, use_record},
      {"tuned", [](const fs::path& file) { read_tuned(file); },
       [](const fs::path& file) {
         Variant v;
         v.card = {{"axes", {{{"name", "block"}, {"values", {128, 256}}, {"standard", 128}}}}};
         const json document = read_tuned(file);
         for (const json& entry : document.at("entries")) why_stale(tuned_entry(document, entry), v);
       }},
      {"choice", [](const fs::path& file) { read_choice(file); },
       [](const fs::path& file) {
         const ProblemShape shape{.type = "f32", .n = 1e5, .d = 32, .k = 100, .filled = 100};
         const auto choice =
             choose_variant(read_choice(file), "cuda", "", shape, [](const std::string&) { return true; });
         if (!choice.ranking.empty()) reason(choice, shape);
       }},
      {"profile", [](const fs::path& file) { read_profile(file); },
       [](const fs::path& file) {
         const json whole = read_profile(file);
         profile_text(whole.at("profiles").get<std::vector<json>>());
         merge_into_profile(file, whole.at("profiles").get<std::vector<json>>());
       }},
      {"timeline", [](const fs::path& file) { read_timelines(file); },
       [](const fs::path& file) {
         const json whole = read_timelines(file);
         for (const json& one : whole.at("timelines")) timeline_text(one);
         merge_into_timelines(file, whole.at("timelines").get<std::vector<json>>());
       }},
      {"workloads",
       [](const fs::path& file) {
         setenv("LADDER_WORKLOADS_FILE", file.c_str(), 1);
         load_workloads();
       },
       [](const fs::path&) { lesson_workloads(); }},
      {"card",
       [](const fs::path& file) {
         const fs::path folder = file.parent_path() / "modules";
         fs::create_directories(folder / "simt");
         std::ofstream(folder / "expected.txt") << "simt/a1_rung\n";
         std::ofstream(folder / "simt" / "a1_rung.so") << "";
         fs::copy_file(file, folder / "simt" / "a1_rung.json", fs::copy_options::overwrite_existing);
         find_variants({folder});
       },
       [](const fs::path&) {}},
      {"renamed", [](const fs::path& file) { read_renamed(file); },
       [](const fs::path& file) {
         json record = json::object();
         use_todays_ids(record, read_renamed(file));
       }},
      {"npy", [](const fs::path& file) { NpyFile(file.string(), NpyFile::Order::any); },
       [](const fs::path& file) {
         const NpyFile held(file.string(), NpyFile::Order::any);
         volatile unsigned char sum = 0;  // reads all that the header promises
         for (size_t i = 0; i < held.byte_count(); ++i) sum = sum ^ static_cast<const unsigned char*>(held.bytes())[i];
         if (held.shape().size() == 2) held.columns();
       }},
  };
  return all;
}

}  // namespace ladder::fuzz
