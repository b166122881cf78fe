// A row of the record: made of what the run knows beforehand, of what the session said, and of what follows from both.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/events.hpp"
#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

/// Sessions of several variants that took turns.
struct Interleaving {
  std::vector<std::string> variants;  ///< their ids, the base first
  uint32_t seed = 0;                  ///< of the order within each round
};
void to_json(nlohmann::json& j, const Interleaving& turns);

/// How a row is measured, beside variant, workload and scope.
struct Setting {
  DeviceKind device = DeviceKind::cpu;
  int gpus = 1;   ///< of each rank
  int ranks = 1;  ///< processes
  std::map<std::string, int> axes;
  bool cold = false;                       ///< L2 evicted before each sample
  double sustained_seconds = 0;            ///< of load right before each batch of samples
  std::optional<int> session = {};         ///< its place among several sessions of the same, where there are several
  std::optional<Interleaving> turns = {};  ///< those that the session was part of
  bool tuned = false;  ///< the axes are those that `ladder tune` found for such a problem on this device
};

/// Identifies a measurement; two rows with equal keys measure the same thing. Made of the variant and its module's
/// hash, the workload and everything that defines the problem, the scope and the setting.
std::string row_key(const Variant& variant, const Workload& workload, const std::string& scope, const Setting& setting);

/// The axes a variant runs with: those its card declares, at `wished` where that has a value, else at their standards.
std::map<std::string, int> axes_of(const Variant& variant, const std::map<std::string, int>& wished);

/// A row without results: status `failed`, no reason yet.
nlohmann::json new_row(const Variant& variant, const Workload& workload, const std::string& scope,
                       const Setting& setting);
/// Puts a scope's times into its row.
void put(nlohmann::json& row, const Timed& timed);
/// Puts into a row what holds for its session.
void put(nlohmann::json& row, const SessionResult& result);
/// The row has no times, for this reason.
void without_times(nlohmann::json& row, const std::string& status, const std::string& reason);

/// What to say beside times of the CPU device.
inline constexpr const char* of_no_gpu =
    "simt: a GPU's source on the CPU; that it is right counts, its time says nothing of a GPU";

/// Rows of one session, timed or not, whose times cannot be true beside the others' (protocol/parts.hpp) become
/// `unstable`, with the reason. On a GPU, which runs nothing else, the medians count. On a CPU whose cores other
/// programs use, times of honest variants contradict each other by 30 times the margins: there, and on simt, cpu_ms
/// counts, and rows without it are not marked.
void mark_contradictions(std::vector<nlohmann::json>& rows);

}  // namespace ladder
