#include "lessons/prediction.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/error.hpp"

namespace ladder {

FormulaNames names_for(const Counted& sizes, const Gpu* gpu) {
  FormulaNames names{sizes_of(sizes)};
  if (const auto registers = sizes.metrics.find("registers"); registers != sizes.metrics.end())
    names.values.insert(*registers);
  if (!gpu) return names;
  const Multiprocessor sm = gpu->multiprocessor;
  names.values["reserved"] = sm.reserved_bytes;
  if (const auto count = gpu->figure("multiprocessors")) names.values["multiprocessors"] = *count;
  names.functions["occupancy"] = [sm](const std::vector<double>& of) {
    if (of.size() != 3) throw Error("occupancy(threads, registers, bytes of shared memory) takes three values");
    return occupancy_of(sm, int(of[0]), int(of[1]), of[2]).percent;
  };
  names.functions["from_dram"] = [l2 = gpu->figure("l2_bytes"), title = gpu->title](const std::vector<double>& of) {
    if (of.size() != 2) throw Error("from_dram(bytes, times) takes two values");
    if (!l2) throw Error(fmt::format("no document that we know states the L2 cache of {}", title));
    return of[0] <= *l2 ? of[0] : of[0] * of[1];
  };
  return names;
}

std::string scope_of(const PredictionText& prediction, const CardText& card) {
  const size_t dot = prediction.name.find('.');
  if (dot != std::string::npos) return prediction.name.substr(0, dot);
  return card.shows == "update" ? "update" : "assign";
}

bool is_for(const PredictionText& prediction, const std::string& workload) {
  if (prediction.where.empty()) return true;
  for (size_t from = 0; from <= prediction.where.size();) {
    const size_t to = std::min(prediction.where.find(',', from), prediction.where.size());
    if (fnmatch(prediction.where.substr(from, to - from).c_str(), workload.c_str(), 0) == 0) return true;
    from = to + 1;
  }
  return false;
}

Predicted predict(const CardText& card, size_t index, const Counted& sizes, const Gpu* gpu) {
  FormulaNames names = names_for(sizes, gpu);
  Predicted predicted;
  for (size_t i = 0; i <= index; ++i) {
    const PredictionText& p = card.predict[i];
    if (i < index && !is_for(p, sizes.workload)) continue;
    const std::string name = p.name.substr(p.name.find('.') + 1);  // all of it where there is no dot
    predicted = {.name = name,
                 .scope = scope_of(p, card),
                 .formula = p.formula,
                 .where = p.where,
                 .value = std::nullopt,
                 .unknown = ""};
    try {
      predicted.value = evaluate(p.formula, names);
      names.values.emplace(name, *predicted.value);
    } catch (const Error& error) {
      const std::vector<std::string> needed = values_in(p.formula);
      const bool of_compiler = std::find(needed.begin(), needed.end(), "registers") != needed.end();
      predicted.unknown = of_compiler && !names.values.count("registers")
                              ? "the registers of its kernel were not counted for this type and these axes"
                              : error.what();
    }
  }
  return predicted;
}

}  // namespace ladder
