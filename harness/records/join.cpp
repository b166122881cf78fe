#include "records/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <numbers>
#include <set>

#include "base/error.hpp"
#include "records/record.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Rates become the larger, durations (NAME_us) the shorter of both: a device can do at least what one session
/// measured, and other work on its host only lowers that.
void take_better(json& best, const json& its) {
  for (const auto& [name, value] : its.items()) {
    json& had = best[name];
    if (value.is_null()) continue;
    if (had.is_null() || (name.ends_with("_us") ? value < had : value > had)) had = value;
  }
}

/// `ran` says whether any piece ran a workload of this name. Where the others renew the first piece, time and machine
/// are theirs, and what the first one says of a host with other cores is not known of theirs.
template <class F>
json context_of(const std::vector<InputRecord>& pieces, const std::vector<std::string>& argv, bool renews, F ran) {
  json context = (renews ? pieces.back() : pieces.front()).record.at("context");
  context["argv"] = argv;
  context["pieces"] = json::array();
  context["left_out"] = json::array();
  for (const InputRecord& piece : pieces) {
    const json& its = piece.record.at("context");
    // One that was joined already counts as the runs that it was made of.
    for (const json& run : its.value("pieces", json::array({{{"argv", its.at("argv")}, {"time", its.at("time")}}})))
      context["pieces"].push_back(run);
    if (!renews || &piece != &pieces.front())
      context["time"] = std::min(context["time"].get<std::string>(), its.at("time").get<std::string>());
    context["complete"] = context["complete"].get<bool>() && its.at("complete").get<bool>();
    if (context["gpu"].is_null()) context["gpu"] = its.at("gpu");
    if (context["floor_us"].is_null()) context["floor_us"] = its.at("floor_us");
    if (its.at("host") == context["host"]) {
      if (its.at("floor_us").is_object()) take_better(context["floor_us"], its.at("floor_us"));
      for (const auto& [device, ceilings] : its.at("ceilings").items())
        take_better(context["ceilings"][device], ceilings);
    }
    for (const json& left_out : its.value("left_out", json::array())) {
      json& all = context["left_out"];
      const bool known = std::find(all.begin(), all.end(), left_out) != all.end();
      if (!known && !ran(left_out.at("workload"))) all.push_back(left_out);
    }
  }
  return context;
}

/// `renews`: the commits may differ, where both are known; and with a GPU how many cores the hosts have, as of machines
/// that are rented by the hour.
void require_one_run(const InputRecord& first, const InputRecord& piece, bool renews) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("{} cannot be joined with {}: {}", piece.file.string(), first.file.string(), why));
  };
  if (piece.record.at("schema_version") != record_version)
    refuse(fmt::format("it is of schema version {}, only records of version {} can be joined",
                       piece.record.at("schema_version").dump(), record_version));
  const json& rows = piece.record.at("rows");
  if (piece.record.contains("comparisons") &&
      !std::all_of(rows.begin(), rows.end(), [](const json& row) { return row.contains("turns"); }))
    refuse("it holds comparisons, and its rows do not say what they took turns with: measure it anew");
  json was = first.record.at("context"), is = piece.record.at("context");
  for (json* context : {&was, &is}) {
    if (json& gpu = (*context)["gpu"]; gpu.is_object()) gpu.emplace("numa_node", nullptr);  // older records lack it
  }
  if (renews && was.at("gpu").is_object() && is.at("gpu").is_object()) is["host"]["cores"] = was["host"]["cores"];
  if (renews && was.at("git_sha") != is.at("git_sha")) {
    for (const auto& [file, context] : {std::pair(first.file, was), std::pair(piece.file, is)}) {
      if (context.at("git_dirty"))
        refuse(fmt::format("{} was made from sources with uncommitted changes, so that its rows have no commit to name",
                           file.string()));
    }
    is["git_sha"] = was["git_sha"];
  }
  if (const std::string why = why_not_together(was, is); !why.empty()) refuse(fmt::format("the latter was {}", why));
}

json values_of(const json& of, std::initializer_list<const char*> keys) {
  json values = json::array();
  for (const char* key : keys) values.push_back(of.at(key));
  return values;
}

/// Takes those out of `list` whose `name` one of `more` has too.
void drop_known(json& list, const auto& more, const auto& name) {
  std::set<json> anew;
  for (const json& item : more) anew.insert(name(item));
  json kept = json::array();
  for (json& item : list) {
    if (!anew.count(name(item))) kept.push_back(std::move(item));
  }
  list = std::move(kept);
}

/// Takes the sessions in turns out of `rows` that `more` has anew, be they more or fewer than before: all sessions of a
/// comparison stand or fall together.
void drop_turns(json& rows, const std::vector<json>& more) {
  std::vector<json> turns;
  std::copy_if(more.begin(), more.end(), std::back_inserter(turns),
               [](const json& row) { return row.contains("turns"); });
  drop_known(rows, turns, [](const json& row) {
    if (!row.contains("turns")) return json();  // none of `turns` is called so
    json name =
        values_of(row, {"variant", "workload", "device", "scope", "gpus", "axes", "cache", "sustained_seconds"});
    name.push_back(row.value("ranks", 1));
    name.push_back(row["turns"].at("variants"));
    return name;
  });
}

/// Puts comparisons into those of a record, in the place of what it said of the same pairs before.
void put_comparisons(json& all, const json& more) {
  drop_known(all, more, [](const json& c) {
    return values_of(c, {"base", "candidate", "workload", "device", "scope", "axes", "cache"});
  });
  for (const json& c : more) all.push_back(c);
}

/// Of builds of one committed source, compiled alike, hashes tell only the folders apart that they were made in: unlike
/// put_rows(), keeps another build's rows but for those of the same measurement.
void put_rows_of_commit(json& rows, std::vector<json> more) {
  drop_known(rows, more, [](const json& row) {
    json name =
        values_of(row, {"variant", "workload", "device", "scope", "gpus", "axes", "cache", "sustained_seconds"});
    name.push_back(row.value("session", json()));
    name.push_back(row.contains("turns") ? row["turns"].at("variants") : json());
    name.push_back(row.value("ranks", 1));
    return name;
  });
  for (json& row : more) rows.push_back(std::move(row));
}

/// Puts rows of a later commit in the place of those that they renew: of the same measurement, or of another text of
/// the variant that was measured alike. Words of the card are those of the later one in all rows of the variant.
void renew_rows(json& rows, const std::vector<json>& more) {
  const auto place = [](const json& row) {
    json name = values_of(row, {"variant", "workload", "device", "gpus", "sustained_seconds"});
    name.push_back(row.value("ranks", 1));
    return name;
  };
  std::map<json, json> texts;  // the later one's, of each place
  std::map<json, const json*> cards;
  for (const json& row : more) {
    texts[place(row)] = row.value("source_hash", "");
    cards[row.at("variant")] = &row;
  }
  json kept = json::array();
  for (json& row : rows) {
    const auto text = texts.find(place(row));
    if (text != texts.end() && text->second != row.value("source_hash", "")) continue;
    if (const auto card = cards.find(row.at("variant")); card != cards.end()) {
      for (const char* key : {"base", "idea", "shows", "counter"}) {
        if (card->second->contains(key)) row[key] = card->second->at(key);
      }
    }
    kept.push_back(std::move(row));
  }
  rows = std::move(kept);
  put_rows_of_commit(rows, more);
}

/// Says of each row at which commit it was measured, and on a host of how many cores, where these are not those of
/// `record`, the context of the whole.
void name_origin(std::vector<json>& rows, const json& piece, const json& record) {
  const auto name = [](json& row, const char* key, const json& of_piece, const json& of_record) {
    if (!row.contains(key)) row[key] = of_piece;
    if (row[key] == of_record) row.erase(key);
  };
  for (json& row : rows) {
    name(row, "git_sha", piece.at("git_sha"), record.at("git_sha"));
    name(row, "host_cores", piece.at("host").at("cores"), record.at("host").at("cores"));
  }
}

}  // namespace

json joined(const std::vector<InputRecord>& pieces, const std::vector<std::string>& argv, const fs::path& out,
            bool renews) {
  const json& latest = pieces.back().record.at("context");
  const fs::path folder = fs::absolute(out).parent_path();
  json workloads = json::array(), rows = json::array();
  std::map<std::string, std::pair<size_t, const InputRecord*>> places;  // of a workload: its index, and its first piece
  for (const InputRecord& piece : pieces) {
    for (const InputRecord& before : pieces) {
      require_one_run(before, piece, renews && &before == &pieces.front());
      if (&before == &piece) break;
    }
    for (const json& workload : piece.record.at("workloads")) {
      const auto [place, is_new] = places.try_emplace(workload.at("name"), workloads.size(), &piece);
      if (is_new) {
        workloads.push_back(workload);
      } else if (const std::string why = other_problem(workloads[place->second.first], workload); !why.empty()) {
        throw Error(fmt::format("{} and {} hold different problems of the name {}: {}",
                                place->second.second->file.string(), piece.file.string(), place->first, why));
      }
    }
    std::vector<json> more = piece.record.at("rows");
    for (json& row : more) {
      if (json& dump = row.at("dump"); dump.is_string())
        dump = fs::relative(fs::absolute(piece.file).parent_path() / dump.get<std::string>(), folder).string();
    }
    name_origin(more, piece.record.at("context"), latest);
    drop_turns(rows, more);
    if (renews && &piece != &pieces.front())
      renew_rows(rows, more);
    else if (piece.record.at("context").at("git_dirty"))
      put_rows(rows, std::move(more));
    else
      put_rows_of_commit(rows, std::move(more));
  }
  auto ordered = rows.get<std::vector<json>>();
  std::stable_sort(ordered.begin(), ordered.end(), [&](const json& a, const json& b) {
    const auto place = [&](const json& row) {
      return std::pair(places.at(row.at("workload")).first, row.at("variant").get<std::string>());
    };
    return place(a) < place(b);
  });
  json record = {
      {"schema_version", record_version},
      {"context", context_of(pieces, argv, renews, [&](const std::string& name) { return places.count(name) > 0; })},
      {"workloads", std::move(workloads)},
      {"rows", std::move(ordered)}};
  record["context"]["git_sha"] = latest.at("git_sha");
  put_efficiency(record["rows"]);
  for (const InputRecord& piece : pieces) {
    if (piece.record.contains("comparisons")) {
      if (!record.contains("comparisons")) record["comparisons"] = json::array();
      put_comparisons(record["comparisons"], piece.record["comparisons"]);
    }
    for (const json& tuned : piece.record.value("tuning", json::array())) put_tuning(record, tuned);
  }
  return record;
}

void keep_samples(json& row, size_t most) {
  const size_t taken = row.at("samples_ms").size();
  if (taken <= most) return;
  // One of each stretch of time, at a place in it that the golden ratio moves on: what returns with a period, as
  // batches do, is met at all of its phases.
  std::vector<size_t> places;
  for (size_t i = 0; i < most; ++i) {
    double whole = 0;
    const double within = std::modf(double(i) * std::numbers::phi, &whole);
    places.push_back(std::min(taken - 1, size_t((double(i) + within) * double(taken) / double(most))));
  }
  for (const char* beside : {"samples_ms", "sm_mhz", "solve_iterations"}) {
    json& all = row.at(beside);
    if (all.size() != taken) continue;  // none at all: what it says was not asked for
    json kept = json::array();
    for (const size_t place : places) kept.push_back(all[place]);
    all = std::move(kept);
  }
  if (!row.contains("samples_taken")) row["samples_taken"] = taken;
}

}  // namespace ladder
