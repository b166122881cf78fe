#include "runner/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "records/record.hpp"
#include "records/table.hpp"
#include "records/tuned.hpp"
#include "runner/ceilings.hpp"
#include "runner/child.hpp"
#include "runner/progress.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A variant on one of the devices that it is for.
struct Pair {
  const Variant* variant;
  DeviceKind device;
  bool alone;          ///< the variant meets no other device in this run
  size_t counted = 0;  ///< sessions of the present workload that are to run, as progress has it
};

std::vector<Pair> pairs_of(const RunOptions& o, const std::vector<DeviceKind>& kinds,
                           const std::vector<Variant>& variants) {
  std::vector<Pair> pairs;
  for (const Variant& v : variants) {
    const auto is_for = [&](DeviceKind kind) { return v.modules.count(kind) || v.broken.count(kind); };
    for (const DeviceKind kind : kinds) {
      if (!is_for(kind)) continue;
      const bool alone = !o.every_device || std::count_if(kinds.begin(), kinds.end(), is_for) == 1;
      pairs.push_back({&v, kind, alone});
      if (!o.every_device) break;
    }
  }
  return pairs;
}

/// A session that is to run, and the scopes that it is to time.
struct Open {
  Setting setting;
  std::vector<std::string> scopes;
};

std::string axes_text(const std::map<std::string, int>& axes) {
  std::string text;
  for (const auto& [name, value] : axes) text += fmt::format(" {}={}", name, value);
  return text;
}

/// Did a variant refuse the subject's problem? A row can be refused of one that was validated: it lacks that scope.
bool refused(const Subject& subject, const std::string& variant) {
  const json& rows = subject.record.at("rows");
  const auto of_it = [&](const json& row) {
    return row.at("variant") == variant && row.at("workload") == subject.workload.name &&
           row.at("device") == to_string(subject.device);
  };
  return std::any_of(rows.begin(), rows.end(), of_it) && std::all_of(rows.begin(), rows.end(), [&](const json& row) {
           return !of_it(row) || (row.at("status") == "refused" && row.at("validation").is_null());
         });
}

/// The record while it grows: which rows it has, and which it may take.
class Growing {
 public:
  Growing(const RunOptions& o) : out_(o.out) {
    record_ = {{"schema_version", record_version},
               {"context", ladder::context(o.argv, o.gpu)},
               {"workloads", json::array()},
               {"rows", json::array()}};
    if (!o.resume || !fs::exists(out_)) return;
    const json old = read_record(out_);
    if (old["schema_version"] != record_version)
      throw Error(
          fmt::format("{} is a record of schema version {}, which can be shown but not added to: choose another --out",
                      out_.string(), old["schema_version"].dump()));
    if (const std::string why = why_not_together(old.at("context"), record_["context"]); !why.empty())
      throw Error(fmt::format("{} was {}: choose another --out", out_.string(), why));
    record_["workloads"] = old.at("workloads");
    record_["rows"] = old.at("rows");
    // Of devices that this run does not use: its rows stay.
    json& context = record_["context"];
    for (const char* key : {"gpu", "floor_us"}) {
      if (context[key].is_null()) context[key] = old.at("context").at(key);
    }
    context["ceilings"] = old.at("context").at("ceilings");
    context["left_out"] = old.at("context").value("left_out", json::array());
    if (old.contains("tuning")) record_["tuning"] = old["tuning"];
  }

  json& context() { return record_["context"]; }
  json& record() { return record_; }

  /// What the record says of a workload of this name; null where nothing.
  json described(const std::string& name) const {
    for (const json& known : record_["workloads"]) {
      if (known["name"] == name) return known;
    }
    return nullptr;
  }
  /// Why the workload cannot be the one of this name in the record; empty where it can.
  std::string other_problem(const Workload& w) const {
    const json known = described(w.name);
    const std::string why = known.is_null() ? "" : ladder::other_problem(known, describe(w));
    if (why.empty()) return "";
    return fmt::format("{} holds another problem of the name {} ({}): choose another --out", out_.string(), w.name,
                       why);
  }
  void list(const Workload& w) {
    if (described(w.name).is_null()) record_["workloads"].push_back(describe(w));
    no_longer_left_out(w);
  }
  void leave_out(const Workload& w, const std::string& reason) {
    no_longer_left_out(w);
    record_["context"]["left_out"].push_back({{"workload", w.name}, {"reason", reason}});
  }

  /// Of `settings`, those with scopes that have no row yet that need not be measured again.
  std::vector<Open> missing(const Variant& v, const Workload& w, const std::vector<Setting>& settings,
                            const std::vector<std::string>& scopes, bool timed) const {
    std::set<std::string> done = measured_;
    for (const json& row : record_["rows"]) {
      if (row["status"] != "failed" && (row["status"] != "checked" || !timed)) done.insert(row["key"]);
    }
    std::vector<Open> open;
    for (const Setting& setting : settings) {
      Open wanted{setting, {}};
      for (const std::string& scope : scopes) {
        if (!done.count(row_key(v, w, scope, setting))) wanted.scopes.push_back(scope);
      }
      if (!wanted.scopes.empty()) open.push_back(std::move(wanted));
    }
    return open;
  }

  /// Puts a session's rows in; returns how many rows of a former build of the variant went.
  size_t put(std::vector<json> rows) {
    for (const json& row : rows) measured_.insert(row.at("key"));
    const size_t gone = put_rows(record_["rows"], std::move(rows));
    put_efficiency(record_["rows"]);
    return gone;
  }

  void write() const { write_record(record_, out_); }

 private:
  void no_longer_left_out(const Workload& w) {
    json others = json::array();
    for (json& entry : record_["context"]["left_out"]) {
      if (entry.at("workload") != w.name) others.push_back(std::move(entry));
    }
    record_["context"]["left_out"] = std::move(others);
  }

  fs::path out_;
  json record_;
  std::set<std::string> measured_;  ///< keys of this run's own rows: what failed is not begun again
};

}  // namespace

Setting setting_of(const Variant& v, DeviceKind kind, const RunOptions& o) {
  const bool usable = kind != DeviceKind::cpu && v.card.value("gpus", 1) > 1;
  return {.device = kind,
          .gpus = usable ? o.gpus : 1,
          .ranks = usable ? o.ranks : 1,
          .axes = axes_of(v, o.axes),
          .cold = o.cold,
          .sustained_seconds = o.sustained_seconds};
}

std::map<DeviceKind, Limits> limits_of(const RunOptions& o, const std::vector<DeviceKind>& kinds, json& context,
                                       Progress& progress) {
  std::map<DeviceKind, Limits> limits;
  for (const DeviceKind kind : kinds) {
    progress.doing(fmt::format("what {} can do at most", to_string(kind)));
    const bool gpu = kind == DeviceKind::cuda;
    const json device = gpu ? o.gpu : json{{"name", context["host"]["cpu"]}};
    Limits& l = limits[kind];
    l.ceilings = ceilings_of(kind, o.ordinal, device, o.renew_ceilings);
    // 256 KiB of registers and as much shared memory and first-level cache in each multiprocessor.
    l.kept_bytes = double(l.ceilings.l2_bytes.value_or(0)) + (gpu ? device.value("multiprocessors", 0) * 524288.0 : 0);
    context["ceilings"][to_string(kind)] = l.ceilings;
    // No roof of a GPU, but what runs there is no faster than the CPU under it.
    if (kind == DeviceKind::simt) l.host = ceilings_of(DeviceKind::cpu, o.ordinal, device, o.renew_ceilings);
    json& floor = context["floor_us"];
    if (floor.is_null() && l.ceilings.empty_event_us) {
      floor = {{"empty_event_us", l.ceilings.empty_event_us}, {"empty_launch_us", l.ceilings.empty_launch_us}};
    }
  }
  return limits;
}

std::string Plan::words(const Setting& setting) const {
  return setting.tuned ? " tuned" + axes_text(setting.axes) : "";
}

Steps RunOnce::steps(const Subject& subject) const {
  const Variant& v = subject.variant;
  Steps steps{.known = {setting_of(v, subject.device, o_)}, .likely = 0, .remarks = {}};
  Setting& setting = steps.known.front();
  // Values that belong together were tuned together: one that is set by hand takes the others with it.
  const bool by_hand =
      std::any_of(o_.axes.begin(), o_.axes.end(), [&](const auto& wish) { return setting.axes.count(wish.first) > 0; });
  if (tuned_.is_null() || setting.axes.empty() || by_hand) return steps;
  const json entry = tuned_entry(tuned_, tuned_place(v, subject.workload, subject.device, setting.gpus * setting.ranks,
                                                     subject.record.at("context")));
  if (entry.is_null()) return steps;
  if (const std::string why = why_stale(entry, v); !why.empty()) {
    steps.remarks.push_back(fmt::format(
        "{} on {}: its tuned values are left aside, its standard ones taken: {}; `ladder tune {}` finds new ones", v.id,
        subject.workload.name, why, v.id));
    return steps;
  }
  setting.axes = entry.at("axes").get<std::map<std::string, int>>();
  setting.tuned = true;
  return steps;
}

Steps RunChosen::steps(const Subject& subject) const {
  const ProblemShape shape = shape_of(subject.workload);
  const std::string machine = machine_of(subject.record.at("context"), subject.device);
  const Choice choice = choose_variant(table_, to_string(subject.device), machine, shape,
                                       [&](const std::string& id) { return ids_.count(id) > 0; });
  int before = 0;  // that run
  for (const Candidate& candidate : choice.ranking) {
    const std::string& id = candidate.variant;
    if (before == tries_) break;
    if (id == subject.variant.id) {
      Steps steps = RunOnce::steps(subject);
      steps.remarks.push_back("auto: " + (id == choice.ranking[0].variant ? reason(choice, shape)
                                          : before
                                              ? fmt::format("{}, tried on {} as well", id, to_text(shape))
                                              : fmt::format("{}, as those before it refuse {}", id, to_text(shape))));
      return steps;
    }
    before += !refused(subject, id);
  }
  return {};
}

int run_ladder(const RunOptions& o, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads, const Plan& plan) {
  catch_interrupts();
  std::string holder;
  const auto alone = FileLock::take(o.out, holder);
  if (!alone)
    throw Error(fmt::format("{} is being written by {}: wait for it, or choose another --out", o.out.string(), holder));
  Growing record(o);
  for (const Workload& w : workloads) {
    if (const std::string other = record.other_problem(w); !other.empty()) throw Error(other);
  }

  std::vector<Pair> pairs = pairs_of(o, kinds, variants);
  if (pairs.empty()) {
    std::string names;
    for (const DeviceKind kind : kinds) names += (names.empty() ? "" : " or ") + std::string(to_string(kind));
    throw Error(fmt::format("none of the chosen variants is for {}: choose others, or another --device", names));
  }
  size_t guessed = 0;
  for (const Pair& pair : pairs) guessed += plan.guess(*pair.variant);
  Progress progress(guessed * workloads.size());
  std::map<DeviceKind, Limits> limits = limits_of(o, kinds, record.context(), progress);
  const Scratch scratch;
  std::set<std::string> remarked;
  bool named_left_out = false;
  std::map<DeviceKind, Waiting> waiting;  // of a workload, or of all where timed sessions share a process
  for (Workload& w : workloads) {
    if (interrupted()) break;
    for (Pair& pair : pairs) pair.counted = plan.guess(*pair.variant);
    const auto subject = [&](const Pair& pair) { return Subject{*pair.variant, pair.device, w, record.record()}; };
    const auto open_of = [&](const Pair& pair, const Steps& steps) {
      return record.missing(*pair.variant, w, steps.known, plan.scopes(*pair.variant), !o.check_only);
    };
    // What an earlier, interrupted run finished need not be done again.
    const auto count = [&] {
      size_t open = 0, known = 0;
      for (Pair& pair : pairs) {
        const Steps steps = plan.steps(subject(pair));
        const size_t missing = open_of(pair, steps).size();
        open += missing, known += steps.known.size();
        progress.expect(missing + steps.likely), progress.skip(pair.counted);
        pair.counted = missing + steps.likely;
      }
      if (open < known)
        progress.say(fmt::format("{}: {} of {} sessions kept from before", w.name, known - open, known));
    };
    const auto all_kept = [&] {
      return std::all_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
        const Steps steps = plan.steps(subject(pair));
        return open_of(pair, steps).empty();
      });
    };
    const auto finish = [&](const Pair& pair) {
      const std::vector<std::string> said = plan.finish(subject(pair), record.record());
      if (said.empty()) return;
      for (const std::string& sentence : said) progress.say(sentence);
      record.write();
    };
    // Where the data need not be looked at to say so, they need not even be made.
    if (w.missing.empty() && know(w, record.described(w.name)) && record.other_problem(w).empty() && all_kept()) {
      count();
      for (const Pair& pair : pairs) finish(pair);
      continue;
    }
    const Workload unprepared = w;
    std::string stamps;  // of its files
    const auto prepared = [&] {
      progress.doing(w.name + ": getting the data ready");
      try {
        for (const std::string& done : make_ready(w, scratch.path)) progress.say(done);
        if (const std::string other = record.other_problem(w); !other.empty()) throw Error(other);
      } catch (const std::exception& error) {
        if (o.insist) throw;
        record.leave_out(w, error.what());
        named_left_out = named_left_out || w.named;
        return std::string(error.what());
      }
      stamps = stamps_of(w);
      return std::string();
    };
    if (const std::string why = prepared(); !why.empty()) {
      progress.not_to_do(guessed, fmt::format("{} is left out: {}", w.name, why));
      continue;
    }
    record.list(w);
    count();
    if (!o.share) waiting.clear();
    std::string spoilt;  // why the workload's files cannot be used any more
    bool again = true;
    while (again) {
      again = false;
      for (Pair& pair : pairs) {
        if (!spoilt.empty()) break;
        const Variant& v = *pair.variant;
        const std::string kind = to_string(pair.device);
        // A folder of one's own for each device only where one variant meets several.
        const fs::path dump =
            o.dump.empty() ? fs::path() : fs::absolute(o.dump / w.name / (pair.alone ? v.id : v.id + "@" + kind));
        while (!interrupted() && spoilt.empty()) {
          const Steps steps = plan.steps(subject(pair));
          for (const std::string& remark : steps.remarks) {
            if (remarked.insert(remark).second) progress.say(remark);
          }
          const std::vector<Open> open = open_of(pair, steps);
          progress.expect(open.size() + steps.likely), progress.skip(pair.counted);
          pair.counted = open.size() + steps.likely;
          if (open.empty()) {
            finish(pair);
            break;
          }
          for (const auto& [setting, scopes] : open) {
            if (interrupted() || !spoilt.empty()) break;
            Limits& l = limits[pair.device];
            l.gpus = setting.gpus * setting.ranks;
            std::vector<json> rows =
                rows_of_session({&v, setting, scopes}, w, o, l, scratch.path, dump, progress, &waiting[pair.device]);
            --pair.counted;
            progress.session_done(fmt::format("{:<20} {:<14} {}{}", v.id, w.name, kind, plan.words(setting)) +
                                  summary(rows));
            if (const size_t gone = record.put(std::move(rows)); gone > 0)
              progress.say(fmt::format("{} was built anew: {} rows of its former build are taken out", v.id, gone));
            record.write();
            again = plan.depends_on_others();
            if (stamps_of(w) != stamps) {
              fs::create_directories(scratch.path);
              waiting.clear();  // they have the files open
              w = unprepared;
              spoilt = prepared();
              if (!spoilt.empty()) progress.say(fmt::format("{} is left out from here on: {}", w.name, spoilt));
            }
          }
        }
      }
    }
    // Initial centroids and converted points of this workload are not needed any more.
    for (const fs::path& file : {w.points, w.centroids}) {
      if (file.parent_path() == scratch.path) fs::remove(file);
    }
    w.in_use.reset();
    if (!o.keep_generated) delete_generated(unprepared);
  }
  record.context()["complete"] = !interrupted();
  record.write();
  fmt::print("\n{}\nrecord: {}\n", table(record.record()), o.out.string());
  if (interrupted()) {
    fmt::print(stderr, "interrupted: what is done is kept; the same command with --resume goes on\n");
    return 130;
  }
  if (named_left_out) fmt::print(stderr, "a workload was named, but not run: see 'left out' above\n");
  // Rows that were kept count too: the status is the record's.
  const json& rows = record.record()["rows"];
  const bool bad = std::any_of(rows.begin(), rows.end(),
                               [](const json& row) { return row["status"] == "invalid" || row["status"] == "failed"; });
  return bad || named_left_out ? 1 : 0;
}

}  // namespace ladder
