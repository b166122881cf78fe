// ladder new: starts a variant as a copy of its base's file, in the base's chapter.
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <sstream>

#include "base/source_text.hpp"
#include "commands/commands.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void must_be_an_id(const std::string& id) {
  if (!std::regex_match(id, std::regex("[A-Za-z][A-Za-z0-9_]*")))
    throw Error(fmt::format("'{}' cannot be a variant's id: a letter first, then letters, digits and _", id));
}

/// Sets id and base in the card of a copy; a card is C++ (.id = "X") or Python ("id": "X" or id="X").
void set_card(std::vector<std::string>& lines, const std::string& base, const std::string& id) {
  const std::regex its_id(R"re(((?:\.|\b|["'])id["']?\s*[=:]\s*["']))re" + base + R"re((["']))re");
  const std::regex its_base(R"re(((?:\.|\b|["'])base["']?\s*[=:]\s*["'])[A-Za-z0-9_]*(["']))re");
  bool named = false, based = false;
  for (std::string& line : lines) {
    std::smatch found;
    if (!named && std::regex_search(line, found, its_id)) {
      named = true;
      line = found.prefix().str() + found.str(1) + id + found.str(2) + found.suffix().str();
    }
    if (named && !based && std::regex_search(line, found, its_base)) {
      based = true;
      line = found.prefix().str() + found.str(1) + base + found.str(2) + found.suffix().str();
    }
  }
  if (!named)
    throw Error(fmt::format("the card of {} does not state its id as \"{}\": correct that first", base, base));
  if (based) return;
  // A root has no base: the copy's goes right behind its id, written the same way.
  const std::regex new_id(R"re(((?:\.|\b|["']))id(["']?\s*[=:]\s*["']))re" + id + R"re((["'],))re");
  for (std::string& line : lines) {
    std::smatch found;
    if (!std::regex_search(line, found, new_id)) continue;
    line = found.prefix().str() + found.str() + " " + found.str(1) + "base" + found.str(2) + base + found.str(3) +
           found.suffix().str();
    return;
  }
}

/// Removes the lesson: what its base predicts is not what a copy will do. Blank lines before it go, too.
void drop_lesson(std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (take_statement(text, "LADDER_LESSON(").empty()) return;
  lines.clear();
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) {
    if (line.find("contract/lesson.hpp") == std::string::npos) lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

/// Renames the variant in the first comment, which begins with the id up to its first _: "// v05: ...".
void set_heading(std::string& first, const std::string& base, const std::string& id) {
  const auto stem = [](const std::string& name) { return name.substr(0, name.find('_')); };
  for (const std::string mark : {"// ", "# ", "\"\"\""}) {
    const std::string heading = mark + stem(base) + ":";
    if (first.rfind(heading, 0) == 0) first = mark + stem(id) + ":" + first.substr(heading.size());
  }
}

/// Takes the bodies of the kernels out, or that of the one that is named: each says what is to be written there.
std::string stub_of(std::string text, const std::string& base, const std::string& only) {
  std::vector<KernelText> kernels = kernels_of(text);
  if (kernels.empty())
    throw Error(fmt::format("--stub: the file of {} has no kernel of its own: take a base that has one", base));
  std::erase_if(kernels, [&](const KernelText& kernel) { return !only.empty() && kernel.name != only; });
  if (kernels.empty()) throw Error(fmt::format("--kernel: the file of {} has no kernel '{}'", base, only));
  std::reverse(kernels.begin(), kernels.end());  // the places of earlier ones stay
  for (const KernelText& kernel : kernels) {
    std::string body =
        "\n  // Yours to write: the body of this kernel. The comment at the top of the file says what it does.\n"
        "  // Given: its parameters, its launch and everything else in this file.\n";
    std::string unused;
    for (const std::string& name : kernel.parameters) {
      if (!name.empty()) unused += (unused.empty() ? "  (void)" : ", (void)") + name;
    }
    if (!unused.empty()) body += unused + ";  // delete this line\n";
    text.replace(kernel.begin, kernel.end - kernel.begin, body);
  }
  return text;
}

/// The first comment of a copy: what to state there. What the build reads of the base's comment stays.
void empty_heading(std::vector<std::string>& lines, const std::string& base, const std::string& id) {
  std::vector<std::string> heading = {fmt::format("// {}: what differs from {}, in one sentence.", id, base),
                                      fmt::format("// In {}: what is slow or wrong there.", base)};
  const auto last = std::find_if(lines.begin(), lines.end(), [](const std::string& s) { return !s.starts_with("//"); });
  const std::regex read(R"re(// (link|link on cuda|for cuda): .*)re");
  std::copy_if(lines.begin(), last, std::back_inserter(heading),
               [&](const std::string& line) { return std::regex_match(line, read); });
  lines.erase(lines.begin(), last);
  lines.insert(lines.begin(), heading.begin(), heading.end());
}

void say_where(const std::vector<std::string>& lines, const fs::path& file, bool stub) {
  struct Place {
    const char* mark;
    const char* what;
  };
  const std::string name = fs::relative(file, fs::current_path()).string();
  if (stub) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].rfind("  // Yours to write", 0) == 0) fmt::print("{}:{}: the body of a kernel\n", name, i + 1);
    }
    return;
  }
  fmt::print("{}:1: state what differs, and the flaw of the base\n", name);
  const std::vector<Place> places = {
      {"#include \"../common/", "shared with other variants: copy the code that you change"},
      {"__global__", "a kernel"},
      {"def assign", "the assignment"},
      {"idea", "the idea, in a line"},
      {"expect", "what you think will happen, before you measure"},
      {"shows", "the scope in which it should show"}};
  for (const Place& place : places) {
    for (size_t i = 1; i < lines.size(); ++i) {
      // A field of the card, or a mark at the start of a line; not a word in a comment.
      const bool in_card =
          std::regex_search(lines[i], std::regex("[.\"' ]" + std::string(place.mark) + "[\"']?\\s*[=:]"));
      const bool in_code =
          std::string("_d#").find(place.mark[0]) != std::string::npos && lines[i].rfind(place.mark, 0) == 0;
      if (in_card || in_code) fmt::print("{}:{}: {}\n", name, i + 1, place.what);
    }
  }
}

struct NewWords {
  std::string id, base, kernel;
  bool stub = false;
};

int make(const NewWords& words) {
  const auto& [id, base, kernel, stub] = words;
  if (!kernel.empty() && !stub) throw Error("--kernel names the kernel that --stub empties: add --stub");
  must_be_an_id(id);
  must_be_an_id(base);
  const fs::path folder = source_folder() / "variants";
  const fs::path from = source_of(base, folder);
  if (from.empty())
    throw Error(fmt::format("there is no variant '{}' in {}: `ladder list` shows them all", base, folder.string()));
  if (const fs::path there = source_of(id, folder); !there.empty())
    throw Error(fmt::format("there is a variant '{}' already, {}: choose another id", id, there.string()));
  // Variants of the tests are built by the same names of targets.
  for (const fs::directory_entry& tests : fs::directory_iterator(source_folder() / "tests" / "fixtures")) {
    if (!tests.is_directory()) continue;
    if (const fs::path there = source_of(id, tests.path()); !there.empty())
      throw Error(fmt::format("the tests have a variant '{}', {}: choose another id", id, there.string()));
  }
  std::ifstream source(from);
  std::vector<std::string> lines = lines_of(source);
  if (lines.empty()) throw Error(fmt::format("{} is empty, or cannot be read", from.string()));
  drop_lesson(lines);
  set_card(lines, base, id);
  if (stub || from.extension() == ".py")
    set_heading(lines[0], base, id);
  else
    empty_heading(lines, base, id);
  if (stub) {
    std::istringstream text(stub_of(fmt::format("{}\n", fmt::join(lines, "\n")), base, kernel));
    lines = lines_of(text);
  }
  const fs::path to = from.parent_path() / (id + from.extension().string());
  std::ofstream out(to);
  for (const std::string& line : lines) out << line << "\n";
  out.close();
  if (!out) throw Error(fmt::format("{} cannot be written: check the free space and the permissions", to.string()));

  fmt::print("{} is a copy of {}{}. To edit:\n", id, base, stub ? " without its kernel" : "");
  say_where(lines, to, stub);
  const std::string build = fs::relative(program_folder(), fs::current_path()).string();
  fmt::print("\nThen:\n");
  std::string targets;
  for (const std::string& target : targets_of(to)) targets += " " + target;
  if (from.extension() == ".py")
    fmt::print("  cmake --build {}\n", build);
  else
    fmt::print("  cmake --build {} --target{}\n", build, targets);
  if (from.extension() != ".py") fmt::print("  {}/ladder check {}\n", build, id);
  if (stub)
    fmt::print("  {}/ladder run --variants {} --workloads NAME     # invalid, until the kernel is written\n", build,
               id);
  fmt::print("  {}/ladder run --compare {},{} --workloads NAME\n", build, base, id);
  return 0;
}

}  // namespace

Command new_command(CLI::App& app) {
  const auto o = std::make_shared<NewWords>();
  auto* command =
      app.add_subcommand("new", "Start a variant: copy the file of its base, and set the id and base in its card");
  command->add_option("id", o->id, "Id of the new variant: a letter, then letters, digits and _")->required();
  command
      ->add_option("--base", o->base,
                   "The variant that it differs from by one idea; the new file goes into the same chapter")
      ->required();
  command->add_flag("--stub", o->stub, "Leave the bodies of its kernels out: an exercise that compiles");
  command->add_option("--kernel", o->kernel, "With --stub: the one kernel that is left out, where there are several");
  return {command, [o] { return make(*o); }};
}

}  // namespace ladder
