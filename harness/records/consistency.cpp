#include "records/consistency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

namespace ladder {
using nlohmann::json;

namespace {

constexpr double times_iterations = 3, per_iteration_ms = 0.1;
constexpr double times_parts = 2, more_ms = 1;

/// The row of a scope, where it has a time; else nullptr.
const json* timed(const std::vector<json>& rows, const std::string& scope) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const json& row) {
    return row.at("scope") == scope && row.at("status") == "ok" && row.at("median_ms").is_number();
  });
  return found == rows.end() ? nullptr : &*found;
}

double ms(const json* row) { return row->at("median_ms"); }

void mark(std::vector<json>& rows, std::initializer_list<const char*> scopes, const std::string& reason) {
  for (json& row : rows) {
    const auto is = [&](const char* scope) { return row.at("scope") == scope; };
    if (row.at("status") != "ok" || std::none_of(scopes.begin(), scopes.end(), is)) continue;
    row["status"] = "unstable";
    row["reason"] = reason;
  }
}

}  // namespace

void mark_contradictions(std::vector<json>& rows) {
  const json *iteration = timed(rows, "iteration"), *solve = timed(rows, "solve");
  const json *upload = timed(rows, "upload"), *download = timed(rows, "download");
  const json* whole = timed(rows, "end_to_end");
  if (whole && upload && solve && download &&
      ms(whole) > times_parts * (ms(upload) + ms(solve) + ms(download)) + more_ms) {
    mark(rows, {"upload", "solve", "download"},
         fmt::format(
             "a whole run takes {:.4g} ms, its upload {:.4g}, solve {:.4g} and download {:.4g}: some of its work "
             "is in none of these",
             ms(whole), ms(upload), ms(solve), ms(download)));
  }
  if (!iteration || !solve) return;
  const auto counts = solve->at("solve_iterations").get<std::vector<int>>();
  const int count = counts.empty() ? 0 : *std::min_element(counts.begin(), counts.end());
  if (count > 0 && ms(solve) > count * (times_iterations * ms(iteration) + per_iteration_ms)) {
    mark(rows, {"assign", "update", "iteration"},
         fmt::format("a solve of {} iterations takes {:.4g} ms, one iteration {:.4g}: some of its work is not timed",
                     count, ms(solve), ms(iteration)));
  }
}

}  // namespace ladder
