// Modules whose warp instructions can be counted (harness/simt/counting), and the lines of the source that places in
// them belong to.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ladder {

/// Compiles the variant's file, and the parts that it uses, with a call to the runtime at each access and block of
/// code, for elements of one type ("f32" or "f64"), into build/counted/TYPE/ID.so; what is newer than its sources is
/// left as it is. `source`: a .cu file of the checkout. `scratch`: for what the compiler writes. Says on stderr what it
/// does. Throws Error with the compiler's words where the text does not compile, and where this machine or build cannot
/// count.
std::filesystem::path build_counted(const std::string& id, const std::string& type, const std::filesystem::path& source,
                                    const std::filesystem::path& scratch);

struct SourceLine {
  std::string file;  ///< relative to the checkout
  int line = 0;      ///< from 1; 0: not known
  friend auto operator<=>(const SourceLine&, const SourceLine&) = default;
};

/// The lines of the checkout that these addresses in a module belong to. Of code that was inlined, the line outside of
/// CUDA's own headers (harness/simt).
std::map<uint64_t, SourceLine> lines_of(const std::filesystem::path& module, const std::vector<uint64_t>& addresses,
                                        const std::filesystem::path& scratch);

}  // namespace ladder
