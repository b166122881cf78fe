// One session: one variant on one problem on one device. It validates, times, validates again, and reports as it goes;
// what it does not live to report, the parent fills in.
#pragma once
#include "contract/contract.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "worker/ranks.hpp"

namespace ladder {

/// Runs a session on `device`, and where the run has several processes on those of the other ranks, too: this is rank 0
/// then. What goes wrong is thrown as an Error; false: validation found a fault.
bool run_session(const Request& request, const Device& device, const Report& report, Ranks* ranks = nullptr);

/// The same by a process that never loads the variant: another one runs it, started from `program`, which calls
/// apart::serve. For one process with one device.
bool judge_session(const Request& request, const Device& device, const Report& report, const std::string& program);

/// A cold start of a request whose session left a validated solve in request.validated: reports its row, with one
/// sample and its parts, or why it is refused. `entered`: when this process came to its first statement
/// (now_seconds()); `choose_device` makes the request's device current, with a context. A peer's module is a file that
/// Python runs.
void run_cold_start(const Request& request, double entered, const std::function<Device()>& choose_device,
                    const Report& report);

/// Another rank of such a session: repeats each step of rank 0, until that one has done.
void follow_session(const Request& request, const Device& device, Ranks& ranks);

}  // namespace ladder
