#include "workloads/source_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/files.hpp"
#include "base/source_text.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

bool holds(const std::string& text, const char* pattern) { return std::regex_search(text, std::regex(pattern)); }

/// Is the word declared in the body with a type of 64 bits?
bool is_wide(const std::string& body, const std::string& word) {
  return std::regex_search(body, std::regex("\\b(u?int64_t|size_t|long)\\b[^;(){}]*\\b" + word + "\\b"));
}

/// Is the word a thread's or block's place in the grid, or the parameter that says how many points there are?
bool counts_rows(const std::string& body, const std::string& word) {
  return word == "n" || std::regex_search(body, std::regex("\\bint " + word + " = [^;]*blockIdx"));
}

/// The product within an index that the compiler computes in ints and that grows with the points: "i * d"; empty where
/// there is none.
std::string product_of_ints(const std::string& index, const std::string& body, const std::vector<std::string>& ints) {
  if (holds(index, "\\b(u?int64_t|size_t|ptrdiff_t|long)\\b|[0-9]u?ll\\b")) return "";
  static const std::regex product(R"re(\b([A-Za-z_]\w*) \* ([A-Za-z_]\w*))re");
  for (std::sregex_iterator next(index.begin(), index.end(), product), end; next != end; ++next) {
    if (next->prefix().str().ends_with("/ ")) continue;
    const std::string first = next->str(1), second = next->str(2);
    const bool by_parameter =
        std::any_of(ints.begin(), ints.end(), [&](const std::string& name) { return name == first || name == second; });
    const bool rows = counts_rows(body, first) || counts_rows(body, second);
    if (by_parameter && rows && !is_wide(body, first) && !is_wide(body, second)) return next->str();
  }
  return "";
}

}  // namespace

std::vector<std::string> source_notes(const fs::path& file) {
  const std::string text = read_whole(file), code = code_alone(text);
  const auto place = [&](size_t at) {
    return fmt::format("{}:{}", file.string(), 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'));
  };
  std::vector<std::string> notes;
  for (const KernelText& kernel : kernels_of(text)) {
    const std::string body = code.substr(kernel.begin, kernel.end - kernel.begin);
    std::vector<std::string> ints, arrays, restricted(kernel.declared.size());
    for (size_t i = 0; i < kernel.declared.size(); ++i) {
      const std::string& declared = kernel.declared[i];
      if (declared.find('*') != std::string::npos) arrays.push_back(kernel.parameters[i]);
      if (holds(declared, "^(const )?int \\w+$")) ints.push_back(kernel.parameters[i]);
      if (declared.find("__restrict__") != std::string::npos) restricted[i] = kernel.parameters[i];
    }
    for (const std::string& array : arrays) {
      const std::regex element("\\b" + array + "\\[");
      for (std::sregex_iterator next(body.begin(), body.end(), element), end; next != end; ++next) {
        const size_t at = kernel.begin + size_t(next->position()), open = at + array.size(),
                     close = closing(code, open);
        if (close == std::string::npos) break;
        const std::string index = code.substr(open + 1, close - open - 1);
        if (const std::string product = product_of_ints(index, body, ints); !product.empty())
          notes.push_back(fmt::format(
              "{}: `{}[{}]`: {} is a product of ints, which overflows where it reaches 2^31: write size_t({}",
              place(at), array, index, product,
              product.substr(0, product.find(' ')) + ")" + product.substr(product.find(' '))));
      }
    }
    const std::regex launched("\\blaunch\\(\\s*" + kernel.name + "\\b");
    for (std::sregex_iterator next(code.begin(), code.end(), launched), end; next != end; ++next) {
      const size_t at = size_t(next->position()), open = at + 6, close = closing(code, open);
      if (close == std::string::npos) break;
      constexpr size_t before = 5;  // launch(kernel, grid, block, bytes, stream, ...
      const std::vector<std::string> given = list_between(code, open, close);
      for (size_t i = 0; i < restricted.size() && before + i < given.size(); ++i) {
        const std::string& argument = given[before + i];
        const bool twice =
            std::any_of(restricted.begin() + std::ptrdiff_t(i) + 1, restricted.end(), [&](const auto& r) {
              const size_t other = before + size_t(&r - restricted.data());
              return !r.empty() && other < given.size() && given[other] == argument;
            });
        if (!restricted[i].empty() && twice && argument != "nullptr")
          notes.push_back(
              fmt::format("{}: `{}` is passed for two parameters of {} that are __restrict__: each promises "
                          "that no other names its array",
                          place(at), argument, kernel.name));
      }
    }
  }
  return notes;
}

}  // namespace ladder
