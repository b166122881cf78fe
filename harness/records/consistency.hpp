// Whether the times of a session's scopes can be true together.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

namespace ladder {

/// A solve consists of iterations, and a whole run of an upload, a solve and a download. Where the whole takes several
/// times as long as its parts, the parts were not timed with all their work: it was done before the clock started, by
/// another thread, or at a later call. The rows of those parts become `unstable`, with the reason. `rows` are of one
/// session, timed or not.
///
/// The margins lie above all that honest variants show in the committed records: iterations in a solve take up to 2.4
/// times a first iteration timed by itself (a launch and a look at the stop rule between two), a whole run 1.6 times
/// its parts (restart, and other speeds of ordinary memory).
void mark_contradictions(std::vector<nlohmann::json>& rows);

}  // namespace ladder
