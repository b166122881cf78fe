// What there is to say of a rung, from its card, its source text, the committed records and the committed profiles.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace ladder {

/// One object, the same that `ladder explain ID --json` prints:
///   id, chapter, base, idea, flaw, head, expect, source, shows, counter
///               texts; null where the card or the comment has none. head: the whole comment at the begin of the file
///   step        {"lines", "added", "removed", "changed", "parts": [{"file", "lines"}]}; null of a root
///   diff        the lines of a unified diff against the base; empty of a root
///   sizes       what the formulas are evaluated at: {"workload", "type", "N", "K", "D", "B", "axes", "device"}
///   predicted   by counter: {"formula", "value", "workload", "scope", "unit"}, and null values where a formula needs
///               what was not counted
///   order       the names of `predicted` in the order of the card, then the ratios that follow from them
///   counted     by counter: {"value", "workload", "device", "scope", "unit", "kernel"}
///   limits      {"before", "after", "before_by", "after_by", "before_rung", "workload", "device"}: sentences, the
///               unit, and the nearest base that was counted
///   times       [{"device", "workload", "scope", "axes", "median_ms", "low", "high", "sessions"}]; low and high, the
///               95 % interval, are null of fewer than five sessions
///   gains       [{"device", "workload", "scope", "ratio", "low", "high", "sessions", "verdict"}] of the rung over its
///               base, in sessions that took turns; above 1 is faster
///   claims      [{"source", "claim", "over", "stated", "place", "ours", "verdict", "why"}]
///   question, answer
/// Throws Error where there is no such rung.
nlohmann::json explanation_of(const std::string& id);

/// The same for people. The answer is left out unless it is asked for.
std::string explanation_text(const nlohmann::json& explanation, bool with_answer);

}  // namespace ladder
