// Profiles: what Nsight Compute (ncu) counted of one sample of a scope, by kernel, as results/DEVICE/profile.json keeps
// it (profile.schema.json states every field). Read from ncu's own `--csv --page raw`.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace ladder {

constexpr int profile_version = 1;

/// One launch of a kernel, as ncu's raw page has it.
struct Launch {
  std::string kernel;  ///< short: without its return type, namespaces and parameters
  std::string ranges;  ///< the NVTX ranges that it was launched in, in ncu's words; empty: none known
  std::array<int64_t, 3> grid{}, block{};
  std::map<std::string, double> values;  ///< by ncu's names, in base units (nanoseconds, bytes); without n/a
};

struct RawPage {
  std::set<std::string> columns;  ///< ncu's names, with a value or not
  std::vector<Launch> launches;
};

/// What `ncu --csv --page raw` printed. Lines before the header are ncu's own remarks; without a header there are no
/// launches. Throws Error where a row does not fit the header.
RawPage read_raw_page(const std::string& csv);

/// `void ladder::(anonymous namespace)::assign_kernel<float, 16>(const float *, int)` -> `assign_kernel<float, 16>`.
std::string short_kernel_name(const std::string& demangled);

/// Was it launched in the NVTX range SCOPE of a variant?
bool launched_in(const Launch& launch, const std::string& scope);

/// The kernels of a scope's launches, in the order of their first: {"name", "grid", "block", "launches", "limited_by",
/// "stalls", "metrics"}. Launches of one kernel with one grid and block are one entry, its metrics their means; null
/// where ncu has no number for this kernel (sectors per store of one that stores nothing), absent where it lacks the
/// metric.
nlohmann::json kernels_of(const std::vector<Launch>& launches, const std::set<std::string>& columns);

/// What this ncu lacks of all that a kernel should have: names of our metrics, "stalls" and "limited_by".
std::vector<std::string> lacking(const std::set<std::string>& columns);

/// A profile file; an empty one where it does not exist. Throws Error where it is none.
nlohmann::json read_profile(const std::filesystem::path& file);

/// Puts profiles into the file, in the place of those of the same variant, workload, type and scope. One writer at a
/// time; readers find the old file or the new one.
void merge_into_profile(const std::filesystem::path& file, const std::vector<nlohmann::json>& profiles);

/// A grid or a block for people: [8, 2, 1] is "8 x 2".
std::string size_text(const nlohmann::json& dimensions);

/// Profiles for people: a block for each kernel.
std::string profile_text(const std::vector<nlohmann::json>& profiles);

/// `NVIDIA H200` -> `nvidia-h200`: the folder of results/ for what is measured on this GPU.
std::string device_folder(const std::string& gpu);

}  // namespace ladder
