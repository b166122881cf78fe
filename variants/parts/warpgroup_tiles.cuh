// All products of points with all centroids, by warpgroups, tile by tile, none of them written to memory. A block is
// three warpgroups: one thread of the last keeps the ring of centroids full; each of the others has 64 points, which it
// multiplies with a tile of centroids, and looks at the products while the other one multiplies. Blocks stay: clusters
// of two go from 256 points to the next 256. v24_wgmma introduces it.
#pragma once
#include <type_traits>

#include "bulk_ring.cuh"
#include "certificate.cuh"
#include "wgmma.cuh"

namespace ladder {

// ---- which kernel a shape gets

struct WarpgroupPlan {
  int columns;    // centroids of a tile
  int window;     // stages, 32 features each, whose points are in registers at a time
  bool streamed;  // are a point's features more than a window?
  int steps;      // of 16 features, those of all windows
};

constexpr int stage_steps = ring_blocks;  // each block of a cluster fetches one step of a stage
constexpr int stage_depth = stage_steps * mma_depth;

/// Of the tiles of 168 and of 128, those that fewer centroids are added to; 168 where it is the same. Of the windows
/// that hold all features the smallest. Where 16, 128 registers, do not, the one that fewest stages are added to: each
/// is long enough that a point's next features come from the L2 cache while others are multiplied.
constexpr WarpgroupPlan plan_warpgroups(int k, int d) {
  const auto whole = [](int count, int of) { return (count + of - 1) / of * of; };
  WarpgroupPlan plan{.columns = whole(k, 128) < whole(k, 168) ? 128 : 168, .window = 0, .streamed = false, .steps = 0};
  const int stages = whole(d, stage_depth) / stage_depth;
  for (const int window : {16, 13, 10, 8, 6, 4, 2, 1}) {
    if (stages <= window) plan.window = window;
  }
  plan.streamed = plan.window == 0;
  if (plan.streamed) {
    for (const int window : {8, 7, 5}) {
      if (plan.window == 0 || whole(stages, window) < whole(stages, plan.window)) plan.window = window;
    }
  }
  plan.steps = whole(stages, plan.window) * stage_steps;
  return plan;
}

/// Calls body.template operator()<columns, window, streamed>() of the plan.
template <class F>
void with_kernel(const WarpgroupPlan& plan, F body) {
  dispatch<128, 168>(plan.columns, [&]<int columns>() {
    if (plan.streamed) {
      dispatch<5, 7, 8>(plan.window, [&]<int window>() { body.template operator()<columns, window, true>(); });
    } else {
      dispatch<1, 2, 4, 6, 8, 10, 13, 16>(plan.window,
                                          [&]<int window>() { body.template operator()<columns, window, false>(); });
    }
  });
}

/// Of a tile whose products say all that is asked: nothing beside them.
struct NoFacts {};

/// `Facts`: what a tile has of each centroid beside its halves.
template <int columns, class Facts = CertainCentroid>
struct WarpgroupTile {
  static constexpr int width = columns;
  static constexpr int groups = 2;  // of a block; the third multiplies nothing
  static constexpr int readers = groups * group_threads, block = readers + group_threads;
  static constexpr int rows = groups * group_rows;         // points of a block
  static constexpr int cluster_rows = ring_blocks * rows;  // of a cluster
  static constexpr int stage_bytes = stage_steps * step_bytes<columns>;
  static constexpr bool with_facts = !std::is_empty_v<Facts>;
  static constexpr int facts_bytes = with_facts ? columns * int(sizeof(Facts)) : 0;
  static constexpr int slots = columns == 168 ? 20 : 26;  // 210 KB or 208 of the 227 that a block can have
  static constexpr size_t tile_bytes(int steps) { return size_t(steps) * step_bytes<columns> + facts_bytes; }
  static int64_t padded_rows(int n) { return (int64_t(n) + cluster_rows - 1) / cluster_rows * cluster_rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }

#ifdef __CUDACC__
  using Ring = BulkRing<slots, stage_bytes, readers / 32>;
  /// Threads have 168 registers at launch, 65 536 / 384 rounded down to eights: so many are moved from those that only
  /// copy to those that multiply.
  static constexpr int multiplying_registers = 240, copying_registers = 24;
  static_assert(groups * multiplying_registers + copying_registers <= 3 * 168);

  /// Of each 64 points in turn, `row` the first of them, calls begin(row), look(first, facts, products) for each tile
  /// of centroids first .. first + columns - 1, and end(row), by the warpgroup that has them. Those are called by whole
  /// warps, and end with all lanes together. Dynamic shared memory: Ring::bytes, and what the caller adds. x and c:
  /// point_place() and, tile by tile, centroid_place() and the tile's Facts; of padded_rows(n) and padded_columns(k).
  template <int window, bool streamed, class Begin, class Look, class End>
  __device__ static void multiply(const uint4* __restrict__ x, const unsigned char* __restrict__ c, int n, int k,
                                  int steps, const Begin& begin, const Look& look, const End& end) {
    // A turn is a window. A group that waits for it may still have the last slot of its window before, and the facts
    // behind that; in the meantime the other one reads a window, and facts. A ring that does not hold all these is
    // never free again: both would wait for ever.
    static_assert(slots >= window + 3);
    const Ring ring(dynamic_shared<unsigned char>());
    ring.begin();
    // Clusters deal out the rows by bundles. Both blocks of one go along with all of its bundles, for each fetches half
    // of what the other reads.
    const int bundles = int((int64_t(n) + cluster_rows - 1) / cluster_rows), clusters = gridDim.x / ring_blocks;
    const int first_bundle = blockIdx.x / ring_blocks, tiles = (k + columns - 1) / columns;
    RingPlace at;
    if (threadIdx.x >= readers) {
      leave_registers<copying_registers>();
      if (threadIdx.x == readers) {
        for (int bundle = first_bundle; bundle < bundles; bundle += clusters) {
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
      take_registers<multiplying_registers>();
      const int group = threadIdx.x / group_threads;
      const Turns turns(group);
      const auto first_row = [&](int bundle) {
        return (int64_t(bundle) * ring_blocks + ring.rank) * rows + group * group_rows;
      };
      constexpr int stage_pitch = stage_steps * group_threads;  // of a stage's fragments, in uint4
      const auto fragments = [&](int bundle) {
        return x + first_row(bundle) / group_rows * steps * group_threads + threadIdx.x % group_threads;
      };
      FragmentA a[window][stage_steps];
      const auto load = [&](int i, const uint4* from) {  // stage i of the window that begins there
#pragma unroll
        for (int s = 0; s < stage_steps; ++s) {
          const uint4 words = __ldcg(from + i * stage_pitch + s * group_threads);
          a[i][s] = {words.x, words.y, words.z, words.w};
        }
      };
#pragma unroll
      for (int i = 0; i < window; ++i) load(i, fragments(first_bundle));
      for (int bundle = first_bundle; bundle < bundles; bundle += clusters) {
        begin(first_row(bundle));
        for (int tile = 0; tile < tiles; ++tile) {
          // Whose points come next.
          const int then = tile + 1 == tiles && bundle + clusters < bundles ? bundle + clusters : bundle;
          // Of this tile alone: if it went on to the next one, the compiler would carry it as the look's integers, and
          // copy it while products are added to it.
          float product[columns / 2];
          int before = 0;  // the slot that was multiplied last
          const uint4* here = streamed ? fragments(bundle) : nullptr;
          for (int done = 0; done < (streamed ? steps : 1); done += window * stage_steps) {
            const uint4* ahead = nullptr;
            if constexpr (streamed)
              ahead = done + window * stage_steps < steps ? here + window * stage_pitch : fragments(then);
            turns.take();
#pragma unroll
            for (int i = 0; i < window; ++i) {
              ring.wait_for(at);
              fence_products();
              const uint64_t b = descriptor<columns>(ring.slot(at));
#pragma unroll
              for (int s = 0; s < stage_steps; ++s)
                multiply_group<columns>(product, a[i][s], b + s * behind(step_bytes<columns>),
                                        done > 0 || i > 0 || s > 0);
              close_products();
              // While these go on, the ones before have ended: their slot is free, and so are their points' registers.
              if (done > 0 || i > 0) {
                wait_products<1>();
                ring.release(before);
                if constexpr (streamed) load((i + window - 1) % window, i > 0 ? ahead : here);
              }
              before = at.slot;
              at.advance(slots);
            }
            turns.pass();  // all are asked for: the other's go behind them
            here = ahead;
          }
          finish_products(product);
          ring.release(before);
          if constexpr (streamed) {
            load(window - 1, fragments(then));
          } else if (then != bundle) {
#pragma unroll
            for (int i = 0; i < window; ++i) load(i, fragments(then));
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
        end(first_row(bundle));
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
