// What the text of a rung shows and no small run can: faults that need more points than a check has, or a GPU.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace ladder {

/// One sentence each, "FILE:LINE: ...", about the kernels of a file and their launches:
///  - an element of a kernel's array whose index is a product of ints, which overflows from 2^31 on;
///  - one array that is passed for two parameters that are `__restrict__`.
std::vector<std::string> source_notes(const std::filesystem::path& file);

}  // namespace ladder
