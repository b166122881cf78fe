// One session: one variant on one problem on one device. It validates, times, validates again, and reports as it goes;
// what it does not live to report, the parent fills in.
#pragma once
#include "contract/contract.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"

namespace ladder {

/// Runs a session on `device`. What goes wrong is thrown as an Error; false: validation found a fault.
bool run_session(const Request& request, const Device& device, const Report& report);

}  // namespace ladder
