#include "lessons/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "lessons/card_text.hpp"
#include "lessons/counted.hpp"
#include "lessons/formula.hpp"
#include "lessons/gpus.hpp"
#include "lessons/prediction.hpp"
#include "lessons/step.hpp"
#include "lessons/times.hpp"
#include "lessons/words.hpp"
#include "records/metrics.hpp"
#include "workloads/workloads.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* usual_gpu = "h200";  // that predictions are for where nothing was counted

json or_null(const std::string& text) { return text.empty() ? json() : json(text); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return lines;
}

/// The base, its base, and so on.
std::vector<std::string> chain_of(const CardText& card) {
  std::vector<std::string> chain;
  for (std::string id = card.base; !id.empty() && std::find(chain.begin(), chain.end(), id) == chain.end();) {
    chain.push_back(id);
    id = read_card(id).base;
  }
  return chain;
}

void add_step(json& all, const CardText& card) {
  all["step"] = json();
  all["diff"] = json::array();
  if (card.base.empty()) return;
  const Source &variant = read_source(card.id), &base = read_source(card.base);
  const Comparer comparer;
  const Step step = comparer.step(base, variant, new_parts(variant, card.base));
  json parts = json::array();
  for (const auto& [part, text] : step.texts.fresh)
    parts.push_back({{"file", part.lexically_relative(fs::weakly_canonical(source_folder())).string()},
                     {"lines", count_lines(text)}});
  all["step"] = {{"lines", step.lines()},
                 {"added", step.change.added},
                 {"removed", step.change.removed},
                 {"changed", step.change.changed},
                 {"parts", parts}};
  all["diff"] = lines_of(comparer.text(step.texts, card.base, card.id));
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

void add_times(json& all, const CardText& card) {
  all["times"] = json::array();
  all["gains"] = json::array();
  for (const MeasuredTime& time : measured().times) {
    if (time.variant != card.id || (time.scope != card.shows && time.scope != "iteration")) continue;
    all["times"].push_back({{"device", time.device},
                            {"workload", time.workload},
                            {"scope", time.scope},
                            {"axes", time.axes},
                            {"median_ms", time.median_ms},
                            {"low", or_null(time.low)},
                            {"high", or_null(time.high)},
                            {"sessions", time.sessions}});
  }
  for (const MeasuredGain& gain : measured().gains) {
    if (gain.variant != card.id || gain.base != card.base) continue;
    all["gains"].push_back({{"device", gain.device},
                            {"workload", gain.workload},
                            {"scope", gain.scope},
                            {"ratio", gain.ratio},
                            {"low", gain.low},
                            {"high", gain.high},
                            {"sessions", gain.sessions},
                            {"verdict", gain.verdict}});
  }
}

void add_claims(json& all, const CardText& card) {
  all["claims"] = json::array();
  const fs::path file = source_folder() / "results" / "claims.json";
  if (!fs::exists(file)) return;
  const json whole = read_json(file);
  for (const json& claim : whole.at("claims")) {
    if (claim.at("rung") != card.id) continue;
    json entry = claim;
    entry.erase("rung");
    all["claims"].push_back(entry);
  }
}

// ------------------------------------------------------------------------------------------- predicted beside counted

const LessonMetric* lesson_metric(const std::string& name) {
  for (const LessonMetric& metric : lesson_metrics()) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

std::string unit_of(const std::string& name) {
  const LessonMetric* metric = lesson_metric(name);
  return metric ? metric->unit : "";
}

/// What a rung that nothing was counted of is explained by: the sizes of the base's workload, with its own axes.
Counted without_counters(const CardText& card, const std::vector<std::string>& prefer) {
  Counted sizes;
  sizes.axes = card.axes;
  sizes.scope = card.shows == "update" ? "update" : "assign";
  std::vector<std::string> names = prefer;
  for (const std::string& id : chain_of(card)) {
    const std::vector<Counted>& all = counted_of(id);
    if (const Counted* base = lesson_among(all, card.shows)) names.push_back(base->workload);
  }
  for (const std::string& name : lesson_workloads()) names.push_back(name);
  const std::vector<Workload> workloads = load_workloads();
  for (const std::string& name : names) {
    for (const Workload& w : workloads) {
      if (w.name != name) continue;
      sizes.workload = w.name, sizes.type = w.type;
      sizes.n = double(w.n), sizes.k = double(w.k), sizes.d = double(w.d);
      return sizes;
    }
  }
  return sizes;
}

json counted_entry(const Counted& counted, const std::string& name, double value) {
  return {{"value", value},         {"workload", counted.workload}, {"device", counted.device},
          {"scope", counted.scope}, {"unit", unit_of(name)},        {"kernel", counted.kernel}};
}

void add_counters(json& all, const CardText& card) {
  const std::vector<Counted>& counted = counted_of(card.id);
  std::vector<std::string> prefer;
  for (const PredictionText& p : card.predict) {
    if (!p.where.empty()) prefer.push_back(p.where);
  }
  const Counted* lesson = lesson_among(counted, card.shows, prefer);
  const bool told = card.predict.empty() || std::any_of(card.predict.begin(), card.predict.end(), [&](const auto& p) {
                      return lesson && is_for(p, lesson->workload);
                    });
  const Counted shown = lesson && told ? *lesson : without_counters(card, prefer);
  const Gpu* gpu = lesson ? gpu_of_record(lesson->device) : &gpu_named(usual_gpu);
  all["sizes"] = {{"workload", shown.workload},
                  {"type", shown.type},
                  {"N", shown.n},
                  {"K", shown.k},
                  {"D", shown.d},
                  {"B", shown.bytes_per_value()},
                  {"axes", shown.axes},
                  {"scope", shown.scope},
                  {"device", or_null(shown.device)}};
  all["counted"] = json::object();
  if (lesson) {
    for (const auto& [name, value] : with_ratios(*lesson, lesson->metrics))
      all["counted"][name] = counted_entry(*lesson, name, value);
  }
  all["predicted"] = json::object();
  all["order"] = json::array();
  std::map<std::string, double> known;  // of the scope and workload that are shown
  for (size_t i = 0; i < card.predict.size(); ++i) {
    const PredictionText& p = card.predict[i];
    const Counted* at = lesson_among(counted, scope_of(p, card), {p.where.empty() ? shown.workload : p.where});
    const Counted elsewhere = is_for(p, shown.workload) ? shown : without_counters(card, {p.where});
    const Counted& sizes = at && is_for(p, at->workload) ? *at : elsewhere;
    const Predicted predicted = predict(card, i, sizes, gpu);
    // A second prediction of a counter is one on another workload.
    const std::string key = all["predicted"].contains(p.name) ? p.name + " on " + p.where : p.name;
    all["order"].push_back(key);
    all["predicted"][key] = {{"formula", p.formula},
                             {"value", predicted.value ? json(*predicted.value) : json()},
                             {"workload", sizes.workload},
                             {"scope", predicted.scope},
                             {"unit", unit_of(predicted.name)}};
    // Of a rung that is counted as a whole, the kernel that takes longest is that of the assignment.
    const bool same_scope = (predicted.scope == "update") == (shown.scope == "update");
    if (predicted.value && same_scope && sizes.workload == shown.workload) known[predicted.name] = *predicted.value;
    if (&sizes != at) continue;
    if (const auto found = at->metrics.find(predicted.name); found != at->metrics.end())
      all["counted"][key] = counted_entry(*at, predicted.name, found->second);
  }
  for (const auto& [name, value] : with_ratios(shown, known)) {
    if (known.count(name)) continue;
    const auto formula = std::find_if(derived_ratios().begin(), derived_ratios().end(),
                                      [&, which = name](const auto& ratio) { return ratio.first == which; });
    all["order"].push_back(name);
    all["predicted"][name] = {{"formula", formula->second},
                              {"value", value},
                              {"workload", shown.workload},
                              {"scope", shown.scope},
                              {"unit", ""}};
  }
  for (const char* name : {"before", "after", "before_by", "after_by", "before_rung", "workload", "device"})
    all["limits"][name] = json();
  if (!lesson) return;
  const Limit after = limit_of(*lesson);
  json& limits = all["limits"];
  limits["after"] = after.text, limits["after_by"] = after.by;
  limits["workload"] = lesson->workload, limits["device"] = lesson->device;
  for (const std::string& id : chain_of(card)) {
    for (const Counted& base : counted_of(id)) {
      if (base.workload != lesson->workload || base.scope != lesson->scope || base.device != lesson->device) continue;
      const Limit before = limit_of(base);
      limits["before"] = before.text, limits["before_by"] = before.by, limits["before_rung"] = id;
      return;
    }
  }
}

// ------------------------------------------------------------------------------------------------------------- people

std::string number_text(const json& value) {
  if (!value.is_number()) return "?";
  const double number = value;
  if (number != 0 && (std::abs(number) >= 1e6 || std::abs(number) < 1e-3)) return fmt::format("{:.3e}", number);
  return fmt::format("{:.4g}", number);
}

std::string ms_text(double ms) { return fmt::format("{:.4g} ms", ms); }

/// A line for each counter that was predicted, with what was counted beside it.
std::string table_of(const json& e) {
  const json &predicted = e.at("predicted"), &counted = e.at("counted");
  if (predicted.empty()) return "";
  std::string text = fmt::format("  {:<34} {:>12} {:>12} {:>7}   {}\n", "", "predicted", "counted", "ratio", "formula");
  for (const json& key : e.at("order")) {
    const std::string name = words(key);
    const json& p = predicted.at(name);
    const json value = p.at("value"), there = counted.contains(name) ? counted.at(name) : json();
    const bool same_place = there.is_object() && there.at("workload") == p.at("workload");
    const json beside = same_place ? there.at("value") : json();
    std::string ratio;
    if (value.is_number() && beside.is_number() && beside.get<double>() != 0)
      ratio = fmt::format("{:.3f}", value.get<double>() / beside.get<double>());
    const std::string unit = words(p.at("unit"));
    text += fmt::format("  {:<34} {:>12} {:>12} {:>7}   {}{}\n", name + (unit.empty() ? "" : " (" + unit + ")"),
                        number_text(value), number_text(beside), ratio, words(p.at("formula")),
                        p.at("workload") == e.at("sizes").at("workload") ? "" : "   on " + words(p.at("workload")));
  }
  return text;
}

std::string times_text(const json& e) {
  std::string text;
  for (const json& t : e.at("times")) {
    text += fmt::format("  {} on {}, {}: {}", words(t.at("device")), words(t.at("workload")), words(t.at("scope")),
                        ms_text(t.at("median_ms")));
    text += t.at("low").is_number() ? fmt::format(" (95 %: {:.4g} to {:.4g}; {} sessions)\n", t.at("low").get<double>(),
                                                  t.at("high").get<double>(), t.at("sessions").get<int>())
                                    : std::string(" (one session: no interval)\n");
  }
  for (const json& g : e.at("gains"))
    text += fmt::format("  over {} on {}, {}: {:.3g} times as fast (95 %: {:.3g} to {:.3g}): {} on an {}\n",
                        words(e.at("base")), words(g.at("workload")), words(g.at("scope")), g.at("ratio").get<double>(),
                        g.at("low").get<double>(), g.at("high").get<double>(), words(g.at("verdict")),
                        words(g.at("device")));
  return text;
}

}  // namespace

json explanation_of(const std::string& id) {
  const CardText card = read_card(id);
  json all = {{"id", card.id},
              {"chapter", card.chapter()},
              {"base", or_null(card.base)},
              {"idea", or_null(card.idea)},
              {"flaw", or_null(flaw_of(card, chain_of(card)))},
              {"head", or_null(card.head)},
              {"expect", or_null(card.expect)},
              {"source", or_null(card.source)},
              {"shows", or_null(card.shows)},
              {"counter", or_null(card.counter)},
              {"question", or_null(card.ask)},
              {"answer", or_null(card.answer)}};
  add_step(all, card);
  add_counters(all, card);
  add_times(all, card);
  add_claims(all, card);
  return all;
}

std::string explanation_text(const json& e, bool with_answer) {
  std::string text = fmt::format("{} ({})\n", words(e.at("id")), words(e.at("chapter")));
  const auto part = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) text += fmt::format("\n{}\n{}{}", title, body, body.back() == '\n' ? "" : "\n");
  };
  const auto line = [&](const json& value) { return value.is_string() ? "  " + words(value) : std::string(); };
  part("The idea", line(e.at("idea")));
  part(e.at("base").is_string() ? "The flaw of its base, " + words(e.at("base")) : "", line(e.at("flaw")));
  part("Expected before it was measured", line(e.at("expect")));
  std::string diff;
  for (const json& changed : e.at("diff")) diff += words(changed) + "\n";
  if (e.at("step").is_object())
    part(fmt::format("The step: {} lines", e.at("step").at("lines").get<int>()),
         diff.empty() ? "  no line differs" : diff);
  const json& sizes = e.at("sizes");
  const std::string where =
      fmt::format("{} (N = {}, K = {}, D = {}, {})", words(sizes.at("workload")), sizes.at("N").get<double>(),
                  sizes.at("K").get<double>(), sizes.at("D").get<double>(), words(sizes.at("type")));
  part(fmt::format("Predicted and counted: {}{}", where,
                   sizes.at("device").is_string() ? ", " + words(sizes.at("device")) : ", nothing counted yet"),
       table_of(e));
  const json& limits = e.at("limits");
  part("What limits it",
       (limits.at("before").is_string()
            ? fmt::format("  before ({}): {}\n", words(limits.at("before_rung")), words(limits.at("before")))
            : "") +
           (limits.at("after").is_string() ? "  now: " + words(limits.at("after")) + "\n" : ""));
  part("Time", times_text(e));
  std::string claims;
  for (const json& c : e.at("claims"))
    claims +=
        fmt::format("  source {}: {}, {}: {}{}\n", words(c.at("source")), words(c.at("claim")), words(c.at("stated")),
                    words(c.at("verdict")), words(c.at("why")).empty() ? "" : ". " + words(c.at("why")));
  part("What its source claimed", claims);
  part("Question", line(e.at("question")));
  if (with_answer)
    part("Answer", line(e.at("answer")));
  else if (e.at("answer").is_string())
    text += "  (--answer shows the answer)\n";
  return text;
}

}  // namespace ladder
