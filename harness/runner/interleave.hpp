// Variants against each other: their sessions in turns, so that what the machine does meanwhile happens to all alike.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runner/session.hpp"

namespace ladder {

/// Which of `variants` runs when: `sessions` rounds, in each of them every variant once. The order within a round is
/// drawn from the seed, so that nothing that comes and goes with a period meets one variant more than another.
std::vector<int> interleaved_order(int variants, int sessions, uint32_t seed);

/// Variants that are compared with the first of them, their base.
struct Compared {
  std::vector<Variant> variants;
  std::vector<std::string> scopes;  ///< empty: those of each variant, by scopes_of
};

/// For each of `variants` that has a base its pair (base, variant), in the scope in which its change shows, else in
/// `iteration`; `scopes`, where there are any, take their place. `all`: where the bases are found. Pairs that have no
/// device of `kinds` in common are left out, each with a sentence in `left_out`. Throws Error where none remains.
std::vector<Compared> over_their_bases(const std::vector<Variant>& variants, const std::vector<Variant>& all,
                                       const std::vector<DeviceKind>& kinds, const std::vector<std::string>& scopes,
                                       std::vector<std::string>& left_out);

/// Runs `sessions` sessions of each variant of each comparison, one comparison after another, on every workload and on
/// those of `kinds` that all its variants are for. The record in options.out has a row for each scope of each session,
/// with its place in the order as `session` and what it took turns with as `turns`, and "comparisons". `seed`: of the
/// orders, a number more for each. Returns the exit status: 0 where all sessions ended well or were refused, 1 else,
/// 130 after Ctrl-C. Throws Error where no device is for all variants of a comparison.
int run_interleaved(const RunOptions& options, const std::vector<DeviceKind>& kinds,
                    const std::vector<Compared>& comparisons, std::vector<Workload> workloads, int sessions,
                    uint32_t seed, double margin);

}  // namespace ladder
