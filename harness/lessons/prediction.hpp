// The predictions of a rung's lesson (harness/contract/lesson.hpp), evaluated for a problem on a GPU.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lessons/card_text.hpp"
#include "lessons/counted.hpp"
#include "lessons/formula.hpp"
#include "lessons/gpus.hpp"

namespace ladder {

struct Predicted {
  std::string name;   ///< of the counter, without a scope
  std::string scope;  ///< in which it is counted
  std::string formula, where;
  std::optional<double> value;
  std::string unknown;  ///< why there is no value, in a sentence
};

/// What a formula may name: sizes, axes, `registers` (as counted), `multiprocessors`, `reserved` (bytes of shared
/// memory that the driver takes of each block), occupancy(threads, registers, bytes), and from_dram(bytes, times): what
/// DRAM delivers where `bytes` are read so many times over, once where they fit the L2 cache. Without a GPU none of the
/// last five is known, and without its figure for L2 the last one is not.
FormulaNames names_for(const Counted& sizes, const Gpu* gpu);

/// The `index`-th prediction of a card at these sizes. Its formula may name those before it that are for the same
/// workload.
Predicted predict(const CardText& card, size_t index, const Counted& sizes, const Gpu* gpu);

/// The scope of a prediction: the one that it names, or else that in which the rung shows, where it has a kernel of its
/// own there: assign for a rung that shows in whole runs.
std::string scope_of(const PredictionText& prediction, const CardText& card);

/// Is it for this workload?
bool is_for(const PredictionText& prediction, const std::string& workload);

}  // namespace ladder
