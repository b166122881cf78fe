// Running a ladder: a plan of sessions, each in a child process, and the record that grows with them.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/choice.hpp"
#include "runner/session.hpp"

namespace ladder {

/// How these options measure a variant on a kind of device.
Setting setting_of(const Variant& variant, DeviceKind kind, const RunOptions& options);

/// What the devices can do at most: measured, or known from before, and noted in the record's `context`.
std::map<DeviceKind, Limits> limits_of(const RunOptions& options, const std::vector<DeviceKind>& kinds,
                                       nlohmann::json& context, Progress& progress);

/// A variant on a device and a workload, and the record so far.
struct Subject {
  const Variant& variant;
  DeviceKind device;
  const Workload& workload;  ///< its points have been looked at
  const nlohmann::json& record;
};

/// The sessions that a subject needs.
struct Steps {
  std::vector<Setting> known;        ///< all that follow from the record so far, those that are in it included
  size_t likely = 0;                 ///< how many more there may be once these are done
  std::vector<std::string> remarks;  ///< what to tell people, in sentences
};

/// Which sessions a run is made of. What comes next may depend on what was found; it is asked again after each batch,
/// and by a run that resumes a record, so it must follow from the record alone.
class Plan {
 public:
  explicit Plan(const RunOptions& options) : o_(options) {}
  Plan(const Plan&) = delete;
  virtual ~Plan() = default;
  /// How many sessions a variant on a workload will take, before anything is known.
  virtual size_t guess(const Variant&) const { return 1; }
  virtual std::vector<std::string> scopes(const Variant& variant) const { return scopes_of(variant, o_); }
  virtual Steps steps(const Subject& subject) const = 0;
  /// Do the steps of a variant depend on the rows of others? Then all are asked again until none has any left.
  virtual bool depends_on_others() const { return false; }
  /// What of a setting is worth a word in the line of its session.
  virtual std::string words(const Setting& setting) const;
  /// All steps of the subject are done: what of it goes into the record besides rows. Returns sentences for people.
  virtual std::vector<std::string> finish(const Subject&, nlohmann::json&) const { return {}; }

 protected:
  const RunOptions& o_;
};

/// Each variant once: with its standard values, with those of --axis, or with those that `ladder tune` found for such a
/// problem on this device. `tuned`: the document of read_tuned; null: none.
class RunOnce : public Plan {
 public:
  RunOnce(const RunOptions& options, nlohmann::json tuned) : Plan(options), tuned_(std::move(tuned)) {}
  Steps steps(const Subject& subject) const override;

 private:
  nlohmann::json tuned_;
};

/// On each workload the variants that the table of choices expects to be fastest, `tries` of them; where one refuses
/// the problem, the next takes its place.
class RunChosen : public RunOnce {
 public:
  /// `ids`: of the variants that the run may take.
  RunChosen(const RunOptions& options, nlohmann::json tuned, std::vector<ShapeTimes> table, std::set<std::string> ids,
            int tries)
      : RunOnce(options, std::move(tuned)), table_(std::move(table)), ids_(std::move(ids)), tries_(tries) {}
  size_t guess(const Variant&) const override { return 0; }
  Steps steps(const Subject& subject) const override;
  bool depends_on_others() const override { return true; }

 private:
  std::vector<ShapeTimes> table_;
  std::set<std::string> ids_;
  int tries_;
};

/// Runs every variant on every workload on those of `kinds` that it is for. Returns the exit status: 0 where all rows
/// are ok, refused or unstable; 1 where one is invalid or failed; 130 after Ctrl-C. The record is in options.out.
int run_ladder(const RunOptions& options, const std::vector<DeviceKind>& kinds, const std::vector<Variant>& variants,
               std::vector<Workload> workloads, const Plan& plan);

}  // namespace ladder
