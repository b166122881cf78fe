// What this machine has: main memory, and its NUMA nodes (groups of cores, each with memory of its own beside it).
#pragma once
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ladder {

/// Bytes of main memory, in use or not.
inline int64_t main_memory_bytes() { return int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

/// Bytes of memory that a process holds; 0 where that is not known.
inline double memory_of(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/statm");
  double size = 0, resident = 0;
  return in >> size >> resident ? resident * double(sysconf(_SC_PAGESIZE)) : 0;
}

/// The processes that a process has started, by any of its threads, and that still run.
inline std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    std::ifstream in(thread.path() / "children");
    for (pid_t child = 0; in >> child;) found.push_back(child);
  }
  return found;
}

/// Bytes of memory of a process and all below it.
inline double memory_below(pid_t process, int depth = 0) {
  double bytes = memory_of(process);
  for (const pid_t child : depth < 1000 ? children_of(process) : std::vector<pid_t>())
    bytes += memory_below(child, depth + 1);
  return bytes;
}

/// The numbers of a list as the kernel writes it: 0-3,8 is 0 1 2 3 8. Empty where it is no such list.
inline std::vector<int> numbers_of_list(const std::string& list) {
  std::vector<int> found;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first) || first < 0) return {};
    last = range >> dash ? -1 : first;
    if (dash && (dash != '-' || !(range >> last) || last < first || last > 65535)) return {};
    for (int i = first; i <= last; ++i) found.push_back(i);
  }
  return found;
}

/// The same of the first line of a file; empty where there is none.
inline std::vector<int> numbers_in(const std::filesystem::path& file) {
  std::string list;
  std::ifstream in(file);
  std::getline(in, list);
  return numbers_of_list(list);
}

/// The NUMA node that a PCI device (0000:1B:00.0) is attached to; -1 where the machine has only one or does not say.
/// `root`: where the kernel describes the machine.
inline int numa_node_of(std::string pci_address, const std::filesystem::path& root = "/sys") {
  if (numbers_in(root / "devices/system/node/has_cpu").size() < 2) return -1;
  for (char& c : pci_address) c = char(std::tolower(static_cast<unsigned char>(c)));
  const std::vector<int> node = numbers_in(root / "bus/pci/devices" / pci_address / "numa_node");
  return node.size() == 1 ? node[0] : -1;
}

/// From now on this thread, and what it starts, runs on the cores of a node and takes memory there while there is some.
/// Returns false, and changes nothing, where the process may not use any of these cores.
inline bool stay_on_numa_node(int node, const std::filesystem::path& root = "/sys") {
  cpu_set_t allowed, wanted;
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  for (const int core : numbers_in(root / ("devices/system/node/node" + std::to_string(node)) / "cpulist"))
    if (core < CPU_SETSIZE && CPU_ISSET(core, &allowed)) CPU_SET(core, &wanted);
  if (CPU_COUNT(&wanted) == 0 || sched_setaffinity(0, sizeof wanted, &wanted) != 0) return false;
  constexpr int preferred = 1, bits = 64;  // of set_mempolicy(2): other nodes serve when this one is full
  const unsigned long nodes = node < bits ? 1ul << node : 0;
  if (nodes) syscall(SYS_set_mempolicy, preferred, &nodes, long{bits} + 1);
  return true;
}

}  // namespace ladder
