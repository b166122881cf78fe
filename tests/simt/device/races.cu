// What only shows on a GPU where threads truly run side by side: races, and whoever relies on the order of threads. For
// the CPU device only; races are looked for where the build has AddressSanitizer, the shuffled order is in every build.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <simt.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "../on_device.cuh"

namespace {

/// What the launch failed with, or an empty string.
template <class... P, class... A>
std::string fault_of(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... args) {
  cudaDeviceSynchronize();
  try {
    ladder::launch(kernel, grid, block, shared, nullptr, args...);
    cudaDeviceSynchronize();
  } catch (const ladder::Error&) {
  }
  const std::string sentence = simt_last_fault();
  if (!sentence.empty()) cudaDeviceReset();
  return sentence;
}

/// Device memory that a reset may take away.
template <class T>
T* fresh(size_t count) {
  T* memory = nullptr;
  ladder::check(cudaMalloc(&memory, count * sizeof(T)), "allocating");
  ladder::check(cudaMemset(memory, 0, count * sizeof(T)), "clearing");
  return memory;
}

// --------------------------------------------------------------------------------------------------- shuffled order

class SimtShuffle : public testing::Test {
 protected:
  void SetUp() override { before_ = simt_set_shuffle(0); }
  void TearDown() override { simt_set_shuffle(before_); }

 private:
  unsigned long long before_ = 0;
};

__global__ void tickets_kernel(int* next, int* thread_at, int* block_at) {
  __shared__ int rank;
  if (threadIdx.x == 0) rank = 0;
  __syncthreads();
  thread_at[blockIdx.x * blockDim.x + atomicAdd(&rank, 1)] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) block_at[atomicAdd(next, 1)] = int(blockIdx.x);
}

struct Order {
  std::vector<int> threads, blocks;
  bool operator==(const Order&) const = default;
};
Order order() {
  OnDevice<int> next(1), threads(40 * 96), blocks(40);
  ladder::launch(tickets_kernel, 40, 96, 0, nullptr, next, threads, blocks);
  return {threads.values(), blocks.values()};
}
std::vector<int> counted(int n) {
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}
std::vector<int> part(const std::vector<int>& all, int block) {
  return {all.begin() + block * 96, all.begin() + block * 96 + 96};
}

TEST_F(SimtShuffle, EachLaunchBlockAndIntervalHasAnotherOrder) {
  EXPECT_EQ(part(order().threads, 7), counted(96)) << "without a seed, threads run in their own order";
  simt_set_shuffle(11);
  const Order first = order(), second = order();
  simt_set_shuffle(11);
  const Order again = order();
  EXPECT_EQ(first.threads, again.threads) << "the same seed gives the same order";
  EXPECT_NE(first.threads, second.threads);
  EXPECT_NE(part(first.threads, 0), part(first.threads, 1));
  EXPECT_NE(first.blocks, counted(40));
  for (std::vector<int> all : {part(first.threads, 3), part(second.threads, 39)}) {
    EXPECT_NE(all, counted(96));
    std::ranges::sort(all);
    EXPECT_EQ(all, counted(96)) << "each thread runs once";
  }
  std::vector<int> blocks = first.blocks;
  std::ranges::sort(blocks);
  EXPECT_EQ(blocks, counted(40)) << "each block runs once";
}

// In a process of its own, where no test has set a seed.
TEST(SimtShuffleDeathTest, IsOnFromTheStartInACheckedBuild) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(part(order().threads, 7) == counted(96)), testing::ExitedWithCode(simt_is_checked() ? 0 : 1),
              "");
}

// Right where every thread runs in its turn, and only there: the neighbour's word is read without a barrier.
__global__ void no_barrier_kernel(int* out, int first) {
  __shared__ int part[64];
  part[threadIdx.x] = first + int(threadIdx.x);
  out[threadIdx.x] = threadIdx.x > 0 ? part[threadIdx.x - 1] / 2 : 0;
}

TEST_F(SimtShuffle, ShowsWhoReliesOnTheOrderOfThreads) {
  const bool races = simt_set_races(0);
  const auto neighbours = [](int first) {
    std::vector<int> expected = counted(64);
    for (int& i : expected) i = i > 0 ? (first + i - 1) / 2 : 0;
    return expected;
  };
  OnDevice<int> out(64);
  ladder::launch(no_barrier_kernel, 1, 64, 0, nullptr, out, 0);
  EXPECT_EQ(out.values(), neighbours(0));
  simt_set_shuffle(3);
  ladder::launch(no_barrier_kernel, 1, 64, 0, nullptr, out, 1000);
  EXPECT_NE(out.values(), neighbours(1000));
  simt_set_races(races);
}

// Everything a block can wait for, in any order.
__global__ void every_wait_kernel(int* out, int rounds) {
  __shared__ int part[128];
  int sum = 0;
  for (int r = 0; r < rounds; ++r) {
    part[threadIdx.x] = int(threadIdx.x) + r;
    __syncthreads();
    sum += part[(threadIdx.x + 1) % 128] + __shfl_xor_sync(0xffffffffu, int(threadIdx.x), 1);
    if (threadIdx.x % 2 == 0) sum += __popc(__ballot_sync(0x55555555u, 1));
    sum += __popc(__activemask()) == 32;
    __syncthreads();
  }
  if (threadIdx.x >= 100) return;
  out[blockIdx.x * 128 + threadIdx.x] = sum + int(__reduce_add_sync(0xffffffffu, 1u));
}

TEST_F(SimtShuffle, NothingElseChanges) {
  OnDevice<int> straight(20 * 128), shuffled(20 * 128);
  ladder::launch(every_wait_kernel, 20, 128, 0, nullptr, straight, 5);
  for (int seed = 1; seed < 20; ++seed) {
    simt_set_shuffle(seed);
    ladder::launch(every_wait_kernel, 20, 128, 0, nullptr, shuffled, 5);
    ASSERT_EQ(shuffled.values(), straight.values()) << "seed " << seed;
  }
}

// ------------------------------------------------------------------------------------------------------------- races

#ifdef __SANITIZE_ADDRESS__

int* ones(size_t count) {
  int* memory = fresh<int>(count);
  ladder::check(cudaMemset(memory, 1, count * sizeof(int)), "filling");
  return memory;
}

std::string at(int line) { return "races.cu:" + std::to_string(line); }

void expect_parts(const std::string& sentence, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(sentence.find(part), std::string::npos) << part << " is not in: " << sentence;
}

class SimtRaces : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    shuffle_ = simt_set_shuffle(0);
  }
  void TearDown() override {
    cudaDeviceReset();
    simt_set_races(true);
    simt_set_shuffle(shuffle_);
  }

 private:
  unsigned long long shuffle_ = 0;
};

constexpr int add_line = __LINE__ + 5;
__global__ void plain_sum_kernel(const int* x, int* out) {
  __shared__ int part[8];
  if (threadIdx.x < 8) part[threadIdx.x] = 0;
  __syncthreads();
  part[threadIdx.x % 8] += x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = part[threadIdx.x];
}

TEST_F(SimtRaces, AnAdditionThatIsNotAtomic) {
  const std::string fault = fault_of(plain_sum_kernel, 1, 64, 0, ones(64), fresh<int>(8));
  expect_parts(fault, {"a race: thread (0, 0, 0) and thread (8, 0, 0) of block (0, 0, 0) both touch 4 bytes of the "
                       "__shared__ variable 'part' (from its byte 0 on) between two barriers",
                       "a write at ", "a read at ", at(add_line), "in kernel plain_sum_kernel",
                       "put a __syncthreads() between, or use atomicAdd"});
  EXPECT_EQ(fault.find('\n'), std::string::npos);
  simt_set_races(false);
  EXPECT_EQ(fault_of(plain_sum_kernel, 1, 64, 0, ones(64), fresh<int>(8)), "");
}

// Scalars by their names: no call of the compiler stands there.
__global__ void scalar_kernel(int* out, int barrier) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  if (barrier) __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  out[threadIdx.x] = count;
}

TEST_F(SimtRaces, AScalarThatIsClearedWithoutABarrier) {
  EXPECT_EQ(fault_of(scalar_kernel, 1, 64, 0, fresh<int>(64), 1), "");
  expect_parts(fault_of(scalar_kernel, 1, 64, 0, fresh<int>(64), 0), {"'count'", "an atomic at"});
}

// As in v05, with a barrier left out: before the sums, between them, or not at all.
__global__ void block_sums_kernel(const int* x, int* sums, int left_out) {
  int* part = ladder::dynamic_shared<int>();
  if (threadIdx.x < 8) part[threadIdx.x] = 0;
  if (left_out != 1) __syncthreads();
  atomicAdd(&part[threadIdx.x % 8], x[threadIdx.x]);
  if (left_out != 2) __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&sums[threadIdx.x], part[threadIdx.x]);
}

TEST_F(SimtRaces, ABarrierThatIsMissing) {
  const auto fault = [](int left_out) {
    return fault_of(block_sums_kernel, 4, 64, 32, ones(64), fresh<int>(8), left_out);
  };
  EXPECT_EQ(fault(0), "");
  expect_parts(fault(1), {"dynamic shared memory", "a write at", "an atomic at"});
  expect_parts(fault(2), {"dynamic shared memory", "an atomic at", "between two barriers"});
}

// Two tiles one after the other: the second barrier keeps the next tile from being written too early.
__global__ void tiles_kernel(const int* x, int* out, int tiles, int barriers) {
  __shared__ int tile[64];
  int sum = 0;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = x[t * 64 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];
    if (barriers == 2) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

TEST_F(SimtRaces, ASecondBarrierThatIsMissing) {
  EXPECT_EQ(fault_of(tiles_kernel, 1, 64, 0, fresh<int>(192), fresh<int>(64), 3, 2), "");
  expect_parts(fault_of(tiles_kernel, 1, 64, 0, fresh<int>(192), fresh<int>(64), 3, 1),
               {"'tile'", "a read at", "a write at"});
}

__global__ void same_word_kernel(int* out) {
  if (threadIdx.x == 0) out[0] = int(blockIdx.x);
}
__global__ void same_value_kernel(int* flag) { flag[threadIdx.x / 32] = 1; }

TEST_F(SimtRaces, BlocksHaveNoOrder) {
  const std::string fault = fault_of(same_word_kernel, 2, 32, 0, fresh<int>(4));
  expect_parts(fault, {"of block (", "4 bytes of a device allocation of 16 bytes (from its byte 0 on) in one launch",
                       "blocks of a launch have no order"});
  EXPECT_EQ(fault_of(same_word_kernel, 1, 32, 0, fresh<int>(4)), "");
  int* const x = fresh<int>(4);
  EXPECT_EQ(fault_of(same_word_kernel, 1, 32, 0, x), "");
  EXPECT_EQ(fault_of(same_word_kernel, 1, 32, 0, x), "") << "launches have an order";
}

// compute-sanitizer's racecheck calls it a hazard, too.
TEST_F(SimtRaces, TheSameValueWrittenTwiceIsARace) {
  expect_parts(fault_of(same_value_kernel, 1, 32, 0, fresh<int>(1)), {"a write at"});
}

__global__ void atomic_and_plain_kernel(int* count, int* out) {
  atomicAdd(count, 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = *count;
}
__device__ int device_totals[4];
__global__ void device_variable_kernel(int by_atomic) {
  if (by_atomic)
    atomicAdd(&device_totals[threadIdx.x % 4], 1);
  else
    device_totals[threadIdx.x % 4] += 1;
}

TEST_F(SimtRaces, AtomicsAgainstPlainAccesses) {
  expect_parts(fault_of(atomic_and_plain_kernel, 1, 32, 0, fresh<int>(1), fresh<int>(32)),
               {"an atomic at", "a read at", "not both atomically"});
  void* address = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&address, device_totals), cudaSuccess);
  EXPECT_EQ(fault_of(device_variable_kernel, 2, 32, 0, 1), "");
  expect_parts(fault_of(device_variable_kernel, 1, 32, 0, 0), {"a __device__ variable"});
}

// ---- bytes

__global__ void bytes_kernel(unsigned char* x, unsigned short* y, int shift) {
  x[threadIdx.x] = 1;
  y[threadIdx.x] = 2;
  if (shift > 0 && threadIdx.x == 5) x[threadIdx.x + shift] = 1;
}
struct Three {
  char a[3];
};
__global__ void threes_kernel(Three* x) { x[threadIdx.x] = Three{{1, 2, 3}}; }
__global__ void wide_kernel(double2* x, float* y) {
  if (threadIdx.x == 0) x[0] = make_double2(1, 2);
  if (threadIdx.x == 1) y[3] = 1;
}

TEST_F(SimtRaces, EachByteIsOneOfItsOwn) {
  EXPECT_EQ(fault_of(bytes_kernel, 1, 64, 0, fresh<unsigned char>(65), fresh<unsigned short>(64), 0), "");
  EXPECT_EQ(fault_of(threes_kernel, 1, 64, 0, fresh<Three>(64)), "");
  expect_parts(fault_of(bytes_kernel, 1, 64, 0, fresh<unsigned char>(65), fresh<unsigned short>(64), 1),
               {"both touch 1 bytes"});
  auto* const x = fresh<double2>(1);
  expect_parts(fault_of(wide_kernel, 1, 32, 0, x, reinterpret_cast<float*>(x)), {"(from its byte 12 on)"});
}

// ---- warps: their operations order the lanes that take part

__global__ void warp_reduce_kernel(const int* x, int* out, int by_warp) {
  __shared__ int part[64];
  part[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  for (int step = 16; step > 0; step /= 2) {
    const int other = threadIdx.x % 32 < unsigned(step) ? part[threadIdx.x + step] : 0;
    if (by_warp) __syncwarp();
    part[threadIdx.x] += other;
    if (by_warp) __syncwarp();
  }
  out[threadIdx.x] = part[threadIdx.x / 32 * 32];
}
__global__ void half_warp_kernel(int* out, int reach) {
  __shared__ int part[32];
  const unsigned half = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  part[threadIdx.x] = int(threadIdx.x);
  __shfl_sync(half, 1, 0, 16);
  out[threadIdx.x] = part[(threadIdx.x + reach) % 32];
}
__global__ void chain_kernel(int* out) {
  __shared__ int word;
  if (threadIdx.x == 0) word = 7;
  if (threadIdx.x < 2) __syncwarp(0b011u);
  if (threadIdx.x == 1 || threadIdx.x == 2) __syncwarp(0b110u);
  if (threadIdx.x == 2) *out = word;
}
__global__ void tile_kernel(int* out) {
  __shared__ int part[64];
  const auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
  part[threadIdx.x] = int(threadIdx.x);
  tile.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 7];
}

TEST_F(SimtRaces, WarpOperationsOrderTheirLanes) {
  EXPECT_EQ(fault_of(warp_reduce_kernel, 1, 64, 0, fresh<int>(64), fresh<int>(64), 1), "");
  expect_parts(fault_of(warp_reduce_kernel, 1, 64, 0, ones(64), fresh<int>(64), 0), {"'part'"});
  EXPECT_EQ(fault_of(half_warp_kernel, 1, 32, 0, fresh<int>(32), 0), "");
  expect_parts(fault_of(half_warp_kernel, 1, 32, 0, fresh<int>(32), 16), {"'part'"});
  EXPECT_EQ(fault_of(chain_kernel, 1, 32, 0, fresh<int>(1)), "") << "what a lane has seen it passes on";
  EXPECT_EQ(fault_of(tile_kernel, 1, 64, 0, fresh<int>(64)), "");
}

// ---- grid barriers, fences, locks

__global__ void grid_kernel(int* a, int* b, int barriers) {
  const auto grid = cooperative_groups::this_grid();
  const unsigned i = unsigned(grid.thread_rank()), n = unsigned(grid.size());
  a[i] = int(i);
  grid.sync();
  b[i] = a[(i + 32) % n];
  if (barriers == 2) grid.sync();
  a[i] = b[i];
}

TEST_F(SimtRaces, GridBarriersOrderBlocks) {
  const auto fault = [](int barriers) {
    int *a = fresh<int>(96), *b = fresh<int>(96);
    void* arguments[] = {&a, &b, &barriers};
    cudaLaunchCooperativeKernel(grid_kernel, 3, 32, arguments);
    const std::string sentence = simt_last_fault();
    cudaDeviceReset();
    return sentence;
  };
  EXPECT_EQ(fault(2), "");
  EXPECT_EQ(fault(2), "");
  expect_parts(fault(1), {"a race", "in one launch"});
}

// The last block to end adds up what the others left (CUDA's sample threadFenceReduction).
__global__ void last_block_kernel(int* parts, unsigned* ended, int* sum, int fence) {
  __shared__ bool last;
  parts[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (fence) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ended, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  int own = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) own += parts[b * blockDim.x + threadIdx.x];
  atomicAdd(sum, own);
}

TEST_F(SimtRaces, FencesWithAtomicsOrderBlocks) {
  int* const sum = fresh<int>(1);
  EXPECT_EQ(fault_of(last_block_kernel, 50, 64, 0, fresh<int>(50 * 64), fresh<unsigned>(1), sum, 1), "");
  int total = 0;
  cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDeviceToHost);
  EXPECT_EQ(total, 50 * 64);
  expect_parts(fault_of(last_block_kernel, 50, 64, 0, fresh<int>(50 * 64), fresh<unsigned>(1), sum, 0),
               {"a race", "in one launch"});
}

__global__ void lock_kernel(int* lock, int* sum, int locked, int rounds) {
  if (threadIdx.x != 0) return;
  for (int r = 0; r < rounds; ++r) {
    while (locked && atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *sum += 1;
    __threadfence();
    if (locked) atomicExch(lock, 0);
  }
}

// Many rounds: a block that waits for the lock while another gives it back must see what that one did.
TEST_F(SimtRaces, LocksOrderBlocks) {
  for (int launch = 0; launch < 5; ++launch)
    ASSERT_EQ(fault_of(lock_kernel, 30, 32, 0, fresh<int>(1), fresh<int>(1), 1, 200), "");
  expect_parts(fault_of(lock_kernel, 30, 32, 0, fresh<int>(1), fresh<int>(1), 0, 1), {"a race"});
}

// ---- and under every order of threads

TEST_F(SimtRaces, RightKernelsPassInAnyOrder) {
  for (int seed = 1; seed < 10; ++seed) {
    simt_set_shuffle(seed);
    EXPECT_EQ(fault_of(block_sums_kernel, 9, 64, 32, fresh<int>(64), fresh<int>(8), 0), "");
    EXPECT_EQ(fault_of(tiles_kernel, 1, 64, 0, fresh<int>(192), fresh<int>(64), 3, 2), "");
    EXPECT_EQ(fault_of(warp_reduce_kernel, 1, 64, 0, fresh<int>(64), fresh<int>(64), 1), "");
    EXPECT_EQ(fault_of(chain_kernel, 1, 32, 0, fresh<int>(1)), "");
    EXPECT_EQ(fault_of(last_block_kernel, 20, 64, 0, fresh<int>(20 * 64), fresh<unsigned>(1), fresh<int>(1), 1), "");
    EXPECT_EQ(fault_of(lock_kernel, 30, 32, 0, fresh<int>(1), fresh<int>(1), 1, 1), "");
    EXPECT_NE(fault_of(block_sums_kernel, 4, 64, 32, fresh<int>(64), fresh<int>(8), 1), "");
  }
}

#endif

}  // namespace
