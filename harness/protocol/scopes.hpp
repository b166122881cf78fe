// What a timing covers: the one table of scopes. The record's schema names the same ones, in this order.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace ladder {

struct Scope {
  std::string_view name;
  std::string_view meaning;
  bool whole;      ///< contains a whole solve
  bool standard;   ///< timed by default
  bool from_host;  ///< timed by the host's clock
  bool fresh;      ///< each sample is a process of its own, which the run starts and the session has no part in
};

inline constexpr std::array<Scope, 9> all_scopes = {{
    {"upload", "points from host memory to the device, in the layout that the variant wants", false, true, true, false},
    {"download", "labels and centroids from the device to host memory", false, true, true, false},
    {"initialise", "centroids to begin with, drawn from the points", false, false, false, false},
    {"assign", "labels of all points for given centroids", false, true, false, false},
    {"update", "centroids for given labels", false, true, false, false},
    {"iteration", "assign and update", false, true, false, false},
    {"solve", "until the stop rule holds, data on the device", true, true, false, false},
    {"end_to_end", "from host memory to host memory: copies and changes of layout count", true, true, true, false},
    {"cold_start",
     "a whole run in a fresh process: module, device context, prepare and solve; points in pageable memory", true,
     false, true, true},
}};

/// Throws Error if there is no scope of this name.
inline const Scope& scope_named(std::string_view name) {
  std::string known;
  for (const Scope& scope : all_scopes) {
    if (scope.name == name) return scope;
    known += (known.empty() ? "" : ", ") + std::string(scope.name);
  }
  throw Error("scope '" + std::string(name) + "' is unknown: " + known);
}

/// The scopes that are timed by default.
inline std::vector<std::string> standard_scopes() {
  std::vector<std::string> names;
  for (const Scope& scope : all_scopes) {
    if (scope.standard) names.emplace_back(scope.name);
  }
  return names;
}

inline std::vector<std::string> scope_names() {
  std::vector<std::string> names;
  for (const Scope& scope : all_scopes) names.emplace_back(scope.name);
  return names;
}

}  // namespace ladder
