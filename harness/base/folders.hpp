// Where the program and the sources lie. Both are found at run time, so that a built checkout can be moved or copied.
#pragma once
#include <filesystem>

namespace ladder {

/// The folder of the running program.
std::filesystem::path program_folder();

/// The folder of the sources. In this order: $LADDER_SOURCE; the program's folder or the nearest one above it that
/// holds the sources; for a build outside the sources, the folder that its CMakeCache.txt names; the current folder or
/// the nearest one above it that holds the sources. Throws Error if none of them does.
std::filesystem::path source_folder();

}  // namespace ladder
