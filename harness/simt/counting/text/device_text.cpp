#include "counting/text/device_text.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace simt::counting {

bool is_for_cpu_alone(std::string_view text, unsigned line) {
  enum class Part { either, gpu, cpu };
  std::vector<Part> open;  // one for each #if
  for (unsigned number = 1; number < line && !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::istringstream words{std::string(text.substr(0, end))};
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string word, of;
    if (!(words >> word) || word[0] != '#') continue;
    words >> of;
    if (word.starts_with("#if")) {
      const bool is_known = of == "__CUDACC__" && word != "#if";
      open.push_back(!is_known ? Part::either : word == "#ifdef" ? Part::gpu : Part::cpu);
    } else if (word == "#else" && !open.empty() && open.back() != Part::either) {
      open.back() = open.back() == Part::gpu ? Part::cpu : Part::gpu;
    } else if (word == "#elif" && !open.empty()) {
      open.back() = Part::either;
    } else if (word == "#endif" && !open.empty()) {
      open.pop_back();
    }
  }
  return std::find(open.begin(), open.end(), Part::cpu) != open.end();
}

bool is_for_cpu_alone(const char* file, unsigned line) {
  static std::mutex mutex;
  static std::map<std::pair<const char*, unsigned>, bool> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({file, line}, false);
  if (is_new) {
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    found->second = is_for_cpu_alone(text, line);
  }
  return found->second;
}

}  // namespace simt::counting
