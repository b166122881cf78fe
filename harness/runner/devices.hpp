// The devices of this machine, and the workers that know them.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// The program that runs sessions on devices of this kind.
std::filesystem::path worker(DeviceKind kind);

/// What a command of the shell prints; nothing where it fails.
std::string output_of(const std::string& command);

/// Runs a command of the shell, and says how long it took; throws Error with what it wrote to `log` where it fails.
void run_tool(const std::string& command, const std::string& what, const std::filesystem::path& log);

/// The devices of this machine: {"kind", "ordinal", "name", ...}; cpu and simt always, cuda where a GPU works.
nlohmann::json find_devices();

/// One line that says why no GPU can be used here.
std::string why_no_gpu();

/// The GPU with this number among `devices`, as the record's context has it; null where there is no GPU at all. Throws
/// Error where there are GPUs, but not this one.
nlohmann::json choose_gpu(const nlohmann::json& devices, int ordinal);

/// The kinds that --device NAME means: auto, all, cuda, simt or cpu; `gpu`: one works here.
std::vector<DeviceKind> device_kinds(const std::string& name, bool gpu);

}  // namespace ladder
