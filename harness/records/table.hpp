// A record as a table for a terminal.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ladder {

struct TableOptions {
  std::vector<std::string> scopes;  ///< which to show, in this order; empty: those that most records are read for
  enum class Over { base, root, both } over = Over::both;  ///< what a speedup is over
  bool brief = false;  ///< leave out, and count, what has no time, and the CPU device where it is right
  bool grey = false;   ///< times of the CPU device in grey, by a terminal's escapes
};

/// A line per workload, variant, device and setting: for each scope the median time, how many times faster that is than
/// its base and than the root of its tree, and its share of what the device can do; and below it, uncut, why something
/// has no time. A row of the CPU device (simt) says that it is right, and has no speedup: its time is a CPU's, of
/// source written for a GPU. A column that would be empty is left out; so a record without its root shows speedups over
/// bases alone, whatever `over` says.
std::string table(const nlohmann::json& record, const TableOptions& options = {});

}  // namespace ladder
