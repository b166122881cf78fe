// One session: one variant on one problem on one device, in a process of its own. It validates, times, validates
// again, and reports as it goes; what it does not live to report, the parent fills in.
#pragma once
#include "contract/contract.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"

namespace ladder {

/// Runs a session on `device`. What goes wrong is thrown as an Error.
void run_session(const Request& request, const Device& device, const Report& report);

}  // namespace ladder
