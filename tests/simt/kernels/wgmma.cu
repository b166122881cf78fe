// Where a warpgroup's products and a ring of bulk copies have what: arithmetic, held against the tables of the PTX ISA
// as they are written there. The instructions themselves are for a GPU: tests/cuda/wgmma.cu.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "../../../variants/common/device/tma_pipeline.cuh"
#include "../../../variants/common/gemm/mainloop_sm90.cuh"

namespace {
using namespace ladder;

// -------------------------------------------------------------------------------------------- as the PTX ISA has it

struct Element {
  int row, column;
};

/// A, .m64nNk16, 16-bit: element i of eight of a thread of the warpgroup. Two neighbours are a register.
Element ptx_a(int thread, int i) {
  const int lane = thread % 32;
  const int row = lane / 4 + (i == 2 || i == 3 || i == 6 || i == 7 ? 8 : 0);
  return {thread / 32 * 16 + row, lane % 4 * 2 + i % 2 + (i >= 4 ? 8 : 0)};
}

/// D, .m64nNk16, .f32: element i of N / 2 of a thread.
Element ptx_d(int thread, int i) {
  const int lane = thread % 32;
  return {thread / 32 * 16 + lane / 4 + (i % 4 >= 2 ? 8 : 0), i / 4 * 8 + lane % 4 * 2 + i % 2};
}

/// B, K-major without swizzle: the byte in shared memory of the half (k, n), by a matrix descriptor.
int ptx_b(uint64_t descriptor, int k, int n) {
  EXPECT_EQ(descriptor >> 46, 0u) << "base offset, swizzle and unused bits";
  EXPECT_EQ(descriptor >> 14 & 3, 0u);
  EXPECT_EQ(descriptor >> 30 & 3, 0u);
  const int start = int(descriptor & 0x3fff) * 16, leading = int(descriptor >> 16 & 0x3fff) * 16,
            stride = int(descriptor >> 32 & 0x3fff) * 16;
  return start + k / 8 * leading + n / 8 * stride + n % 8 * 16 + k % 8 * 2;
}

TEST(Wgmma, EachThreadHoldsTheElementsThatThePtxIsaSays) {
  std::vector<int> held(warpgroup_rows * 168);
  for (int thread = 0; thread < warpgroup_threads; ++thread) {
    for (int e = 0; e < 168 / 2; ++e) {
      const auto [row, column] = ptx_d(thread, e);
      EXPECT_EQ(accumulator_row(thread, e), row);
      EXPECT_EQ(accumulator_column(thread, e), column);
      ++held[accumulator_row(thread, e) * 168 + accumulator_column(thread, e)];
    }
  }
  EXPECT_EQ(held, std::vector<int>(warpgroup_rows * 168, 1)) << "each element once";
  // From the figure of D: the last thread of the first warp, its third and last elements; the first of the last warp.
  EXPECT_EQ(accumulator_row(31, 2), 15);
  EXPECT_EQ(accumulator_column(31, 2), 6);
  EXPECT_EQ(accumulator_column(31, 83), 167);
  EXPECT_EQ(accumulator_row(96, 0), 48);
}

TEST(Wgmma, PointsLieInTheOrderOfTheirRegisters) {
  constexpr int steps = 3;
  for (const int64_t first : {0, 64, 192}) {
    for (int step = 0; step < steps; ++step)
      for (int thread = 0; thread < warpgroup_threads; ++thread)
        for (int i = 0; i < 8; i += 2) {
          const auto [row, k] = ptx_a(thread, i);
          const int64_t fragment = (first / 64 * steps + step) * warpgroup_threads + thread;
          EXPECT_EQ(a_fragment_offset(first + row, (step * mma_depth + k) / 2, steps), fragment * 4 + i / 2);
        }
  }
}

template <int columns>
void centroids_are_where_the_descriptor_says() {
  for (const int address : {0, 16, 4080, 200 << 10}) {
    for (int step = 0; step < 3; ++step) {
      const uint64_t b = descriptor<columns>(address) + step * descriptor_offset(step_bytes<columns>);
      ASSERT_EQ(b, descriptor<columns>(address + step * step_bytes<columns>));
      for (int k = 0; k < mma_depth; k += 2)
        for (int n = 0; n < columns; ++n)
          ASSERT_EQ(address + 4 * b_smem_offset<columns>(n, (step * mma_depth + k) / 2), ptx_b(b, k, n))
              << "k " << k << ", n " << n << ", step " << step;
    }
  }
  using Tile = MainloopSm90<columns>;
  EXPECT_EQ(4 * b_smem_offset<columns>(0, 7 * mma_depth / 2), 7 * step_bytes<columns>) << "steps follow each other";
  EXPECT_EQ(Tile::stage_bytes % (16 * cluster_size), 0) << "each block fetches whole 16 bytes";
  EXPECT_EQ(Tile::facts_bytes % (16 * cluster_size), 0);
  EXPECT_LE(Tile::facts_bytes, Tile::stage_bytes);
  EXPECT_EQ((MainloopSm90<columns, NoFacts>::tile_bytes(3)), 3 * step_bytes<columns>) << "nothing but halves";
}

TEST(Wgmma, CentroidsAreWhereTheDescriptorSays) {
  centroids_are_where_the_descriptor_says<128>();
  centroids_are_where_the_descriptor_says<168>();
}

TEST(Wgmma, AProductByThePtxIsaOfWhatLiesThereIsTheProduct) {
  constexpr int rows = 128, columns = 128, steps = 2, depth = steps * mma_depth;
  const auto x = [](int i, int f) { return (i * 7 + f * 3) % 23 - 11; };
  const auto c = [](int j, int f) { return (j * 5 + f * 11) % 19 - 9; };
  std::vector<std::array<int, 2>> points(rows * depth / 2), tile(columns * depth / 2);
  for (int word = 0; word < depth / 2; ++word) {
    for (int i = 0; i < rows; ++i) points[a_fragment_offset(i, word, steps)] = {x(i, 2 * word), x(i, 2 * word + 1)};
    for (int j = 0; j < columns; ++j) tile[b_smem_offset<columns>(j, word)] = {c(j, 2 * word), c(j, 2 * word + 1)};
  }
  for (int group = 0; group < rows / warpgroup_rows; ++group) {
    std::vector<int> d(warpgroup_rows * columns);
    for (int step = 0; step < steps; ++step) {
      std::array<std::array<int, mma_depth>, warpgroup_rows> a{};
      for (int thread = 0; thread < warpgroup_threads; ++thread)
        for (int i = 0; i < 8; ++i) {
          const auto [row, k] = ptx_a(thread, i);
          a[row][k] = points[((group * steps + step) * warpgroup_threads + thread) * 4 + i / 2][i % 2];
        }
      const uint64_t b = descriptor<columns>(0) + step * descriptor_offset(step_bytes<columns>);
      for (int k = 0; k < mma_depth; ++k)
        for (int n = 0; n < columns; ++n) {
          const int at = ptx_b(b, k, n) / 2;
          for (int row = 0; row < warpgroup_rows; ++row) d[row * columns + n] += a[row][k] * tile[at / 2][at % 2];
        }
    }
    for (int row = 0; row < warpgroup_rows; ++row)
      for (int n = 0; n < columns; ++n) {
        int exact = 0;
        for (int f = 0; f < depth; ++f) exact += x(group * warpgroup_rows + row, f) * c(n, f);
        ASSERT_EQ(d[row * columns + n], exact) << group << ", " << row << ", " << n;
      }
  }
}

TEST(Wgmma, EveryShapeHasAKernelThatTakesAllItsFeatures) {
  for (const int k : {1, 100, 128, 129, 168, 1000, 5000, 1'000'000}) {
    for (int d = 1; d <= 4096; ++d) {
      const MainloopPlan plan = plan_mainloop(k, d);
      ASSERT_GE(plan.steps * mma_depth, d);
      ASSERT_EQ(plan.steps % (plan.k_block * stage_steps), 0);
      ASSERT_EQ(plan.streamed, plan.steps > plan.k_block * stage_steps);
      ASSERT_EQ(plan.streamed, d > 16 * stage_depth) << "registers hold 512 features";
      bool compiled = false;
      dispatch_plan(plan, [&]<int columns, int k_block, bool streamed>() {
        compiled = columns == plan.columns && k_block == plan.k_block && streamed == plan.streamed;
      });
      ASSERT_TRUE(compiled);
    }
  }
  EXPECT_EQ(plan_mainloop(5000, 408).columns, 168);
  EXPECT_EQ(plan_mainloop(5000, 408).steps, 26);
  EXPECT_EQ(plan_mainloop(40'000, 484).steps, 32);
  EXPECT_EQ(plan_mainloop(256, 784).columns, 128);
  EXPECT_EQ(plan_mainloop(1000, 784).steps, 50) << "49 and one to end the stage";
}

// ------------------------------------------------------------------------------------------------------------ the ring

/// An mbarrier, as the PTX ISA has it: a phase ends when all have arrived and all announced bytes have come.
struct Barrier {
  int expected = 0, pending = 0, bytes = 0;
  uint32_t phase = 0;
  explicit Barrier(int count) : expected(count), pending(count) {}
  void arrive(int announced = 0) {
    ASSERT_GT(pending, 0) << "more arrivals than the phase has";
    bytes += announced, --pending;
    end();
  }
  void come(int count) {
    bytes -= count;
    end();
  }
  /// try_wait.parity: has the phase of this parity ended? Of a new barrier, that of parity 1 has.
  bool ended(uint32_t parity) const { return (phase & 1) != parity; }

 private:
  void end() {
    if (pending == 0 && bytes == 0) ++phase, pending = expected;
  }
};

/// Two blocks, of each a producer and two readers, in an order that is drawn; copies come when they like. The readers
/// take turns of `window` pieces, and give a slot back when they have read the next one, as warpgroups do. Does it end?
bool go_round(int slots, int k_block, int pieces, uint32_t seed) {
  constexpr int readers = 2, half = 16;
  std::mt19937 random(seed);
  struct Copy {
    int block, slot, part, piece;
  };
  struct Agent {
    PipelineState at;
    int piece = 0;
    bool reading = false;
    int held = -1;  // the slot that was read last
  };
  std::array<int, cluster_size> turn{};  // of the readers of a block: 0, 1, 0, ...
  std::vector<std::vector<Barrier>> full(cluster_size, std::vector<Barrier>(slots, Barrier(1)));
  std::vector<std::vector<Barrier>> empty(cluster_size, std::vector<Barrier>(slots, Barrier(cluster_size * readers)));
  std::vector<std::array<int, cluster_size>> memory(cluster_size * slots, {-1, -1});
  std::vector<Copy> copies;
  std::array<Agent, cluster_size*(1 + readers)> agents;  // first the producers
  const auto step = [&](int who) {
    Agent& agent = agents[who];
    const int block = who % cluster_size, slot = agent.at.slot;
    if (agent.piece == pieces) return false;
    if (who < cluster_size) {
      if (!empty[block][slot].ended(agent.at.emptied())) return false;
      full[block][slot].arrive(cluster_size * half);
      for (int to = 0; to < cluster_size; ++to) copies.push_back({to, slot, block, agent.piece});
    } else {
      const auto release = [&](int which) {
        for (int to = 0; to < cluster_size; ++to) empty[to][which].arrive();
      };
      if (agent.piece % k_block == 0 && turn[block] % readers != who / cluster_size - 1) return false;
      if (!agent.reading) return agent.reading = full[block][slot].ended(agent.at.filled());
      for (const int part : memory[block * slots + slot]) EXPECT_EQ(part, agent.piece);
      if (agent.held >= 0) release(agent.held);
      agent.held = slot;
      agent.reading = false;
      if (agent.piece % k_block == k_block - 1) ++turn[block];
      if (agent.piece + 1 == pieces) release(slot);
    }
    ++agent.piece;
    agent.at.advance(slots);
    return true;
  };
  for (int idle = 0; idle < 1000; ++idle) {
    const unsigned choice = random() % (agents.size() + 4);
    if (choice < agents.size()) {
      if (step(int(choice))) idle = 0;
    } else if (!copies.empty()) {
      const size_t which = random() % copies.size();
      const Copy copy = copies[which];
      copies.erase(copies.begin() + long(which));
      memory[copy.block * slots + copy.slot][copy.part] = copy.piece;
      full[copy.block][copy.slot].come(half);
      idle = 0;
    }
    if (testing::Test::HasFailure()) return true;
  }
  return std::all_of(agents.begin(), agents.end(), [&](const Agent& agent) { return agent.piece == pieces; });
}

TEST(TmaPipeline, EveryPieceIsReadByAllBeforeItsSlotIsFilledAgain) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const int k_block = 1 + int(seed % 3);
    EXPECT_TRUE(go_round(k_block + 1 + int(seed % 4), k_block, 24, seed)) << "waits for ever";
  }
}

TEST(TmaPipeline, ARingThatHoldsNoMoreThanATurnIsNeverFreeAgain) {
  for (uint32_t seed = 0; seed < 10; ++seed) EXPECT_FALSE(go_round(3, 3, 24, seed)) << seed;
}

}  // namespace
