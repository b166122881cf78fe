// Which variant is fastest on which shape: results/choice.json. `ladder choose --make` writes it from records; `ladder
// choose` and `ladder run --variants auto` take from it what suits a shape, measured or not;
// harness/records/choice.schema.json states every field.
//
// A shape is N, D, K, the element type and the share of coordinates that are not zero. For one that was not measured,
// each variant has an expected time: a plane through the logarithms of its times over those of N, D and K, fitted by
// least squares with weights that fall with the distance from the shape (locally weighted regression: W. S. Cleveland,
// Robust locally weighted regression and smoothing scatterplots, 1979). A distance is counted in octaves (factors of
// two).
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workloads/workloads.hpp"

namespace ladder {

constexpr int choice_version = 1;
constexpr int usual_tries = 3;  ///< rungs that a run tries, where it chooses them

struct ProblemShape {
  std::string type;  ///< f32 or f64
  double n = 0, d = 0, k = 0;
  int filled = 100;  ///< percent of the coordinates that are not zero, rounded up to tens
};

/// The workload's points have been looked at, or count as dense.
ProblemShape shape_of(const Workload& workload);
/// "300,000 x 408, K = 777, f32"
std::string to_text(const ProblemShape& shape);

/// A measured shape: milliseconds per iteration of a solve, by variant.
struct ShapeTimes {
  std::string device, machine, workload;
  ProblemShape shape;
  std::map<std::string, double> ms;
};

/// Those in the rows of a record, with today's ids: variants that ran the whole solve and were found right.
std::vector<ShapeTimes> times_in(const nlohmann::json& record);

/// The table in a file. Throws Error where there is none, or where it is something else.
std::vector<ShapeTimes> read_choice(const std::filesystem::path& file);
void write_choice(const std::filesystem::path& file, std::vector<ShapeTimes> table);

struct Candidate {
  std::string variant;
  double ms;  ///< expected, of an iteration of a solve
};

struct Choice {
  std::vector<Candidate> ranking;  ///< the best first; empty where the table has nothing for the device
  ShapeTimes nearest;              ///< the measured shape that counts most
  bool other_machine = false;      ///< the table has this device's times of another machine only
};

/// The ranking of the variants that `may_run` lets through. One that has no time on the shapes that make up nine
/// tenths of the weight, as it refuses them, is left out.
Choice choose_variant(const std::vector<ShapeTimes>& table, const std::string& device, const std::string& machine,
                      const ProblemShape& shape, const std::function<bool(const std::string&)>& may_run);

/// Why the choice is what it is, in a sentence.
std::string reason(const Choice& choice, const ProblemShape& shape);

}  // namespace ladder
