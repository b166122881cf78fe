// A libFuzzer program for one of the readers, READER: any bytes as its file.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/readers.hpp"

namespace {

using namespace ladder::fuzz;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "fuzz-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

const Reader& reader() {
  static const Reader& found =
      *std::find_if(readers().begin(), readers().end(), [](const Reader& r) { return r.name == READER; });
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* bytes, size_t count) {
  static const Folder folder;
  const fs::path file = folder.path / "input";
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(bytes), std::streamsize(count));
  try {
    reader().read(file);
  } catch (const ladder::Error& error) {
    // Whatever else is thrown ends the program, which is how libFuzzer finds it.
    if (std::string_view(error.what()).find(file.string()) == std::string_view::npos) {
      std::fprintf(stderr, "names no file: %s\n", error.what());
      std::abort();
    }
    return 0;
  }
  try {
    reader().use(file);
  } catch (const ladder::Error&) {
  }
  return 0;
}
