// What the devices of a run can do at most: measured once by their workers, and kept.
#pragma once
#include <nlohmann/json.hpp>

#include "contract/problem.hpp"
#include "protocol/ceilings.hpp"

namespace ladder {

/// The ceilings of a device: from the folder that keeps them, by the device's name, its driver and its worker's hash;
/// else, or where they are to be measured `anew`, from the worker, which takes some seconds. All absent where the
/// worker cannot measure them. `device` is the context's description of a GPU, null of a CPU.
Ceilings ceilings_of(DeviceKind kind, int ordinal, const nlohmann::json& device, bool anew);

}  // namespace ladder
