// Tuning: which sessions sweep a variant's axes, and which of their points is the best.
//
// All points of the axes where they are few; else one axis after the other, each at the best values of the others so
// far, until none gains any more (coordinate descent). The first point is that of the standard values, and they stay
// unless another point is faster beyond doubt: of many points one is always the fastest, by chance. So the point of the
// smallest median is held against the standard one like two rows of a record (compare_rows); where that leaves it open,
// by sessions of both in turns (compare_interleaved), whose samples had no part in the choice.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "runner/run.hpp"

namespace ladder {

struct TuneOptions {
  size_t grid = 64;                 ///< all points are measured where there are at most so many
  int sessions = fewest_sessions;   ///< of the standard and of the best point, where they are compared in turns
  std::filesystem::path tuned;      ///< the file that the best is put into; empty: none
  double margin = standard_margin;  ///< what gains less is no reason to leave the standard values
};

/// An axis that is swept, or held at one value.
struct SweptAxis {
  std::string name;
  std::vector<int> values;  ///< the standard one first, unless it is held at another
  bool held = false;        ///< by --axis
};

/// The axes of a variant's card.
std::vector<SweptAxis> swept_axes(const Variant& variant, const std::map<std::string, int>& held);

class Tune : public Plan {
 public:
  Tune(const RunOptions& options, TuneOptions tune) : Plan(options), t_(std::move(tune)) {}
  size_t guess(const Variant& variant) const override;
  /// The one scope that decides: of --scope, else the one in which the variant's change shows, else iteration.
  std::vector<std::string> scopes(const Variant& variant) const override;
  Steps steps(const Subject& subject) const override;
  std::string words(const Setting& setting) const override;
  /// The outcome becomes an entry of the record's "tuning" and, unless an axis was held, of the file of tuned values.
  std::vector<std::string> finish(const Subject& subject, nlohmann::json& record) const override;

 private:
  TuneOptions t_;
};

}  // namespace ladder
