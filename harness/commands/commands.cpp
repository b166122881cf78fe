#include "commands/commands.hpp"

#include <algorithm>

namespace ladder {
namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (size_t from = 0; from <= list.size();) {
    const size_t to = std::min(list.find(',', from), list.size());
    if (to > from) words.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

std::vector<fs::path> module_folders(const std::vector<std::string>& more) {
  std::vector<fs::path> folders = {program_folder() / "variants"};
  folders.insert(folders.end(), more.begin(), more.end());
  return folders;
}

std::vector<Variant> choose_variants(const std::vector<Variant>& all, const std::string& patterns) {
  return choose(all, patterns, "variant", [](const Variant& v) { return std::vector<std::string>{v.id}; });
}

std::vector<Workload> choose_workloads(const std::vector<Workload>& all, const std::string& patterns) {
  return choose(all, patterns, "workload", [](const Workload& w) {
    return std::vector<std::string>{w.name, w.family};
  });
}

}  // namespace ladder
