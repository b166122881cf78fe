// What a worker tells the run that asked: one JSON object a line, whole when it is sent, {"event": NAME, ...}.
//
//   begin    it has the request, and goes to work
//   scope    which scope begins                       {"scope"}
//   timed    a scope's row                            Timed
//   refused  the variant does not take the problem    {"reason"}
//   result   what holds for the whole session         SessionResult
//   error    the session cannot go on                 {"reason"}
//   end      all was said
//   next     the process is fit for another session, and waits for its request
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json.hpp"

namespace ladder {

/// Sends one event.
using Report = std::function<void(const nlohmann::json&)>;

/// A scope's times. Milliseconds throughout.
struct Timed {
  std::string scope;
  std::string status = "refused";  ///< ok, refused, unstable or invalid
  std::string reason;              ///< why not ok
  std::vector<double> samples_ms;
  std::optional<double> median_ms;
  std::optional<double> q1_ms, q3_ms;       ///< from five samples on
  std::optional<double> per_iteration_ms;   ///< of scopes with a whole solve: the median of time / iterations
  std::string verdict;                      ///< what ended sampling: settled, steady, time, deadline, asked
  double warm_up_seconds = 0;               ///< spent at this load before the first sample
  std::vector<double> sm_mhz;               ///< one per sample; empty where the device tells no clock
  std::optional<double> settled_mhz;        ///< the clock that the warm-up ended with
  std::optional<double> watts, watt_limit;  ///< drawn in the second before the last sample's end, and allowed
  int retries = 0;                          ///< samples thrown away for a low clock
  std::vector<int> iterations;              ///< of scopes with a whole solve, one per sample
  int64_t labels_differ = 0;                ///< after the last sample: labels that differ from the validated solve's
  std::optional<double> communication_ms;   ///< of several GPUs: in sums over them, the median over the samples
  std::map<std::string, double> parts_ms;   ///< of a cold start: what each part took, the median over the samples
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Timed, scope, status, reason, samples_ms, median_ms, q1_ms, q3_ms, per_iteration_ms,
                                   verdict, warm_up_seconds, sm_mhz, settled_mhz, watts, watt_limit, retries,
                                   iterations, labels_differ, communication_ms, parts_ms)

/// What validation counted and measured.
struct Findings {
  int64_t rows_checked = 0, labels_wrong = 0, ties = 0;
  int64_t last_rows_checked = 0;  ///< in the labels that a solve hands out; 0: there was none
  int64_t labels_differ = 0;      ///< that are not the fp64 minimum's, right or wrong
  int steps_checked = 0;
  double worst_regret = 0, centroid_error = 0, inertia = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Findings, rows_checked, labels_wrong, ties, last_rows_checked, labels_differ,
                                   steps_checked, worst_regret, centroid_error, inertia)

/// What validation found.
struct Validation : Findings {
  std::string note;  ///< what a reader of a valid result should know, in words; empty: nothing, and not in the JSON
};
inline void to_json(nlohmann::json& to, const Validation& from) {
  to = static_cast<const Findings&>(from);
  if (!from.note.empty()) to["note"] = from.note;
}
inline void from_json(const nlohmann::json& from, Validation& to) {
  from.get_to(static_cast<Findings&>(to));
  to.note = from.value("note", "");
}

/// What holds for all rows of a session.
struct SessionResult {
  std::string fault;  ///< the first that validation found, in words; empty: none
  Validation validation;
  std::map<std::string, int> axes;
  std::optional<int> iterations;                         ///< of the validated solve
  std::vector<int64_t> reassigned;                       ///< per iteration
  std::vector<double> inertia;                           ///< per iteration
  std::vector<double> iteration_ms;                      ///< per iteration of one solve, each timed by itself
  std::map<std::string, std::vector<int64_t>> counters;  ///< what the variant counted, per iteration
  std::map<std::string, double> cpu_ms;  ///< of host code: what its threads used in a sample of these scopes
  std::optional<int64_t> peak_device_bytes;
  double prepare_ms = 0;
  bool dumped = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SessionResult, fault, validation, axes, iterations, reassigned, inertia,
                                   iteration_ms, counters, cpu_ms, peak_device_bytes, prepare_ms, dumped)

}  // namespace ladder
