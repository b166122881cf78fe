#include "lessons/counting_build.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/source_text.hpp"
#include "base/text.hpp"
#include "lessons/access_alignments.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// What the build wrote down for this (harness/simt/CMakeLists.txt).
struct Compiler {
  std::string program, flags;
  fs::path include, library, written;
};

Compiler compiler() {
  const fs::path file = program_folder() / "counting.json";
  if (!fs::exists(file))
    throw Error(
        fmt::format("{} is not there: configure the build again (cmake --build builds it, too)", file.string()));
  const json told = json::parse(read_whole(file));
  if (told.at("checked") == "ON")
    throw Error("this build has sanitizers, whose calls stand where those of counting would: use another one");
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma"))
    throw Error(
        "this processor has no multiply-add (FMA), which a GPU's arithmetic is counted by: use another machine");
#else
  throw Error("counting reads the machine code of x86-64, and this is another processor: use another machine");
#endif
  return {told.at("compiler"), told.at("flags"), told.at("include").get<std::string>(),
          told.at("library").get<std::string>(), file};
}

struct Unit {
  fs::path source, assembly;
  fs::path commented() const { return assembly.string() + ".all"; }
};

bool is_newer(const fs::path& made, const std::vector<fs::path>& from) {
  return fs::exists(made) && std::all_of(from.begin(), from.end(), [&](const fs::path& file) {
           return fs::last_write_time(file) <= fs::last_write_time(made);
         });
}

/// What each module includes.
std::vector<fs::path> common_headers(const Compiler& with) {
  std::vector<fs::path> found;
  for (const fs::path& headers : {source_folder() / "harness" / "contract", with.include}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(headers))
      if (entry.is_regular_file()) found.push_back(entry.path());
  }
  return found;
}

/// An option for those of these headers that the build has compiled (harness/CMakeLists.txt); none where one of them
/// was changed since.
std::string compiled_headers(const fs::path& folder, const Compiler& with) {
  const fs::path header = folder / "contract.hpp";
  std::vector<fs::path> from = common_headers(with);
  from.insert(from.end(), {header, with.written});
  if (!fs::exists(header) || !is_newer(header.string() + ".gch", from)) return "";
  return fmt::format(" -include {}", quoted(header));
}

}  // namespace

fs::path build_counted(const std::string& id, const std::string& type, const fs::path& source,
                       const fs::path& scratch) {
  const Compiler with = compiler();
  const fs::path folder = program_folder() / "counted" / type, module = folder / (id + ".so");
  fs::create_directories(folder);
  Parts parts;
  add_part(source, source_folder(), parts);
  std::vector<fs::path> from = common_headers(with);
  from.insert(from.end(), {with.written, with.library});
  std::vector<Unit> units;
  for (const auto& [part, lines] : parts) {
    from.push_back(part);
    if (part.extension() == ".cu") units.push_back({part, folder / (id + "." + part.stem().string() + ".s")});
  }
  const FileLock alone = FileLock::wait(module);
  if (is_newer(module, from)) return module;
  const std::string headers = compiled_headers(folder, with);
  std::vector<std::string> commands;
  for (const Unit& unit : units) {
    commands.push_back(fmt::format("{} {} -DLADDER_ELEMENT_BYTES={}{} -isystem {} -x c++ -S -dP -o {} {}", with.program,
                                   with.flags, type == "f64" ? 8 : 4, headers, quoted(with.include),
                                   quoted(unit.commented()), quoted(unit.source)));
  }
  // One shell that runs them side by side and ends as the first that fails.
  std::string all = "set -e; ";
  for (size_t i = 0; i < commands.size(); ++i) all += fmt::format("{} & p{}=$!; ", commands[i], i);
  for (size_t i = 0; i < commands.size(); ++i) all += fmt::format("wait $p{}; ", i);
  run_tool("sh -c " + ladder::quoted(all), fmt::format("building {} to be counted (seconds)", id),
           scratch / "counted.log");
  std::string assemblies;
  for (const Unit& unit : units) {
    write_whole(unit.assembly, with_alignments(read_whole(unit.commented())));
    fs::remove(unit.commented());
    assemblies += quoted(unit.assembly) + " ";
  }
  const fs::path made = temporary_beside(module);
  run_tool(fmt::format("{} -shared -o {} {} {} -Wl,-rpath,{}", with.program, quoted(made), assemblies,
                       quoted(with.library), quoted(with.library.parent_path())),
           "linking it", scratch / "counted.log");
  for (const Unit& unit : units) fs::remove(unit.assembly);
  fs::rename(made, module);
  return module;
}

std::map<uint64_t, SourceLine> lines_of(const fs::path& module, const std::vector<uint64_t>& addresses,
                                        const fs::path& scratch) {
  const fs::path asked = scratch / "addresses";
  {
    std::ofstream out(asked);
    for (const uint64_t address : addresses) out << fmt::format("{:x}\n", address);
  }
  // Per address: a line with 0x and the address, then FILE:LINE of each inlined function, from the inside out.
  std::istringstream told(output_of(fmt::format("addr2line -a -i -e {} <{}", quoted(module), quoted(asked))));
  std::map<uint64_t, SourceLine> found;
  uint64_t address = 0;
  for (std::string line; std::getline(told, line);) {
    if (line.rfind("0x", 0) == 0 && line.find(':') == std::string::npos) {
      address = std::stoull(line, nullptr, 16);
      continue;
    }
    SourceLine& known = found[address];
    const size_t colon = line.find(':');
    if (known.line > 0 || colon == std::string::npos) continue;
    const fs::path file = fs::path(line.substr(0, colon)).lexically_normal().lexically_proximate(source_folder());
    if (file.native().rfind("..", 0) == 0 || file.native().rfind("harness/simt/", 0) == 0) continue;
    known = {file.string(), std::atoi(line.c_str() + colon + 1)};
  }
  return found;
}

}  // namespace ladder
