#include "module.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

extern "C" void* __tls_get_addr(void* index);

namespace simt::module {
namespace {

struct Symbol {
  uint64_t value, size;
  unsigned char type;
  std::string name;
};

/// Functions and thread-local variables of an ELF file.
std::vector<Symbol> read_symbols(const std::string& path) {
  std::vector<Symbol> symbols;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) return symbols;
  const auto bytes = size_t(status.st_size);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return symbols;
  const char* base = static_cast<const char*>(mapped);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(base + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* first = reinterpret_cast<const ElfW(Sym)*>(base + sections[s].sh_offset);
    const char* names = base + sections[sections[s].sh_link].sh_offset;
    for (const auto& symbol : std::span(first, sections[s].sh_size / sizeof(ElfW(Sym)))) {
      const unsigned char type = symbol.st_info & 0xf;
      if ((type == STT_FUNC || type == STT_TLS) && symbol.st_shndx != SHN_UNDEF)
        symbols.push_back({symbol.st_value, symbol.st_size, type, names + symbol.st_name});
    }
  }
  munmap(mapped, bytes);
  return symbols;
}

struct Module {
  std::string path;
  uintptr_t base = 0;
  size_t tls_id = 0;
};

bool holds(const dl_phdr_info& info, uintptr_t address, size_t bytes, bool read_only) {
  return std::ranges::any_of(std::span(info.dlpi_phdr, info.dlpi_phnum), [&](const ElfW(Phdr) & part) {
    const uintptr_t begin = info.dlpi_addr + part.p_vaddr;
    return part.p_type == PT_LOAD && !(read_only && part.p_flags & PF_W) && address >= begin &&
           address + bytes <= begin + part.p_memsz;
  });
}

Module module_of(const void* address) {
  struct Search {
    uintptr_t address;
    Module found;
  } search{reinterpret_cast<uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        if (!holds(*info, search.address, 1, false)) return 0;
        const std::string_view name = info->dlpi_name;
        search.found = {name.empty() ? "/proc/self/exe" : std::string(name), info->dlpi_addr, info->dlpi_tls_modid};
        return 1;
      },
      &search);
  return search.found;
}

/// Read once per file and place: a module that is unloaded and another loaded there has another path or base.
std::shared_ptr<const std::vector<Symbol>> symbols_of(const Module& module) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, uintptr_t>, std::shared_ptr<const std::vector<Symbol>>> cache;
  std::lock_guard lock(mutex);
  auto& symbols = cache[{module.path, module.base}];
  if (!symbols) symbols = std::make_shared<const std::vector<Symbol>>(read_symbols(module.path));
  return symbols;
}

/// "void (anonymous namespace)::kernel<float>(float*, int)" -> "kernel<float>".
std::string shorten(std::string name) {
  for (size_t at; (at = name.find("(anonymous namespace)::")) != std::string::npos;) name.erase(at, 23);
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == ' ') begin = i + 1;  // behind the result type
    if (name[i] == '(') return name.substr(begin, i - begin);
  }
  return name;
}

std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace

std::string function_name(const void* function) {
  const Module module = module_of(function);
  const auto symbols = symbols_of(module);
  for (const Symbol& symbol : *symbols) {
    if (symbol.type == STT_FUNC && module.base + symbol.value == reinterpret_cast<uintptr_t>(function))
      return shorten(demangle(symbol.name));
  }
  return "without a name";
}

std::vector<SharedVariable> shared_variables(const void* function) {
  const Module module = module_of(function);
  std::vector<SharedVariable> variables;
  if (module.tls_id == 0) return variables;
  for (const Symbol& symbol : *symbols_of(module)) {
    // A checked build has an array named simt_guard_... beside each variable (qualifiers.h).
    if (symbol.type != STT_TLS || symbol.size == 0 || symbol.name.find("simt_guard_") != std::string::npos) continue;
    struct {
      unsigned long module, offset;
    } index{module.tls_id, symbol.value};
    const std::string name = demangle(symbol.name);
    const size_t scope = name.rfind("::");
    variables.push_back({static_cast<char*>(__tls_get_addr(&index)), symbol.size,
                         scope == std::string::npos ? name : name.substr(scope + 2)});
  }
  std::ranges::sort(variables, {}, &SharedVariable::address);
  return variables;
}

size_t static_shared_bytes(const void* kernel) {
  const Module module = module_of(kernel);
  const auto symbols = symbols_of(module);
  const auto symbol_of_kernel = std::ranges::find_if(*symbols, [&](const Symbol& symbol) {
    return symbol.type == STT_FUNC && module.base + symbol.value == reinterpret_cast<uintptr_t>(kernel);
  });
  if (symbol_of_kernel == symbols->end() || !symbol_of_kernel->name.starts_with("_Z")) return 0;
  // A variable of a function's body is called by the function's own encoding: _ZZ6kernelPfE4tile of _Z6kernelPf.
  const std::string scope = "_ZZ" + symbol_of_kernel->name.substr(2) + "E";
  size_t bytes = 0;
  for (const Symbol& symbol : *symbols) {
    if (symbol.type == STT_TLS && symbol.name.starts_with(scope) &&
        symbol.name.find("simt_guard_") == std::string::npos)
      bytes += symbol.size;
  }
  return bytes;
}

bool is_read_only(const void* address, size_t bytes) {
  struct Search {
    uintptr_t address;
    size_t bytes;
  } search{reinterpret_cast<uintptr_t>(address), bytes};
  return dl_iterate_phdr(
             [](dl_phdr_info* info, size_t, void* data) {
               const auto& search = *static_cast<const Search*>(data);
               return int(holds(*info, search.address, search.bytes, true));
             },
             &search) != 0;
}

}  // namespace simt::module
