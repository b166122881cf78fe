// What follows from the times of one session's scopes: a solve consists of iterations, and a whole run of an upload, a
// solve and a download. Where the whole takes several times as long as its parts, the parts were not timed with all
// their work: it was done before the clock started, by another thread, or at a later call.
//
// The margins lie above all that honest variants show in the committed records of a GPU: iterations in a solve take up
// to 2.4 times a first iteration timed by itself (a launch and a look at the stop rule between two), a whole run 1.6
// times its parts (restart, and other speeds of ordinary memory). Of host code the CPU time counts, in which there are
// no such gaps.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

namespace ladder {

/// Scopes whose times cannot be true beside the others', and why.
struct Contradiction {
  std::vector<std::string> scopes;
  std::string reason;
};

/// Why a variant has no such part, which then takes no time.
inline constexpr const char* no_upload = "the points are read where they lie: there is no upload";
inline constexpr const char* one_piece = "the whole solve is one piece here: see solve";

/// `ms`: what the scopes took, by name, `on_host` of the CPU; `iterations`: of the solve, 0 where they are not known.
inline std::vector<Contradiction> contradictions_of(const std::map<std::string, double>& ms, int iterations,
                                                    bool on_host) {
  const double times_iterations = on_host ? 1.5 : 3, times_parts = on_host ? 1.5 : 2, more_ms = on_host ? 0.5 : 1;
  constexpr double per_iteration_ms = 0.1;
  const auto has = [&](const char* scope) { return ms.count(scope) > 0; };
  std::vector<Contradiction> found;
  if (has("end_to_end") && has("upload") && has("solve") && has("download")) {
    const double whole = ms.at("end_to_end"), upload = ms.at("upload"), solve = ms.at("solve"),
                 download = ms.at("download");
    if (whole > times_parts * (upload + solve + download) + more_ms) {
      found.push_back({{"upload", "solve", "download"},
                       fmt::format("a whole run takes {:.4g} ms, its upload {:.4g}, solve {:.4g} and download {:.4g}: "
                                   "some of its work is in none of these",
                                   whole, upload, solve, download)});
    }
  }
  if (has("end_to_end") && has("solve") && ms.at("solve") > times_parts * ms.at("end_to_end") + more_ms) {
    found.push_back({{"end_to_end"},
                     fmt::format("a whole run takes {:.4g} ms, the solve in it {:.4g}: what is timed is not the work",
                                 ms.at("end_to_end"), ms.at("solve"))});
  }
  if (has("iteration") && has("solve") && iterations > 0) {
    const double solve = ms.at("solve"), iteration = ms.at("iteration");
    if (solve > iterations * (times_iterations * iteration + per_iteration_ms)) {
      found.push_back({{"assign", "update", "iteration"},
                       fmt::format("a solve of {} iterations takes {:.4g} ms, one iteration {:.4g}: some of its work "
                                   "is not timed",
                                   iterations, solve, iteration)});
    }
  }
  return found;
}

}  // namespace ladder
