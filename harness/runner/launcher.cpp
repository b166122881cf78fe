#include "runner/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ladder {
namespace fs = std::filesystem;

std::string mpi_launcher(const std::string& wish) {
  if (wish == "own") return "";
  const auto runs = [](const fs::path& program) { return access(program.c_str(), X_OK) == 0; };
  if (const char* named = std::getenv("LADDER_MPIRUN"); named && *named) {
    if (!runs(named)) throw Error(fmt::format("LADDER_MPIRUN={}: that is no program that can be run", named));
    return named;
  }
  for (const char* name : {"mpirun", "mpiexec"}) {
    std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
    for (std::string folder; std::getline(path, folder, ':');) {
      if (runs(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  if (wish == "mpi")
    throw Error("--launcher mpi: neither mpirun nor mpiexec is on the PATH: install openmpi-bin, or take own");
  return "";
}

fs::path under_mpi(const std::string& launcher, const fs::path& worker, int ranks, const fs::path& scratch) {
  const fs::path script = scratch / "under_mpi";
  // Open MPI by itself refuses to run as root, and more processes than cores; others do not know these variables. It
  // hands on no open file but the first three, so the worker is told where to report to by a name.
  std::ofstream(script) << fmt::format(
      "#!/bin/sh\n"
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
      "export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe\n"
      "export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none\n"
      "exec {} -n {} {} launched \"$2\" \"/proc/$$/fd/$3\"\n",
      quoted(launcher), ranks, quoted(worker.string()));
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

}  // namespace ladder
