// What is read off a profile: each lesson's counter under a name of ours, and where Nsight Compute (ncu) keeps it. The
// one table of metrics; nothing else here or in plots/ spells a name of ncu's.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

struct LessonMetric {
  std::string name;     ///< in profile.json
  std::string unit;     ///< empty: a plain number
  std::string group;    ///< the line of a table it belongs to
  std::string label;    ///< in that line
  std::string meaning;  ///< what it teaches, in a line
  /// How ncu gives it, the first whose names are all there: sums and differences of ncu's names, and their ratio;
  /// "a + b / c" is (a + b) / c.
  std::vector<std::string> from;
  double scale = 1;  ///< from ncu's base unit (nanoseconds, bytes) to ours
};

/// In the order of tables.
const std::vector<LessonMetric>& lesson_metrics();

/// Of the resources that limit how many blocks a multiprocessor holds: in our words, and ncu's metric, in blocks.
const std::vector<std::pair<std::string, std::string>>& occupancy_limits();

/// What begins and ends the names of ncu's metrics of why warps wait, with the reason between.
extern const std::string stall_begin, stall_end;

/// The names of ncu's in one of `from`.
std::vector<std::string> names_in(const std::string& expression);

/// Its value, of what ncu gave; nothing where a name is absent, or where it divides by zero.
std::optional<double> value_of(const std::string& expression, const std::map<std::string, double>& given);

/// Is it for `ncu --query-metrics` to list this name? Those of a launch, and those that sections derive, it does not.
bool is_queried(const std::string& name);

/// What to ask ncu for, beside its sections: of each metric the first way whose names `known` has (names without what
/// follows the dot, as --query-metrics prints them).
std::vector<std::string> to_ask_for(const std::vector<std::string>& known);

/// Those metrics of ours that none of their ways gives on an ncu that knows only these.
std::vector<std::string> unknown_metrics(const std::vector<std::string>& known);

}  // namespace ladder
