// The file of tuned values: with which values of its axes a variant was fastest, by device and shape of the problem.
// `ladder tune` writes it, `ladder run` reads it; harness/records/tuned.schema.json states every field.
//
// An entry goes by what decides how fast values are and can be said on another machine: the device and its name, the
// variant, N, D, K, type, metric, kernel, and how full the points are. Not by the module: another compiler makes
// another one of the same file, and the committed entries would match no other build. A wrong entry does little harm:
// each row is validated and states its values. An entry is used while its values are a point of the card's present
// axes; otherwise it is left out with a sentence.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

constexpr int tuned_version = 1;

/// How many of `values` coordinates are not zero, in percent, rounded up to tens: what has room for the fullest of them
/// has room for all. Negative nonzeros: not counted, as in dense points.
int filled_percent(int64_t nonzeros, double values);

/// The name of the GPU, or of the processor, by which an entry says where it was measured. `context` is a record's.
std::string machine_of(const nlohmann::json& context, DeviceKind device);

/// What an entry is for: a part of the entry. `context` is a record's; the workload's points have been looked at.
nlohmann::json tuned_place(const Variant& variant, const Workload& workload, DeviceKind device, int gpus,
                           const nlohmann::json& context);

/// The document in a file of tuned values; one without entries where there is no file. Throws Error where it is none.
nlohmann::json read_tuned(const std::filesystem::path& file);

/// The entry for a place; null where there is none.
nlohmann::json tuned_entry(const nlohmann::json& document, const nlohmann::json& place);

/// Why the values of an entry cannot be taken: the card has no such axis, or no such value, any more. Empty where they
/// can.
std::string why_stale(const nlohmann::json& entry, const Variant& variant);

/// Puts an entry into the file, in the place of one for the same. Others that do so meanwhile lose nothing, and readers
/// find the old file or the new one, whole.
void put_tuned(const std::filesystem::path& file, nlohmann::json entry);

}  // namespace ladder
