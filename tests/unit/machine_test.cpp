#include "base/machine.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

namespace {
using namespace ladder;
namespace fs = std::filesystem;
using Numbers = std::vector<int>;

/// A machine of `nodes` nodes as its kernel describes it; a GPU is attached to node 1, the cores of which are `cores`.
struct Machine {
  explicit Machine(const std::string& nodes, const std::string& cores = "0", const std::string& gpu = "1") {
    write("devices/system/node/has_cpu", nodes);
    write("devices/system/node/node1/cpulist", cores);
    write("bus/pci/devices/0000:1b:00.0/numa_node", gpu);
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text << "\n";
  }
  ~Machine() { fs::remove_all(root); }
  std::string name = testing::TempDir() + "machine_XXXXXX";
  const fs::path root = mkdtemp(name.data());
};

TEST(Numbers, OfAListAreThoseOfItsRanges) {
  EXPECT_EQ(numbers_of_list("0-3,8"), (Numbers{0, 1, 2, 3, 8}));
  EXPECT_EQ(numbers_of_list("5"), Numbers{5});
  EXPECT_EQ(numbers_of_list("0-1,4-5"), (Numbers{0, 1, 4, 5}));
  for (const char* none : {"", "x", "-1", "3-1", "1-", "1;2", "0-99999999"}) EXPECT_TRUE(numbers_of_list(none).empty());
}

TEST(NumaNode, OfAGpuIsTheOneThatItIsAttachedTo) {
  EXPECT_EQ(numa_node_of("0000:1B:00.0", Machine("0-1").root), 1);
  EXPECT_EQ(numa_node_of("0000:2C:00.0", Machine("0-1").root), -1) << "no such device";
  EXPECT_EQ(numa_node_of("0000:1B:00.0", Machine("0-1", "0", "-1").root), -1) << "the kernel does not know";
  EXPECT_EQ(numa_node_of("0000:1B:00.0", Machine("0").root), -1) << "one node: nothing to stay on";
  EXPECT_EQ(numa_node_of("0000:1B:00.0", "/nonexistent"), -1);
}

/// What a process of its own finds: the number of cores it may use after staying on node 1, or 99 where it may not.
int cores_after(const Machine& machine) {
  const pid_t child = fork();
  if (child == 0) {
    if (!stay_on_numa_node(1, machine.root)) _exit(99);
    cpu_set_t cores;
    sched_getaffinity(0, sizeof cores, &cores);
    _exit(CPU_COUNT(&cores));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(NumaNode, KeepsAProcessOnItsCores) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  EXPECT_EQ(cores_after(Machine("0-1", std::to_string(first))), 1);
  EXPECT_EQ(cores_after(Machine("0-1", "0-65535")), CPU_COUNT(&allowed)) << "never on cores that it may not use";
}

TEST(NumaNode, WithoutACoreThatTheProcessMayUseChangesNothing) {
  EXPECT_EQ(cores_after(Machine("0-1", "60000")), 99);
  EXPECT_EQ(cores_after(Machine("0-1", "")), 99);
}

}  // namespace
