#include "commands/commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace ladder {
namespace fs = std::filesystem;

namespace {

/// What is no number (NaN) is left to need_sound_values.
CLI::Validator number_that(const std::string& name, const std::string& what, bool (*is)(double)) {
  const auto check = [what, is](std::string& value) {
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const bool good = end != value.c_str() && *end == '\0' && is(number);
    return good ? std::string() : fmt::format("give {}, not '{}'", what, value);
  };
  return CLI::Validator(check, name);
}

}  // namespace

CLI::Validator above_zero() {
  return number_that("POSITIVE", "a number above 0", [](double number) { return !(number <= 0); });
}

CLI::Validator not_negative() {
  return number_that("NONNEGATIVE", "a number of at least 0", [](double number) { return !(number < 0); });
}

void need_sound_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(), type = option->get_type_name();
    if (option->count() == 0 || option->get_expected_max() == 0) continue;  // a flag has no value of its own
    for (const std::string& value : option->results()) {
      if (value.empty() && option->get_expected_min() > 0)
        throw Error(fmt::format("{} '': the value is empty (a variable that is not set?): give one, or leave {} out",
                                name, name));
      if (value.rfind("--", 0) == 0 && !option->get_lnames().empty())
        throw Error(fmt::format("{} {}: that is an option, and {} needs a value", name, value, name));
      const auto is = [&](const char* kind) { return type.rfind(kind, 0) == 0; };
      if (is("FLOAT") && !std::isfinite(std::strtod(value.c_str(), nullptr)))
        throw Error(fmt::format("{} {}: a finite number is needed", name, value));
      if (is("UINT") && value[0] == '-')
        throw Error(fmt::format("{} {}: a number of at least 0 is needed", name, value));
    }
  }
}

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

std::vector<std::string> targets_of(const fs::path& source) {
  const std::string id = source.stem().string(), ending = source.extension().string();
  if (ending == ".cpp") return {"cpu_" + id};
  if (ending == ".py") return {};
  std::vector<std::string> targets = {"simt_" + id};
  if (fs::exists(program_folder() / "ladder_worker_cuda")) targets.push_back("cuda_" + id);
  return targets;
}

bool may_be_chosen(const Variant& v) {
  const bool is_peer = std::any_of(v.modules.begin(), v.modules.end(),
                                   [](const auto& module) { return module.second.extension() == ".py"; });
  const std::string draws = v.card.value("draws", "");
  return !v.modules.empty() && !is_peer && !v.card.value("implicit", false) && draws == "nothing" &&
         v.card.value("input_roundoff", 0.0) == 0;
}

void need_bases(std::vector<Variant>& variants) {
  std::set<std::string> ids;
  for (const Variant& v : variants) ids.insert(v.id);
  for (Variant& v : variants) {
    const std::string joins = v.card.value("joins", "");
    for (const auto& [field, id] : {std::pair("base", v.base), std::pair("joins", joins)}) {
      // A base that this build leaves out because its library is missing still has its source.
      if (id.empty() || ids.count(id) || !source_of(id, source_folder() / "variants").empty()) continue;
      const std::string what = field == std::string("base") ? "the base" : "as what it joins";
      for (const auto& [kind, module] : v.modules)
        v.broken[kind] =
            fmt::format("its card names {} '{}', and there is no such variant: correct .{}", what, id, field);
      v.modules.clear();
    }
  }
}

std::vector<Variant> with_kernels(std::vector<Variant> variants) {
  std::erase_if(variants, [](const Variant& v) {
    const auto module = v.modules.find(DeviceKind::cuda);
    return module == v.modules.end() || module->second.extension() == ".py";  // a library's process is its own
  });
  if (variants.empty()) throw Error("none of the chosen variants has kernels of its own for a GPU: choose others");
  hash_modules(variants);
  return variants;
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
