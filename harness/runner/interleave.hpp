// Variants against each other: their sessions in turns, so that what the machine does meanwhile happens to all alike.
#pragma once
#include <vector>

#include "runner/session.hpp"

namespace ladder {

/// Which of `variants` runs when: 0 1 1 0 0 1 1 0 ... for two; there and back again for more. Each comes `sessions`
/// times.
std::vector<int> interleaved_order(int variants, int sessions);

/// Runs `sessions` sessions of each variant on every workload and on those of `kinds` that all are for; the first is
/// the base, and each other is compared with it. The record in options.out has a row for each scope of each session,
/// with its place in the order as `session`, and "comparisons". Returns the exit status: 0 where all sessions ended
/// well or were refused, 1 else, 130 after Ctrl-C. Throws Error where no device is for all of them.
int run_interleaved(const RunOptions& options, const std::vector<DeviceKind>& kinds,
                    const std::vector<Variant>& variants, std::vector<Workload> workloads, int sessions, double margin);

}  // namespace ladder
