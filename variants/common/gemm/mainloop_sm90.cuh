// The mainloop of v29_multicast and later rungs: persistent, warp-specialised, ping-pong. A block is three warpgroups:
// one thread of the last is the producer and keeps the ring of centroids full; each of the other two, the consumers,
// has 64 points and multiplies them with a tile of centroids, or runs the epilogue of its last tile while the other
// consumer multiplies. Blocks are persistent: clusters of two go from one work tile, 256 points, to the next. Points
// whose features fit in registers are loaded once per work tile; longer ones are streamed, a k-block ahead of their
// products. v29_multicast introduces it.
#pragma once
#include <type_traits>

#include "../certified/error_bound.cuh"
#include "../device/tma_pipeline.cuh"
#include "ping_pong_sm90.cuh"
#include "wgmma_widths_sm90.cuh"

namespace ladder {

// ---- the kernel for a shape

struct MainloopPlan {
  int columns;    // centroids of a tile
  int k_block;    // stages, 32 features each, of which the points are in registers at a time
  bool streamed;  // a point has more features than a k-block
  int steps;      // of 16 features, padded to whole k-blocks
};

static_assert(stage_steps % cluster_size == 0, "each block of a cluster fetches an equal share of a stage");

/// Tiles of 168 columns, the most whose accumulators leave registers for k-blocks of 512 features, or of 128 where
/// these pad the centroids less. The smallest k-block that holds all features; beyond 16 stages, 128 registers, the one
/// that pads least of those long enough that a point's next features arrive from the L2 cache in time.
constexpr MainloopPlan plan_mainloop(int k, int d) {
  const auto whole = [](int count, int of) { return (count + of - 1) / of * of; };
  MainloopPlan plan{.columns = whole(k, 128) < whole(k, 168) ? 128 : 168, .k_block = 0, .streamed = false, .steps = 0};
  const int stages = whole(d, stage_depth) / stage_depth;
  for (const int k_block : {16, 13, 10, 8, 6, 4, 2, 1}) {
    if (stages <= k_block) plan.k_block = k_block;
  }
  plan.streamed = plan.k_block == 0;
  if (plan.streamed) {
    for (const int k_block : {8, 7, 5}) {
      if (plan.k_block == 0 || whole(stages, k_block) < whole(stages, plan.k_block)) plan.k_block = k_block;
    }
  }
  plan.steps = whole(stages, plan.k_block) * stage_steps;
  return plan;
}

/// Calls body.template operator()<columns, k_block, streamed>() of the plan.
template <class F>
void dispatch_plan(const MainloopPlan& plan, F body) {
  dispatch<128, 168>(plan.columns, [&]<int columns>() {
    if (plan.streamed) {
      dispatch<5, 7, 8>(plan.k_block, [&]<int k_block>() { body.template operator()<columns, k_block, true>(); });
    } else {
      dispatch<1, 2, 4, 6, 8, 10, 13, 16>(plan.k_block,
                                          [&]<int k_block>() { body.template operator()<columns, k_block, false>(); });
    }
  });
}

/// For products that need no data beside them.
struct NoFacts {};

/// `Facts`: the data of each centroid that follow the halves of its tile. Product: float, or int for a product of bytes
/// (integers/wgmma_bytes.cuh), of which a row has two in the place of each half.
template <int columns, class Facts = CentroidBound, class Product = float>
struct MainloopSm90 {
  static constexpr int width = columns;
  static constexpr int groups = 2;  // consumers of a block
  static constexpr int readers = groups * warpgroup_threads, block = readers + warpgroup_threads;
  static constexpr int rows = groups * warpgroup_rows;      // points of a block
  static constexpr int cluster_rows = cluster_size * rows;  // of a cluster
  static constexpr int stage_bytes = stage_steps * step_bytes<columns>;
  static constexpr bool with_facts = !std::is_empty_v<Facts>;
  static constexpr int facts_bytes = with_facts ? columns * int(sizeof(Facts)) : 0;
  static constexpr int slots = columns > 128 ? 20 : 26;  // 210 or 208 KB of the 227 KB that a block can have
  static constexpr size_t tile_bytes(int steps) { return size_t(steps) * step_bytes<columns> + facts_bytes; }
  static int64_t padded_rows(int n) { return (int64_t(n) + cluster_rows - 1) / cluster_rows * cluster_rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }
  /// Blocks of a launch for n points: as many clusters as run at a time.
  static int grid(int n, int multiprocessors) {
    return int(std::min<int64_t>(multiprocessors / cluster_size * cluster_size, padded_rows(n) / rows));
  }

#ifdef __CUDACC__
  using Ring = TmaPipeline<slots, stage_bytes, readers / 32>;
  /// 168 at launch, 65,536 / 384 rounded down to a multiple of 8: the producer's are moved to the consumers.
  static constexpr int consumer_registers = 240, producer_registers = 24;
  static_assert(groups * consumer_registers + producer_registers <= 3 * 168);

  /// For each 64 points in turn, `row` the first of them, calls prologue(row), epilogue(first, facts, products) for
  /// each tile of centroids first .. first + columns - 1, and finish(row), by the consumer that holds them. These are
  /// called by whole warps, and return converged. Dynamic shared memory: Ring::bytes, and what the caller adds. x:
  /// a_fragment_offset(), padded_rows(n) rows; c: tile by tile, b_smem_offset() and the tile's Facts, padded_columns(k)
  /// columns. `odd`: the last step of the points' one k-block is zeros, and is not multiplied.
  template <int k_block, bool streamed, bool odd = false, class Prologue, class Epilogue, class Finish>
  __device__ static void multiply(const uint4* __restrict__ x, const unsigned char* __restrict__ c, int n, int k,
                                  int steps, const Prologue& prologue, const Epilogue& epilogue, const Finish& finish) {
    // No deadlock: a turn is a k-block. A consumer that waits for its turn may still hold the last slot of its k-block
    // before, and the facts after it; meanwhile the other consumer reads a k-block, and facts. A ring that does not
    // hold all of these never becomes free again: both would wait for ever.
    static_assert(slots >= k_block + 3 && !(odd && streamed));
    constexpr auto multiplied = [](int i, int s) { return !odd || i + 1 < k_block || s + 1 < stage_steps; };
    const Ring ring(dynamic_shared<unsigned char>());
    ring.init();
    // Clusters deal out the work tiles. Both blocks of a cluster process the same number of them, because each fetches
    // half of what the other reads.
    const int work_tiles = int((int64_t(n) + cluster_rows - 1) / cluster_rows), clusters = gridDim.x / cluster_size;
    const int first_work_tile = blockIdx.x / cluster_size, tiles = (k + columns - 1) / columns;
    PipelineState state;
    if (threadIdx.x >= readers) {  // the producer
      warpgroup_reg_dealloc<producer_registers>();
      if (threadIdx.x == readers) {
        for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
          const unsigned char* from = c;
          for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll 1  // keeps the 24 registers
            for (int step = 0; step < steps; step += stage_steps, from += stage_bytes)
              ring.produce(state, from, stage_bytes);
            if constexpr (with_facts) ring.produce(state, from, facts_bytes);
            from += facts_bytes;
          }
        }
      }
    } else {  // the consumers
      warpgroup_reg_alloc<consumer_registers>();
      const int group = threadIdx.x / warpgroup_threads;
      const OrderedBarrier turns(group);
      const auto first_row = [&](int work_tile) {
        return (int64_t(work_tile) * cluster_size + ring.rank) * rows + group * warpgroup_rows;
      };
      constexpr int stage_pitch = stage_steps * warpgroup_threads;  // of a stage's fragments, in uint4
      const auto fragments = [&](int work_tile) {
        return x + first_row(work_tile) / warpgroup_rows * steps * warpgroup_threads + threadIdx.x % warpgroup_threads;
      };
      FragmentA a[k_block][stage_steps];
      const auto load = [&](int i, const uint4* from) {  // stage i of the k-block at `from`
#pragma unroll
        for (int s = 0; s < stage_steps; ++s) {
          if (!multiplied(i, s)) continue;
          const uint4 words = __ldcg(from + i * stage_pitch + s * warpgroup_threads);
          a[i][s] = {words.x, words.y, words.z, words.w};
        }
      };
#pragma unroll
      for (int i = 0; i < k_block; ++i) load(i, fragments(first_work_tile));
      for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
        prologue(first_row(work_tile));
        for (int tile = 0; tile < tiles; ++tile) {
          // The work tile of the next tile's points.
          const int next_work_tile =
              tile + 1 == tiles && work_tile + clusters < work_tiles ? work_tile + clusters : work_tile;
          // Declared in the loop: if it lived on to the next tile, the compiler would carry it as the epilogue's
          // integers and copy it while products are added to it.
          Product product[columns / 2];
          int previous = 0;  // the slot of the stage before
          const uint4* current = streamed ? fragments(work_tile) : nullptr;
          for (int done = 0; done < (streamed ? steps : 1); done += k_block * stage_steps) {
            const uint4* ahead = nullptr;
            if constexpr (streamed)
              ahead =
                  done + k_block * stage_steps < steps ? current + k_block * stage_pitch : fragments(next_work_tile);
            turns.take();
#pragma unroll
            for (int i = 0; i < k_block; ++i) {
              ring.consumer_wait(state);
              warpgroup_arrive();
              const uint64_t b = descriptor<columns>(ring.slot(state));
#pragma unroll
              for (int s = 0; s < stage_steps; ++s) {
                if (!multiplied(i, s)) continue;
                wgmma<columns>(product, a[i][s], b + s * descriptor_offset(step_bytes<columns>),
                               done > 0 || i > 0 || s > 0);
              }
              warpgroup_commit();
              // With these in flight, the ones before have ended: their slot is free, and so are their registers of A.
              if (done > 0 || i > 0) {
                warpgroup_wait<1>();
                ring.consumer_release(previous);
                if constexpr (streamed) load((i + k_block - 1) % k_block, i > 0 ? ahead : current);
              }
              previous = state.slot;
              state.advance(slots);
            }
            turns.pass();  // all are issued: the other consumer's follow them
            current = ahead;
          }
          warpgroup_wait_for(product);
          ring.consumer_release(previous);
          if constexpr (streamed) {
            load(k_block - 1, fragments(next_work_tile));
          } else if (next_work_tile != work_tile) {
#pragma unroll
            for (int i = 0; i < k_block; ++i) load(i, fragments(next_work_tile));
          }
          if constexpr (with_facts) {
            ring.consumer_wait(state);
            epilogue(tile * columns,
                     reinterpret_cast<const Facts*>(dynamic_shared<unsigned char>() + state.slot * stage_bytes),
                     product);
            __syncwarp();  // all lanes have read the facts
            ring.consumer_release(state.slot);
            state.advance(slots);
          } else {
            epilogue(tile * columns, NoFacts{}, product);
          }
        }
        finish(first_row(work_tile));
      }
      turns.finish();
    }
    ring.finish();
  }
#endif
};

}  // namespace ladder
