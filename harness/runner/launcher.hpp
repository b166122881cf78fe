// The launcher of MPI, which starts the processes of a run that has several. Only its program is used: no part of the
// ladder is linked with MPI.
#pragma once
#include <filesystem>
#include <string>

namespace ladder {

/// The program: $LADDER_MPIRUN, or else the first of mpirun and mpiexec on the PATH; empty where `wish` is "own", or it
/// is "auto" and there is none. Throws Error where it is "mpi" and there is none.
std::string mpi_launcher(const std::string& wish);

/// A program in `scratch` that is called as a worker is, and starts `ranks` processes of this worker under `launcher`.
std::filesystem::path under_mpi(const std::string& launcher, const std::filesystem::path& worker, int ranks,
                                const std::filesystem::path& scratch);

}  // namespace ladder
