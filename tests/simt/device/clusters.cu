// Clusters on the CPU device: a grid that is one cluster, whose blocks reach each other's shared memory.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <simt.h>

#include <cuda/ptx>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../on_device.cuh"

namespace {
namespace cg = cooperative_groups;

template <class... P, class... A>
void launch_cluster(void (*kernel)(P...), dim3 grid, dim3 cluster, int threads, size_t shared, const A&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster.x, cluster.y, cluster.z};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  ladder::check(cudaLaunchKernelEx(&config, kernel, P(args)...), "launching a cluster");
}

/// What the launch failed with, or an empty string; it takes device memory with it.
template <class... P, class... A>
std::string fault_of(void (*kernel)(P...), int blocks, int threads, size_t shared, const A&... args) {
  try {
    launch_cluster(kernel, blocks, blocks, threads, shared, args...);
    ladder::check(cudaDeviceSynchronize(), "running a cluster");
  } catch (const ladder::Error&) {
  }
  const std::string sentence = simt_last_fault();
  if (!sentence.empty()) cudaDeviceReset();
  return sentence;
}

int* fresh(size_t count) {
  int* memory = nullptr;
  ladder::check(cudaMalloc(&memory, count * sizeof(int)), "allocating");
  ladder::check(cudaMemset(memory, 0, count * sizeof(int)), "clearing");
  return memory;
}

void expect_parts(const std::string& sentence, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(sentence.find(part), std::string::npos) << part << " is not in: " << sentence;
}

/// Each block writes to the next one's dynamic shared memory, and reads a variable of the one before.
__global__ void ring_kernel(int* got, int* places) {
  __shared__ int mine;
  int* const slots = ladder::dynamic_shared<int>();
  const auto cluster = cg::this_cluster();
  const int rank = int(cluster.block_rank()), blocks = int(cluster.num_blocks()), thread = int(threadIdx.x);
  slots[thread] = -1;
  if (thread == 0) mine = 1000 * rank;
  cluster.sync();
  *cluster.map_shared_rank(slots + thread, (rank + 1) % blocks) = 100 * rank + thread;
  const int before = *cluster.map_shared_rank(&mine, (rank + blocks - 1) % blocks);
  cluster.sync();
  got[cluster.thread_rank()] = slots[thread] + before;
  if (thread == 0) places[rank] = blocks * 100 + int(cluster.num_threads());
}

TEST(SimtClusters, BlocksReachEachOthersSharedMemory) {
  for (const int blocks : {1, 2, 8}) {
    OnDevice<int> got(size_t(blocks) * 40), places(static_cast<size_t>(blocks));
    launch_cluster(ring_kernel, blocks, blocks, 40, 40 * sizeof(int), got, places);
    const auto values = got.values();
    for (int rank = 0; rank < blocks; ++rank) {
      const int before = (rank + blocks - 1) % blocks;
      for (int t = 0; t < 40; ++t)
        ASSERT_EQ(values[size_t(rank * 40 + t)], 1100 * before + t) << rank << " of " << blocks;
    }
    EXPECT_EQ(places.values(), std::vector<int>(size_t(blocks), blocks * 100 + blocks * 40));
  }
}

__global__ void alone_kernel(int* out) {
  int* const shared = ladder::dynamic_shared<int>();
  const auto cluster = cg::this_cluster();
  shared[threadIdx.x] = int(threadIdx.x);
  cluster.sync();
  const bool is_alone = cluster.num_blocks() == 1 && cluster.block_rank() == 0;
  out[cg::this_grid().thread_rank()] = *cluster.map_shared_rank(shared + 31 - threadIdx.x, 0) + (is_alone ? 0 : 1000);
}

TEST(SimtClusters, ABlockOfAnotherLaunchIsOneByItself) {
  OnDevice<int> out(64);
  ladder::launch(alone_kernel, 2, 32, 32 * sizeof(int), nullptr, out);
  const auto values = out.values();
  for (int i = 0; i < 64; ++i) ASSERT_EQ(values[size_t(i)], 31 - i % 32);
}

/// Sums of 8 bytes and a word, sent to block 0.
__global__ void send_kernel(unsigned long long* sums, float* words) {
  __shared__ unsigned long long arrived[2], sum[16];
  __shared__ float word[16];
  const auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  cluster.sync();
  auto* const there = reinterpret_cast<uint64_t*>(cluster.map_shared_rank(arrived, 0));
  if (threadIdx.x == 0) cuda::ptx::st_async(cluster.map_shared_rank(&sum[rank], 0), (1ull << 40) + rank, there);
  if (threadIdx.x == 1) cuda::ptx::st_async(cluster.map_shared_rank(&word[rank], 0), 0.5f * float(rank), there);
  cluster.sync();
  if (rank == 0 && threadIdx.x < cluster.num_blocks()) {
    sums[threadIdx.x] = sum[threadIdx.x];
    words[threadIdx.x] = word[threadIdx.x];
  }
}

TEST(SimtClusters, MessagesArriveBeforeTheNextBarrier) {
  ladder::check(cudaFuncSetAttribute(send_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "16 blocks");
  OnDevice<unsigned long long> sums(16);
  OnDevice<float> words(16);
  launch_cluster(send_kernel, 16, 16, 32, 0, sums, words);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(sums.values()[i], (1ull << 40) + i);
    EXPECT_EQ(words.values()[i], 0.5f * float(i));
  }
}

__global__ void nothing_kernel() {}

TEST(SimtClusters, RefusesAllButOneClusterThatFits) {
  const auto refusal = [](dim3 grid, dim3 cluster) -> std::string {
    try {
      launch_cluster(nothing_kernel, grid, cluster, 32, 0);
    } catch (const ladder::Error& error) {
      cudaGetLastError();
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(dim3(2, 2), dim3(2, 2)), "");
  expect_parts(refusal(8, 4),
               {"clusters of (4, 1, 1) blocks in a grid of (8, 1, 1): on the CPU device a cluster must be "
                "the whole grid (the cluster size is invalid)"});
  expect_parts(refusal(dim3(4, 2), 8), {"clusters of (8, 1, 1) blocks in a grid of (4, 2, 1)"});
  expect_parts(refusal(9, 9), {"a cluster of 9 blocks: it can have 8 (16 if the kernel asks with "
                               "cudaFuncAttributeNonPortableClusterSizeAllowed)"});
  ladder::check(cudaFuncSetAttribute(nothing_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "16 blocks");
  EXPECT_EQ(refusal(16, 16), "");
  expect_parts(refusal(17, 17), {"a cluster of 17 blocks: it can have 16"});
  ladder::check(cudaFuncSetAttribute(nothing_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 0), "8 blocks");
  EXPECT_NE(refusal(16, 16), "");
}

enum class Mistake { none, rank, address, grid_barrier, leaves };

__global__ void mistaken_kernel(int* out, Mistake mistake) {
  int* const shared = ladder::dynamic_shared<int>();
  const auto cluster = cg::this_cluster();
  shared[threadIdx.x] = 7;
  if (mistake == Mistake::leaves && blockIdx.x == 1) return;
  if (mistake == Mistake::grid_barrier) cg::this_grid().sync();
  cluster.sync();
  const int rank = mistake == Mistake::rank ? 2 : 1;
  int* const address = mistake == Mistake::address ? out : shared;
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(address, rank);
  cluster.sync();
}

TEST(SimtClusters, SaysWhatAKernelDoesWrong) {
  const auto fault = [](Mistake mistake) {
    return fault_of(mistaken_kernel, 2, 32, 32 * sizeof(int), fresh(2), mistake);
  };
  EXPECT_EQ(fault(Mistake::none), "");
  expect_parts(fault(Mistake::rank), {"map_shared_rank() to block 2 of a cluster of 2", "mistaken_kernel"});
  expect_parts(fault(Mistake::address), {"map_shared_rank() of an address outside the block's shared memory"});
  expect_parts(fault(Mistake::grid_barrier), {"grid.sync() in a launch that is not cooperative"});
  expect_parts(fault(Mistake::leaves), {"a barrier that not all threads come to", "wait at a barrier of the cluster"});
}

#ifdef __SANITIZE_ADDRESS__
/// Block 0 writes to block 1, which reads; before the first barrier, between barriers, past the end, or after the last.
enum class Flaw { none, no_barrier_before, no_barrier_between, past_the_end, small_variable };

__global__ void flawed_kernel(int* out, Flaw flaw) {
  __shared__ int flag;
  int* const shared = ladder::dynamic_shared<int>();
  const auto cluster = cg::this_cluster();
  const int thread = int(threadIdx.x);
  if (blockIdx.x == 1) shared[thread] = 0;
  if (thread == 0) flag = 0;
  if (flaw != Flaw::no_barrier_before) cluster.sync();
  if (blockIdx.x == 0) {
    cluster.map_shared_rank(shared, 1)[thread + (flaw == Flaw::past_the_end ? 1 : 0)] = thread;
    if (thread == 0) *cluster.map_shared_rank(&flag, 1) = 1;
  }
  if (flaw != Flaw::no_barrier_between) cluster.sync();
  if (blockIdx.x == 1) out[thread] = shared[thread] + (flaw == Flaw::small_variable ? flag : 0);
  cluster.sync();
}

class SimtClusterRaces : public testing::Test {
 protected:
  void SetUp() override { before_ = simt_set_races(1); }
  void TearDown() override { simt_set_races(before_); }

 private:
  int before_ = 1;
};

TEST_F(SimtClusterRaces, AreFoundAcrossBlocks) {
  const auto fault = [](Flaw flaw) { return fault_of(flawed_kernel, 2, 32, 32 * sizeof(int), fresh(32), flaw); };
  for (int again = 0; again < 5; ++again) {
    EXPECT_EQ(fault(Flaw::none), "");
    EXPECT_EQ(fault(Flaw::small_variable), "");
    expect_parts(fault(Flaw::no_barrier_between), {"a race: thread ", " of block (0, 0, 0)", " of block (1, 0, 0)",
                                                   "dynamic shared memory", "put a this_cluster().sync() between"});
    expect_parts(fault(Flaw::no_barrier_before),
                 {" in the shared memory of block (1, 0, 0), which may not have begun: this_cluster().sync() must come "
                  "before it"});
    expect_parts(fault(Flaw::past_the_end),
                 {"a write of 4 bytes past the 128 bytes of dynamic shared memory of another block of the cluster"});
  }
}
#else
extern "C" {
void __tsan_write4(const void* address);
void __sanitizer_cov_trace_pc();
}

/// With the calls that a compiler puts into a module to be counted: a store to this block, and one to another.
__global__ void counted_kernel(bool sends) {
  __shared__ unsigned long long arrived;
  __shared__ int slots[64];
  const auto cluster = cg::this_cluster();
  __sanitizer_cov_trace_pc();
  cluster.sync();
  int* const there = cluster.map_shared_rank(slots, 1 - int(cluster.block_rank())) + threadIdx.x;
  if (sends) {
    cuda::ptx::st_async(there, 1, reinterpret_cast<uint64_t*>(&arrived));
  } else {
    __tsan_write4(there);
    *there = 1;
  }
  cluster.sync();
}

TEST(SimtClusters, CountsStoresToOtherBlocksAsOfSharedMemoryAndMessagesAsNone) {
  const auto counted = [](bool sends) {
    const std::string file = testing::TempDir() + "counted_cluster.txt";
    simt_start_counting();
    launch_cluster(counted_kernel, 2, 2, 64, 0, sends);
    EXPECT_EQ(simt_stop_counting(file.c_str()), 0);
    std::map<std::string, int> requests;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> word;
      for (std::string one; std::getline(words, one, '\t');) word.push_back(one);
      if (word[0] == "place") requests[word[3]] += std::stoi(word[5]);
    }
    return requests;
  };
  const auto plain = counted(false), sent = counted(true);
  EXPECT_EQ(plain.at("shared_store"), 4) << "an instruction of each warp";
  EXPECT_EQ(sent.count("shared_store"), 0u);
  EXPECT_EQ(sent.count("global_store") + plain.count("global_store"), 0u);
  EXPECT_EQ(sent.at("together"), 8) << "two of each warp";
  EXPECT_EQ(sent.count("global_atomic"), 0u) << "a barrier of the cluster is an instruction";
}
#endif

}  // namespace
