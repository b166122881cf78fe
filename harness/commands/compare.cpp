// ladder compare: two records, row by row, or the variants of one: SAME, FASTER, SLOWER or UNSURE.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "commands/commands.hpp"
#include "protocol/scopes.hpp"
#include "records/comparison.hpp"
#include "records/record.hpp"
#include "records/renamed.hpp"

namespace ladder {
using nlohmann::json;

namespace {

struct CompareWords {
  std::vector<std::string> files;
  std::string variants, workloads, scopes, over, fail_if;
  double margin_percent = 100 * standard_margin;
  bool as_json = false;
};

bool any_matches(const std::string& patterns, const std::vector<std::string>& names) {
  const std::vector<std::string> wanted = split(patterns);
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& pattern) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); });
  });
}

/// Rows that --workloads and --scope let through, and, where `variants` is not empty, those of such a variant.
RowFilter filter_for(const std::vector<json>& records, const CompareWords& words, const std::string& variants) {
  std::map<std::string, std::string> family;
  for (const json& record : records)
    for (const json& w : record.at("workloads")) family[w.at("name")] = w.at("family");
  const std::vector<std::string> scopes = split(words.scopes);
  for (const std::string& scope : scopes) scope_named(scope);
  return [=, workloads = words.workloads](const json& row) {
    const std::string workload = row.at("workload"), scope = row.at("scope");
    const auto known = family.find(workload);
    if (!workloads.empty() && !any_matches(workloads, {workload, known == family.end() ? workload : known->second}))
      return false;
    if (!scopes.empty() && std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) return false;
    return variants.empty() || any_matches(variants, {row.at("variant").get<std::string>()});
  };
}

/// Each variant's base, as its rows state it.
std::map<std::string, std::string> bases_of(const json& record) {
  std::map<std::string, std::string> bases;
  for (const json& row : record.at("rows")) bases[row.at("variant")] = row.at("base");
  return bases;
}

std::string root_of(const std::map<std::string, std::string>& bases, const std::string& variant) {
  std::set<std::string> seen;
  std::string at = variant;
  for (auto next = bases.find(at); next != bases.end() && !next->second.empty() && seen.insert(at).second;
       next = bases.find(at))
    at = next->second;
  return at;
}

Comparisons within(const json& record, const CompareWords& words, double margin) {
  if (!words.over.empty()) {
    // The filter must not take the bases away: --variants names candidates.
    const auto bases = bases_of(record);
    const auto base_of = [&](const json& row) -> std::string {
      const std::string variant = row.at("variant");
      if (!words.variants.empty() && !any_matches(words.variants, {variant})) return "";
      const std::string over = words.over == "base" ? bases.at(variant) : root_of(bases, variant);
      if (row.contains("turns")) {  // a session is compared with those that it took turns with
        const json& turns = row["turns"].at("variants");
        if (std::find(turns.begin(), turns.end(), over) == turns.end()) return "";
      }
      return over == variant ? "" : over;
    };
    return compare_variants(record, base_of, filter_for({record}, words, ""), margin);
  }
  const std::vector<std::string> pair = split(words.variants);
  if (pair.size() != 2)
    throw Error("one record: name two variants, --variants BASE,CANDIDATE, or compare each with --over base or root");
  const auto bases = bases_of(record);
  for (const std::string& variant : pair) {
    if (!bases.count(variant))
      throw Error(
          fmt::format("{} has no row of variant '{}': `ladder show` shows those it has", words.files[0], variant));
  }
  const auto base_of = [&](const json& row) -> std::string {
    return row.at("variant") == pair[1] ? pair[0] : std::string();
  };
  return compare_variants(record, base_of, filter_for({record}, words, words.variants), margin);
}

std::string tell(const json& context, const std::string& file) {
  return fmt::format("{} ({}, git {}{})", file, context.at("time").get<std::string>(),
                     context.at("git_sha").get<std::string>().substr(0, 10),
                     context.at("git_dirty").get<bool>() ? ", with uncommitted changes" : "");
}

int compare(const CompareWords& words) {
  std::vector<json> records;
  for (const std::string& file : words.files) records.push_back(read_record(file));
  const double margin = words.margin_percent / 100;
  if (records.size() == 2 && !words.over.empty())
    throw Error("--over compares the variants of one record: give one record, or leave --over out");

  std::vector<std::string> warnings;
  Comparisons all;
  if (records.size() == 2) {
    if (records[0] == records[1])
      fmt::print(stderr, "warning: both files hold one record: each ratio is 1 by itself\n");
    warnings = machine_differences(records[0].at("context"), records[1].at("context"));
    all = compare_records(records[0], records[1], filter_for(records, words, words.variants), margin);
  } else {
    all = within(records[0], words, margin);
  }
  if (all.rows.empty()) {
    throw Error(
        fmt::format("there is nothing to compare{}{}",
                    all.left_out.empty() ? ": no two timed rows are of the same workload, scope and device" : ": ",
                    all.left_out.empty() ? "" : all.left_out.front()));
  }
  if (words.as_json) {
    const json out = {{"comparisons", all.rows},
                      {"left_out", all.left_out},
                      {"scatters", all.scatters},
                      {"machine_differences", warnings},
                      {"margin", margin}};
    std::cout << out.dump(1) << "\n";
  } else {
    if (records.size() == 2)
      fmt::print("base       {}\ncandidate  {}\n\n", tell(records[0].at("context"), words.files[0]),
                 tell(records[1].at("context"), words.files[1]));
    fmt::print("{}", table(all));
    std::set<std::string> retired;
    for (const json& record : records)
      for (const std::string& sentence : retired_in(record, renamed_variants())) retired.insert(sentence);
    for (const std::string& sentence : retired) fmt::print("{}\n", sentence);
  }
  if (!warnings.empty()) {
    fmt::print(stderr,
               "warning: the records are of different machines or builds, so that more than the code differs:\n");
    for (const std::string& difference : warnings) fmt::print(stderr, "  {}\n", difference);
  }
  const bool slower = std::any_of(all.rows.begin(), all.rows.end(), [](const RowComparison& row) {
    return row.result.verdict == Comparison::Verdict::slower;
  });
  return words.fail_if == "slower" && slower ? 1 : 0;
}

}  // namespace

Command compare_command(CLI::App& app) {
  const auto words = std::make_shared<CompareWords>();
  auto* compare =
      app.add_subcommand("compare", "Compare two records, or variants in one: SAME, FASTER, SLOWER or UNSURE");
  compare->add_option("records", words->files, "BASE.json CANDIDATE.json, or one record")->required()->expected(1, 2);
  compare->add_option("--variants", words->variants,
                      "Two records, or --over: globs of the variants to compare. One record: BASE,CANDIDATE");
  compare->add_option("--workloads,--workload", words->workloads,
                      "Globs over names and families, with commas between them");
  compare->add_option("--scope,--scopes", words->scopes, "One, or several with commas between them");
  compare->add_option("--over", words->over, "One record: each variant over its base, or over the root of its ladder")
      ->check(CLI::IsMember({"base", "root"}));
  compare->add_option("--margin", words->margin_percent, "Percent: a difference below it is called SAME")
      ->check(above_zero())
      ->capture_default_str();
  compare->add_option("--fail-if", words->fail_if, "slower: exit with status 1 if a row is SLOWER")
      ->check(CLI::IsMember({"slower"}));
  compare->add_flag("--json", words->as_json, "For programs");
  compare->footer(
      "ratio: the candidate's time over the base's; below 1 is faster. SAME: its 95 % interval lies within the "
      "margin.\n"
      "FASTER, SLOWER: p < 0.02. UNSURE: everything else; `ladder run --compare` decides it.\n"
      "Exit status: 0, 1 with --fail-if where it holds, 2 bad usage, or nothing to compare.");
  return {compare, [words] { return ladder::compare(*words); }};
}

}  // namespace ladder
