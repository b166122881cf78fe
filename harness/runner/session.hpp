// One session: a request to a worker, and the rows that come of what it reports or of how it ended.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/scopes.hpp"
#include "records/roofline.hpp"
#include "records/row.hpp"
#include "runner/progress.hpp"
#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

class Waiting;

struct RunOptions {
  std::vector<std::string> argv;    ///< for the record
  std::vector<std::string> scopes;  ///< empty: scopes_of says which
  std::map<std::string, int> axes;
  double time_limit = 0;  ///< seconds per session; 0: time_limit_of
  double warm_up_seconds = 1, sustained_seconds = 0;
  double min_seconds = 0.5, max_seconds = 10;
  double validation_budget = 2e9;
  bool all_labels = false;    ///< check every label that a solve hands out
  bool every_device = false;  ///< a variant runs on all that it is for, else on the first of them
  bool cold = false;
  bool check_only = false;     ///< validate, time nothing
  bool profile = false;        ///< one sample per scope, while a profiler looks
  bool sandbox = false;        ///< sessions run in one (sandbox/sandbox.hpp)
  std::string judge = "auto";  ///< inside or apart from the process that runs the variant, or auto: as judge_of says
  bool share = false;          ///< timed sessions of a device take turns in one process, as those of a check do
  bool resume = false;
  bool force = false;                         ///< `out` may replace what is no record
  bool insist = false;                        ///< a workload that cannot run is an Error, instead of being left out
  bool show_output = false;                   ///< all that sessions write, not only its end
  bool keep_generated = true;                 ///< leave generated points in the cache
  bool renew_ceilings = false;                ///< measure anew what the devices can do
  int ordinal = 0;                            ///< which GPU is the first
  int gpus = 1;                               ///< how many each rank of a variant gets that can use so many
  int ranks = 1;                              ///< processes that such a variant runs in
  std::string launcher = "auto";              ///< what starts them: mpi, own, or auto: mpi where it is
  nlohmann::json gpu;                         ///< what it is, for the record; null where none is used
  std::vector<std::filesystem::path> hidden;  ///< folders that sessions in the sandbox see empty
  std::filesystem::path workers;              ///< folder of the programs that run sessions; empty: this program's
  std::filesystem::path out, dump;
  std::vector<std::string> benchmark_flags;
};

/// One variant, how it is measured, and the scopes to be timed now.
struct Session {
  const Variant* variant = nullptr;
  Setting setting;
  std::vector<std::string> scopes;
  std::filesystem::path worker = {};  ///< the program that runs it, where it is not the one beside this program
};

/// How the reason begins of a time from a session that was stopped by us: at its time limit, or by Ctrl-C.
inline const std::string stopped_early = "the session was stopped before its last check: ";

/// The scopes to be timed of a variant: those that were asked for, else the standard ones, and the one in which its
/// change shows.
std::vector<std::string> scopes_of(const Variant& variant, const RunOptions& options);

/// Where a session's judge is: `apart`, in a process that never loads the variant, or `inside` the one that runs it. Of
/// a run with several GPUs or ranks, and under a profiler, it is always inside; of a GPU, where it is not asked for.
std::string judge_of(const Session& session, const RunOptions& options);

/// Default time limit of a session in seconds, from the problem's size and the rates of slow variants; 20 to 300.
double time_limit_of(const Workload& workload, const Session& session, const RunOptions& options);

/// Runs a session on a workload that is ready. `limits` are its device's. `scratch` holds what passes between the
/// processes; `dump`, where it is not empty, what the worker leaves of its solution. `waiting`: of the worker that
/// takes sessions of a check one after another on this device. One row per scope, in order.
std::vector<nlohmann::json> rows_of_session(const Session& session, const Workload& workload, const RunOptions& options,
                                            const Limits& limits, const std::filesystem::path& scratch,
                                            const std::filesystem::path& dump, Progress& progress,
                                            Waiting* waiting = nullptr);

/// A session's rows in a line for people.
std::string summary(const std::vector<nlohmann::json>& rows);

}  // namespace ladder
