#include "runner/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "records/comparison.hpp"
#include "records/record.hpp"
#include "records/row.hpp"
#include "records/tuned.hpp"
#include "runner/interleave.hpp"

namespace ladder {
using nlohmann::json;

namespace {

using Point = std::map<std::string, int>;

size_t points_of(const std::vector<SweptAxis>& axes) {
  size_t points = 1;
  for (const SweptAxis& axis : axes) points *= axis.values.size();
  return points;
}

std::string text_of(const Point& point) {
  std::string text;
  for (const auto& [name, value] : point) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

bool timed(const json* row) { return row && row->at("status") == "ok" && row->at("median_ms").is_number(); }
double ms_of(const json* row) { return row->at("median_ms"); }

/// How the best point was told from the standard one.
struct Decision {
  Point best;
  const json* row = nullptr;             ///< of the best; null: no point has a time
  std::optional<Comparison> comparison;  ///< of the fastest against the standard point
  std::string by;                        ///< as in the schema
  std::string reason;                    ///< in words
};

/// The sweep of one subject, followed through the rows that there are. Everything here follows from them.
class Walk {
 public:
  Walk(const Subject& subject, Setting standard, const std::string& scope, const RunOptions& o, const TuneOptions& t)
      : subject_(subject), setting_(std::move(standard)), scope_(scope), t_(t) {
    axes_ = swept_axes(subject.variant, o.axes);
    for (const json& row : subject.record.at("rows")) {
      if (row.at("variant") == subject.variant.id) rows_[row.at("key")] = &row;
    }
    for (const SweptAxis& axis : axes_) standard_[axis.name] = axis.values.front();
    descends_ = points_of(axes_) > t.grid;
    if (descends_)
      descend();
    else
      take_grid();
    if (likely_ == 0 && all_there()) decide();
  }

  Steps steps() const { return {.known = steps_, .likely = likely_, .remarks = {}}; }
  const Decision& decision() const { return decision_; }
  const std::vector<SweptAxis>& axes() const { return axes_; }
  const Point& standard() const { return standard_; }
  const json* standard_row() const { return row_at(standard_); }
  bool descends() const { return descends_; }
  size_t points() const { return points_.size(); }
  size_t gaps() const {
    return size_t(std::count_if(points_.begin(), points_.end(), [&](const Point& p) { return !timed(row_at(p)); }));
  }

 private:
  const json* row_at(const Point& point, std::optional<int> session = {}) const {
    Setting setting = setting_;
    setting.axes = point;
    setting.session = session;
    const auto found = rows_.find(row_key(subject_.variant, subject_.workload, scope_, setting));
    return found == rows_.end() ? nullptr : found->second;
  }
  bool all_there() const {
    return std::all_of(points_.begin(), points_.end(), [&](const Point& point) { return row_at(point); });
  }
  void add(const Point& point) {
    if (!known_.insert(point).second) return;
    points_.push_back(point);
    Setting setting = setting_;
    setting.axes = point;
    steps_.push_back(setting);
  }
  void add_session(const Point& point, int session) {
    Setting setting = setting_;
    setting.axes = point;
    setting.session = session;
    steps_.push_back(setting);
  }

  void take_grid() {
    std::vector<Point> grid = {{}};
    for (const SweptAxis& axis : axes_) {
      std::vector<Point> longer;
      for (const Point& point : grid) {
        for (const int value : axis.values) {
          longer.push_back(point);
          longer.back()[axis.name] = value;
        }
      }
      grid = std::move(longer);
    }
    for (const Point& point : grid) add(point);
  }

  void descend() {
    Point at = standard_;
    add(at);
    // An axis that was swept since another one moved is at its best. Three rounds, and it is enough.
    size_t at_their_best = 0;
    for (size_t turn = 0; at_their_best < axes_.size() && turn < 3 * axes_.size(); ++turn) {
      const SweptAxis& axis = axes_[turn % axes_.size()];
      std::vector<Point> line;
      for (const int value : axis.values) {
        line.push_back(at);
        line.back()[axis.name] = value;
        add(line.back());
      }
      if (!std::all_of(line.begin(), line.end(), [&](const Point& point) { return row_at(point); })) {
        for (size_t later = turn + 1; later < axes_.size(); ++later) likely_ += axes_[later].values.size() - 1;
        return;
      }
      const Point next = better(line, at);
      at_their_best = next == at ? at_their_best + 1 : 1;
      at = next;
    }
  }

  /// The fastest of a line of points; where it gains too little to tell, the one where the sweep stands.
  Point better(const std::vector<Point>& line, const Point& at) const {
    const json *fastest = nullptr, *here = row_at(at);
    Point best = at;
    for (const Point& point : line) {
      const json* row = row_at(point);
      if (timed(row) && (!fastest || ms_of(row) < ms_of(fastest))) fastest = row, best = point;
    }
    if (!fastest || !timed(here)) return best;
    const json &top = fastest->at("q3_ms"), &bottom = here->at("q1_ms");
    const bool apart = top.is_null() || bottom.is_null() || top.get<double>() < bottom.get<double>();
    return apart && ms_of(fastest) < (1 - t_.margin) * ms_of(here) ? best : at;
  }

  void decide() {
    if (subject_.device == DeviceKind::simt) return;  // its times say nothing of a GPU
    for (const Point& point : points_) {
      const json* row = row_at(point);
      if (timed(row) && (!decision_.row || ms_of(row) < ms_of(decision_.row)))
        decision_.row = row, decision_.best = point;
    }
    const json* const standard = row_at(standard_);
    if (!decision_.row) {
      decision_.by = "nothing";
      decision_.reason = fmt::format("no point has a time: {}", standard->at("reason").get<std::string>());
    } else if (decision_.row == standard) {
      decision_.by = "median";
      decision_.reason = "no point is faster than the standard one";
    } else if (!timed(standard)) {
      decision_.by = "alone";
      decision_.reason = fmt::format("the standard values have no time: {}", standard->at("reason").get<std::string>());
    } else {
      against(*standard);
    }
  }

  /// Is the fastest point faster than the standard one, or only luckier?
  void against(const json& standard) {
    const std::string fastest = text_of(decision_.best);
    const double ratio = ms_of(decision_.row) / ms_of(&standard);
    decision_.comparison = compare_rows(standard, *decision_.row, t_.margin);
    const auto keep = [&] { decision_.best = standard_, decision_.row = &standard; };
    if (ratio > 1 - t_.margin) {
      decision_.by = "margin";
      decision_.reason = fmt::format("{} gains less than {:g} %", fastest, 100 * t_.margin);
      return keep();
    }
    if (decision_.comparison->verdict == Comparison::Verdict::faster) {
      decision_.by = "apart";
      decision_.reason = "beyond what sessions of the same code scatter";
      return;
    }
    std::vector<SessionMedian> sessions;
    bool open = false;
    const std::vector<int> order = interleaved_order(2, t_.sessions, 0);
    for (size_t position = 0; position < order.size(); ++position) {
      const bool candidate = order[position] == 1;
      const Point& point = candidate ? decision_.best : standard_;
      add_session(point, int(position));
      const json* row = row_at(point, int(position));
      open = open || !row;
      if (timed(row)) sessions.push_back({int(position), candidate, ms_of(row)});
    }
    if (open) return;
    decision_.by = "interleaved";
    try {
      decision_.comparison = compare_interleaved(sessions, t_.margin);
    } catch (const Error& error) {
      decision_.comparison.reset();
      decision_.reason = fmt::format("{} is faster by its median, but {}", fastest, error.what());
      return keep();
    }
    if (decision_.comparison->verdict == Comparison::Verdict::faster) {
      decision_.reason = fmt::format("{} sessions of each in turns", t_.sessions);
      return;
    }
    decision_.reason = fmt::format("{} sessions of each in turns do not tell {} from it", t_.sessions, fastest);
    keep();
  }

  const Subject& subject_;
  const Setting setting_;
  const std::string scope_;
  const TuneOptions& t_;
  std::vector<SweptAxis> axes_;
  std::map<std::string, const json*> rows_;  // of the variant, by their keys
  Point standard_;
  bool descends_ = false;
  std::vector<Point> points_;  // in the order in which they are measured
  std::set<Point> known_;
  std::vector<Setting> steps_;
  size_t likely_ = 0;
  Decision decision_;
};

json outcome(const Walk& walk, const Subject& subject, int gpus, const std::string& scope) {
  const Decision& found = walk.decision();
  const std::optional<Comparison>& c = found.comparison;
  const json* const standard = walk.standard_row();
  Point held;
  for (const SweptAxis& axis : walk.axes()) {
    if (axis.held) held[axis.name] = axis.values.front();
  }
  return {{"variant", subject.variant.id},
          {"workload", subject.workload.name},
          {"device", to_string(subject.device)},
          {"gpus", gpus},
          {"scope", scope},
          {"axes", subject.variant.card.at("axes")},
          {"held", held},
          {"method", walk.descends() ? "descent" : "grid"},
          {"points", walk.points()},
          {"gaps", walk.gaps()},
          {"standard", walk.standard()},
          {"standard_ms", timed(standard) ? json(ms_of(standard)) : json()},
          {"best", found.row ? json(found.best) : json()},
          {"best_ms", found.row ? json(ms_of(found.row)) : json()},
          {"decided_by", found.by},
          {"reason", found.reason},
          {"ratio", c ? json(c->ratio) : json()},
          {"low", c ? json(c->low) : json()},
          {"high", c ? json(c->high) : json()}};
}

}  // namespace

std::vector<SweptAxis> swept_axes(const Variant& v, const std::map<std::string, int>& held) {
  std::vector<SweptAxis> axes;
  for (const json& axis : v.card.value("axes", json::array())) {
    const std::string name = axis.at("name");
    if (const auto at = held.find(name); at != held.end()) {
      axes.push_back({name, {at->second}, true});
      continue;
    }
    const int standard = axis.at("standard");
    auto values = axis.at("values").get<std::vector<int>>();
    std::erase(values, standard);
    values.insert(values.begin(), standard);
    axes.push_back({name, values});
  }
  return axes;
}

size_t Tune::guess(const Variant& v) const {
  const std::vector<SweptAxis> axes = swept_axes(v, o_.axes);
  if (points_of(axes) <= t_.grid) return points_of(axes);
  size_t points = 1;
  for (const SweptAxis& axis : axes) points += axis.values.size() - 1;
  return points;
}

std::vector<std::string> Tune::scopes(const Variant& v) const {
  if (!o_.scopes.empty()) return {o_.scopes.front()};
  const std::string shows = v.card.value("shows", "");
  return {shows.empty() ? "iteration" : shows};
}

Steps Tune::steps(const Subject& subject) const {
  const std::string scope = scopes(subject.variant).front();
  return Walk(subject, setting_of(subject.variant, subject.device, o_), scope, o_, t_).steps();
}

std::string Tune::words(const Setting& setting) const {
  return " " + text_of(setting.axes) + (setting.session ? " (in turns)" : "");
}

std::vector<std::string> Tune::finish(const Subject& subject, json& record) const {
  const Variant& v = subject.variant;
  const Setting setting = setting_of(v, subject.device, o_);
  const std::string scope = scopes(v).front();
  const Walk walk(subject, setting, scope, o_, t_);
  const Decision& found = walk.decision();
  if (subject.device == DeviceKind::simt) {
    return {fmt::format("{} on {} (simt, {}): the curve is in the record, and no value is kept as the best. {}", v.id,
                        subject.workload.name, scope, of_no_gpu)};
  }
  const json tuning = outcome(walk, subject, setting.gpus, scope);
  const json context = record.at("context");
  std::vector<std::string> said;
  const std::string on =
      fmt::format("{} on {} ({}, {})", v.id, subject.workload.name, to_string(subject.device), scope);
  if (!found.row) {
    said.push_back(fmt::format("{}: {}", on, found.reason));
  } else {
    const std::string what = found.best == walk.standard() ? " (standard)" : "";
    const std::string gain = found.best != walk.standard() && timed(walk.standard_row())
                                 ? fmt::format(", {:.3g}x of the standard {}",
                                               ms_of(found.row) / ms_of(walk.standard_row()), text_of(walk.standard()))
                                 : "";
    said.push_back(fmt::format("{}: best {}{}, {:.4g} ms{}: {}; {} of {} points have a time", on, text_of(found.best),
                               what, ms_of(found.row), gain, found.reason, walk.points() - walk.gaps(), walk.points()));
  }
  if (found.row && !t_.tuned.empty()) {
    json entry = tuned_place(v, subject.workload, subject.device, setting.gpus, context);
    for (const char* key : {"workload", "scope", "method", "points", "standard", "standard_ms", "decided_by", "ratio"})
      entry[key] = tuning.at(key);
    entry["axes"] = found.best;
    entry["median_ms"] = tuning.at("best_ms");
    entry["module_hash"] = found.row->at("module_hash");
    for (const char* key : {"time", "git_sha"}) entry[key] = context.at(key);
    put_tuned(t_.tuned, std::move(entry));
  }
  put_tuning(record, tuning);  // rows stay where they are: found.row is none of its
  return said;
}

}  // namespace ladder
