// The mainloop for short rows on Hopper: a point's whole row is a register operand of wgmma, and a stage of the TMA
// ring holds a whole tile of centroids. A tile's products take so few instructions that the tensor cores would idle
// during the epilogue, so a tile goes in two parts, one of which is multiplied during the epilogue of the other, and a
// block has three or four consumer warpgroups that do not wait for each other. Persistent: clusters of two blocks go
// from one work tile to the next. v41_filter_wgmma introduces it.
#pragma once
#include "../device/tma_pipeline.cuh"
#include "ping_pong_sm90.cuh"
#include "wgmma_widths_sm90.cuh"

namespace ladder {

/// Rows of `width` halves, a multiple of 16.
template <int width>
struct NarrowMainloopSm90 {
  static constexpr int steps = width / mma_depth;  // of a row
  static constexpr int columns = 128;              // centroids of a tile
  static constexpr int groups =
      width <= 64 ? 4 : 3;  // consumer warpgroups of a block, beside the producer; limited by registers
  static constexpr int readers = groups * warpgroup_threads, block = readers + warpgroup_threads;
  static constexpr int rows = groups * warpgroup_rows;      // points of a block
  static constexpr int cluster_rows = cluster_size * rows;  // of a cluster: a work tile
  static constexpr int tile_bytes = steps * step_bytes<columns>;
  static constexpr int slots = std::min(12, (208 << 10) / tile_bytes);  // of the 227 KB that a block can have
  static constexpr int parts = 2, part_columns = columns / parts;       // of a tile: one epilogue
  static constexpr int own_columns = part_columns / 4;                  // a thread has products of two rows with them
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }
  /// Blocks of a launch for n points.
  static int grid(int n, int multiprocessors) {
    return std::min(multiprocessors / cluster_size, blocks(n, cluster_rows)) * cluster_size;
  }
  /// Where in the tiles the half `f` of centroid j is, in halves.
  __host__ __device__ static constexpr int64_t place(int64_t j, int f) {
    return j / columns * (tile_bytes / 2) + b_smem_offset<columns>(int(j % columns), f / 2) * 2 + f % 2;
  }
  /// The index of a thread's product of its first row and its column `c`; that of its second row is 2 behind.
  __host__ __device__ static constexpr int element(int c) { return c / 2 * 4 + c % 2; }
  /// Which column of the part that is: accumulator_column(thread, element(c)).
  __host__ __device__ static constexpr int column(int thread, unsigned c) {
    return int(c / 2 * 8 + c % 2) + thread % 4 * 2;
  }

#ifdef __CUDACC__
  using Ring = TmaPipeline<slots, tile_bytes, readers / 32>;
  static constexpr uint64_t next_part =
      descriptor_offset(part_columns * 16);  // what is behind a part's first 8 features
  using Products = float[part_columns / 2];  // accumulator_row() and accumulator_column() say of what
  /// Threads have so many registers at launch, 65 536 shared out and rounded down to eights: they are moved from those
  /// that only copy to those that multiply.
  static constexpr int launch_registers = 65536 / block / 8 * 8;
  static constexpr int copying_registers = 24;
  static constexpr int multiplying_registers = ((groups + 1) * launch_registers - copying_registers) / groups / 8 * 8;

  /// For each 64 points, `first` and on of the list, their warpgroup calls prologue(first), epilogue(column, products)
  /// for each part of a tile (centroids column .. column + part_columns - 1) and finish(first); by whole warps, which
  /// must reconverge. x: the points' rows; point(i): the number of the i-th of the list's n, called for i < n;
  /// last_words: as NarrowMainloopSm80::multiply; c: place(), padded_columns(k). Dynamic shared memory: Ring::bytes,
  /// and what the caller adds.
  template <class Point, class Prologue, class Epilogue, class Finish>
  __device__ static void multiply(const uint4* __restrict__ x, const uint32_t* __restrict__ last_words,
                                  const unsigned char* __restrict__ c, int n, int k, const Point& point,
                                  const Prologue& prologue, const Epilogue& epilogue, const Finish& finish) {
    const Ring ring(dynamic_shared<unsigned char>());
    ring.init();
    // Both blocks of a cluster go through all of its work tiles: each fetches half of what the other reads.
    const int work_tiles = (n + cluster_rows - 1) / cluster_rows, clusters = gridDim.x / cluster_size;
    const int first_work_tile = blockIdx.x / cluster_size, tiles = (k + columns - 1) / columns;
    PipelineState state;
    if (threadIdx.x >= readers) {
      warpgroup_reg_dealloc<copying_registers>();
      if (threadIdx.x == readers) {
        for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
          for (int tile = 0; tile < tiles; ++tile) ring.produce(state, c + int64_t(tile) * tile_bytes, tile_bytes);
        }
      }
    } else {
      warpgroup_reg_alloc<multiplying_registers>();
      const int thread = threadIdx.x % warpgroup_threads;
      for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
        const int64_t first =
            (int64_t(work_tile) * cluster_size + ring.rank) * rows + threadIdx.x / warpgroup_threads * warpgroup_rows;
        FragmentA a[steps];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int64_t i = first + accumulator_row(thread, 2 * r);
          const int64_t from = point(i < n ? int(i) : n - 1);
          const uint32_t* const words = reinterpret_cast<const uint32_t*>(x) + from * (width / 2) + thread % 4;
#pragma unroll
          for (int s = 0; s < steps; ++s)
            for (int e = 0; e < 2; ++e) a[s].r[e * 2 + r] = __ldg(words + s * (mma_depth / 2) + e * 4);
          if (last_words && thread % 4 == 3) a[steps - 1].r[2 + r] = __ldg(last_words + from);
        }
        prologue(first);
        for (int tile = 0; tile < tiles; ++tile) {
          ring.consumer_wait(state);
          const uint64_t b = descriptor<columns>(ring.slot(state));
          Products product[parts];
          warpgroup_arrive();
#pragma unroll
          for (int p = 0; p < parts; ++p) {
#pragma unroll
            for (int s = 0; s < steps; ++s)
              wgmma<part_columns>(product[p], a[s], b + s * descriptor_offset(step_bytes<columns>) + p * next_part,
                                  s > 0);
            warpgroup_commit();
          }
#pragma unroll
          for (int p = 0; p < parts; ++p) {
            p == 0 ? warpgroup_wait_for<parts - 1>(product[p]) : warpgroup_wait_for(product[p]);
            if (p == parts - 1) {
              ring.consumer_release(state.slot);
              state.advance(slots);
            }
            epilogue(tile * columns + p * part_columns, product[p]);
          }
        }
        finish(first);
      }
    }
    ring.finish();
  }
#endif
};

}  // namespace ladder
