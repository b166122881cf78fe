// What the symbol table of a loaded module (the program or a shared library) tells about kernels and their memory.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace simt::module {

/// A __shared__ variable: where it is for the calling OS thread.
struct SharedVariable {
  char* address;
  size_t bytes;
  std::string name;
};

/// The function that starts at `function`, in the words of its source: "assign_kernel<float>".
std::string function_name(const void* function);
/// The __shared__ variables of the module that `function` belongs to, in order of their addresses. Empty where the
/// module was stripped of its symbols.
std::vector<SharedVariable> shared_variables(const void* function);
/// Bytes of the __shared__ variables that a kernel declares in its own body, as far as its module has symbols.
size_t static_shared_bytes(const void* kernel);
/// Whether the bytes lie in a part of some module that is read-only: literals and tables of the compiler.
bool is_read_only(const void* address, size_t bytes);

}  // namespace simt::module
