// All products of points with all centroids, by warpgroups, tile by tile, none of them written to memory. A block is
// three warpgroups: one thread of the last keeps the ring of centroids full; each of the others has 64 points, which it
// multiplies with a tile of centroids, and looks at the products while the other one multiplies. Blocks stay: clusters
// of two go from 256 points to the next 256. v23_multicast introduces it.
#pragma once
#include <type_traits>

#include "../certified/error_bound.cuh"
#include "tma_pipeline.cuh"
#include "wgmma_sm90.cuh"

namespace ladder {

// ---- which kernel a shape gets

struct MainloopPlan {
  int columns;    // centroids of a tile
  int k_block;    // stages, 32 features each, whose points are in registers at a time
  bool streamed;  // are a point's features more than a window?
  int steps;      // of 16 features, those of all windows
};

constexpr int stage_steps = cluster_size;  // each block of a cluster fetches one step of a stage
constexpr int stage_depth = stage_steps * mma_depth;

/// Of the tiles of 168 and of 128, those that fewer centroids are added to; 168 where it is the same. Of the windows
/// that hold all features the smallest. Where 16, 128 registers, do not, the one that fewest stages are added to: each
/// is long enough that a point's next features come from the L2 cache while others are multiplied.
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

/// Calls body.template operator()<columns, window, streamed>() of the plan.
template <class F>
void with_kernel(const MainloopPlan& plan, F body) {
  dispatch<128, 168>(plan.columns, [&]<int columns>() {
    if (plan.streamed) {
      dispatch<5, 7, 8>(plan.k_block, [&]<int k_block>() { body.template operator()<columns, k_block, true>(); });
    } else {
      dispatch<1, 2, 4, 6, 8, 10, 13, 16>(plan.k_block,
                                          [&]<int k_block>() { body.template operator()<columns, k_block, false>(); });
    }
  });
}

/// Of a tile whose products say all that is asked: nothing beside them.
struct NoFacts {};

/// `Facts`: what a tile has of each centroid beside its halves.
template <int columns, class Facts = CentroidBound>
struct MainloopSm90 {
  static constexpr int width = columns;
  static constexpr int groups = 2;  // of a block; the third multiplies nothing
  static constexpr int readers = groups * warpgroup_threads, block = readers + warpgroup_threads;
  static constexpr int rows = groups * warpgroup_rows;      // points of a block
  static constexpr int cluster_rows = cluster_size * rows;  // of a cluster
  static constexpr int stage_bytes = stage_steps * step_bytes<columns>;
  static constexpr bool with_facts = !std::is_empty_v<Facts>;
  static constexpr int facts_bytes = with_facts ? columns * int(sizeof(Facts)) : 0;
  static constexpr int slots = columns == 168 ? 20 : 26;  // 210 KB or 208 of the 227 that a block can have
  static constexpr size_t tile_bytes(int steps) { return size_t(steps) * step_bytes<columns> + facts_bytes; }
  static int64_t padded_rows(int n) { return (int64_t(n) + cluster_rows - 1) / cluster_rows * cluster_rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }

#ifdef __CUDACC__
  using Ring = TmaPipeline<slots, stage_bytes, readers / 32>;
  /// Threads have 168 registers at launch, 65 536 / 384 rounded down to eights: so many are moved from those that only
  /// copy to those that multiply.
  static constexpr int multiplying_registers = 240, copying_registers = 24;
  static_assert(groups * multiplying_registers + copying_registers <= 3 * 168);

  /// Of each 64 points in turn, `row` the first of them, calls begin(row), look(first, facts, products) for each tile
  /// of centroids first .. first + columns - 1, and end(row), by the warpgroup that has them. Those are called by whole
  /// warps, and end with all lanes together. Dynamic shared memory: Ring::bytes, and what the caller adds. x and c:
  /// a_fragment_offset() and, tile by tile, b_smem_offset() and the tile's Facts; of padded_rows(n) and
  /// padded_columns(k).
  template <int k_block, bool streamed, class Begin, class Look, class End>
  __device__ static void multiply(const uint4* __restrict__ x, const unsigned char* __restrict__ c, int n, int k,
                                  int steps, const Begin& begin, const Look& look, const End& end) {
    // A turn is a window. A group that waits for it may still have the last slot of its window before, and the facts
    // behind that; in the meantime the other one reads a window, and facts. A ring that does not hold all these is
    // never free again: both would wait for ever.
    static_assert(slots >= k_block + 3);
    const Ring ring(dynamic_shared<unsigned char>());
    ring.begin();
    // Clusters deal out the rows by bundles. Both blocks of one go along with all of its bundles, for each fetches half
    // of what the other reads.
    const int work_tiles = int((int64_t(n) + cluster_rows - 1) / cluster_rows), clusters = gridDim.x / cluster_size;
    const int first_work_tile = blockIdx.x / cluster_size, tiles = (k + columns - 1) / columns;
    PipelineState at;
    if (threadIdx.x >= readers) {
      warpgroup_reg_dealloc<copying_registers>();
      if (threadIdx.x == readers) {
        for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
          const unsigned char* from = c;
          for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll 1  // few registers
            for (int step = 0; step < steps; step += stage_steps, from += stage_bytes) ring.fill(at, from, stage_bytes);
            if constexpr (with_facts) ring.fill(at, from, facts_bytes);
            from += facts_bytes;
          }
        }
      }
    } else {
      warpgroup_reg_alloc<multiplying_registers>();
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
      const auto load = [&](int i, const uint4* from) {  // stage i of the window that begins there
#pragma unroll
        for (int s = 0; s < stage_steps; ++s) {
          const uint4 words = __ldcg(from + i * stage_pitch + s * warpgroup_threads);
          a[i][s] = {words.x, words.y, words.z, words.w};
        }
      };
#pragma unroll
      for (int i = 0; i < k_block; ++i) load(i, fragments(first_work_tile));
      for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
        begin(first_row(work_tile));
        for (int tile = 0; tile < tiles; ++tile) {
          // Whose points come next.
          const int then = tile + 1 == tiles && work_tile + clusters < work_tiles ? work_tile + clusters : work_tile;
          // Of this tile alone: if it went on to the next one, the compiler would carry it as the look's integers, and
          // copy it while products are added to it.
          float product[columns / 2];
          int before = 0;  // the slot that was multiplied last
          const uint4* here = streamed ? fragments(work_tile) : nullptr;
          for (int done = 0; done < (streamed ? steps : 1); done += k_block * stage_steps) {
            const uint4* ahead = nullptr;
            if constexpr (streamed)
              ahead = done + k_block * stage_steps < steps ? here + k_block * stage_pitch : fragments(then);
            turns.take();
#pragma unroll
            for (int i = 0; i < k_block; ++i) {
              ring.wait_for(at);
              warpgroup_arrive();
              const uint64_t b = descriptor<columns>(ring.slot(at));
#pragma unroll
              for (int s = 0; s < stage_steps; ++s)
                wgmma<columns>(product, a[i][s], b + s * behind(step_bytes<columns>), done > 0 || i > 0 || s > 0);
              warpgroup_commit();
              // While these go on, the ones before have ended: their slot is free, and so are their points' registers.
              if (done > 0 || i > 0) {
                warpgroup_wait<1>();
                ring.release(before);
                if constexpr (streamed) load((i + k_block - 1) % k_block, i > 0 ? ahead : here);
              }
              before = at.slot;
              at.advance(slots);
            }
            turns.pass();  // all are asked for: the other's go behind them
            here = ahead;
          }
          warpgroup_wait_for(product);
          ring.release(before);
          if constexpr (streamed) {
            load(k_block - 1, fragments(then));
          } else if (then != work_tile) {
#pragma unroll
            for (int i = 0; i < k_block; ++i) load(i, fragments(then));
          }
          if constexpr (with_facts) {
            ring.wait_for(at);
            look(tile * columns,
                 reinterpret_cast<const Facts*>(dynamic_shared<unsigned char>() + at.slot * stage_bytes), product);
            __syncwarp();  // all lanes have read it
            ring.release(at.slot);
            at.advance(slots);
          } else {
            look(tile * columns, NoFacts{}, product);
          }
        }
        end(first_row(work_tile));
      }
      turns.end();
    }
    ring.end();
  }
#endif
};

/// Why this device cannot run such a kernel; empty where it can.
inline std::string refuse_warpgroups(const Device& device) {
  const std::string what = "its products are those of warpgroups (wgmma), which a GPU of compute capability 9.0 has: ";
  if (device.kind != DeviceKind::cuda) return what + "the CPU device has none of Hopper's instructions";
  if (device.compute_capability != 90)
    return what + "this one has " + std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10);
  return "";
}

}  // namespace ladder
