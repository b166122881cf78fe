// One record of several: what ran in pieces, side by side on the GPUs of one machine.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ladder {

struct InputRecord {
  std::filesystem::path file;  ///< where it lies; dumps that it names lie beside it
  nlohmann::json record;
};

/// The pieces as one record, to lie at `out`: rows ordered by workload and variant, a later piece's in the place of an
/// earlier one's of the same measurement, and its comparisons in the place of those of the same pairs; where sources
/// are not committed, of another build of the variant. `argv` is the command line that joins. Throws Error where they
/// do not belong together: another machine, another commit, other problems under one name, or comparisons whose rows do
/// not say what they took turns with. `renews`: the first piece is a record, and the others, of a later commit, renew
/// rows of it: in the place of a row they also come where it was measured alike with another text of the variant. The
/// record is then of the later commit and machine, whose host may have another number of cores where both have a GPU,
/// and each row that is of another commit, or of a host with other cores, names its own. What the device can do at most
/// is the best that any piece of such a host measured.
nlohmann::json joined(const std::vector<InputRecord>& pieces, const std::vector<std::string>& argv,
                      const std::filesystem::path& out, bool renews = false);

/// Keeps `most` samples of a row that has more, spread over the time they were taken in, and what stands beside each of
/// them; the row's `samples_taken` says how many there were. Median and quartiles stay those of all.
void keep_samples(nlohmann::json& row, size_t most);

}  // namespace ladder
