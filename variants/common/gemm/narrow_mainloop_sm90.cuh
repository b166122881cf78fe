// The mainloop for short rows of halves on wgmma. A point's whole row is a register operand, and a slot of the ring a
// whole tile of centroids. So few products would leave the tensor cores idle during an epilogue. A tile therefore goes
// in two parts: the epilogue of one overlaps the products of the other; and a block has three or four consumer
// warpgroups, which do not wait for each other. Blocks are persistent: clusters of two go from one work tile to the
// next. v27_projection_filter introduces it.
#pragma once
#include "../pruning/projection_bound.cuh"
#include "tma_pipeline.cuh"
#include "wgmma_sm90.cuh"

namespace ladder {

/// Rows of `width` halves, a multiple of 16.
template <int width>
struct NarrowMainloopSm90 {
  static constexpr int steps = width / mma_depth;     // of a row
  static constexpr int columns = 128;                 // centroids of a tile
  static constexpr int groups = width <= 64 ? 4 : 3;  // of a block, beside the one that copies: registers
  static constexpr int readers = groups * warpgroup_threads, block = readers + warpgroup_threads;
  static constexpr int rows = groups * warpgroup_rows;      // points of a block
  static constexpr int cluster_rows = cluster_size * rows;  // of a cluster: a work tile
  static constexpr int tile_bytes = steps * step_bytes<columns>;
  static constexpr int slots = std::min(12, (208 << 10) / tile_bytes);  // of the 227 KB that a block can have
  static constexpr int parts = 2, part_columns = columns / parts;       // of a tile, one epilogue each
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
  /// Of a thread's products, that of its first row with its own column `own`; that of its second row is 2 behind.
  __host__ __device__ static constexpr int element(int e) { return e / 2 * 4 + e % 2; }
  /// Which column of the part that is: accumulator_column(thread, element(own)).
  __host__ __device__ static constexpr int column(int thread, unsigned e) {
    return int(e / 2 * 8 + e % 2) + thread % 4 * 2;
  }

#ifdef __CUDACC__
  using Ring = TmaPipeline<slots, tile_bytes, readers / 32>;
  static constexpr uint64_t next_part = descriptor_offset(part_columns * 16);  // the next part of the same features
  using Products = float[part_columns / 2];  // accumulator_row() and accumulator_column() say of what
  /// Registers per thread at launch: 65,536 shared out, rounded down to a multiple of 8. The producer's are moved to
  /// the consumers.
  static constexpr int launch_registers = 65536 / block / 8 * 8;
  static constexpr int producer_registers = 24;
  static constexpr int consumer_registers = ((groups + 1) * launch_registers - producer_registers) / groups / 8 * 8;

  /// For each 64 points in turn, calls prologue(first), epilogue(column, products) for each part of a tile, centroids
  /// column .. column + part_columns - 1, and finish(first), by the warpgroup that has them: points `first` and on of
  /// the list. All are called by whole warps, and end with all lanes together. x: of each point its row, point(i) the
  /// i-th of the list's n, asked for below n; last_words: as NarrowMainloopSm80::multiply; c: place(),
  /// padded_columns(k). Dynamic shared memory: Ring::bytes, and what the caller adds.
  template <class Point, class Prologue, class Epilogue, class Finish>
  __device__ static void multiply(const uint4* __restrict__ x, const uint32_t* __restrict__ last_words,
                                  const unsigned char* __restrict__ c, int n, int k, const Point& point,
                                  const Prologue& prologue, const Epilogue& epilogue, const Finish& finish) {
    const Ring ring(dynamic_shared<unsigned char>());
    ring.init();
    // Both blocks of a cluster process the same number of work tiles, because each fetches half of what the other
    // reads.
    const int work_tiles = (n + cluster_rows - 1) / cluster_rows, clusters = gridDim.x / cluster_size;
    const int first_work_tile = blockIdx.x / cluster_size, tiles = (k + columns - 1) / columns;
    PipelineState state;
    if (threadIdx.x >= readers) {
      warpgroup_reg_dealloc<producer_registers>();
      if (threadIdx.x == readers) {
        for (int work_tile = first_work_tile; work_tile < work_tiles; work_tile += clusters) {
          for (int tile = 0; tile < tiles; ++tile) ring.produce(state, c + int64_t(tile) * tile_bytes, tile_bytes);
        }
      }
    } else {
      warpgroup_reg_alloc<consumer_registers>();
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

/// Keeps centroids as WriteCentroids does, in tiles. Those from `count` on, up to `padded`, are far away.
template <int width>
struct WriteCentroidTiles {
  unsigned char* tiles;
  const double* defect;
  int count;
  int64_t padded;
  int d;
  double* square = nullptr;  // count: squared lengths, where they are kept
  __device__ void operator()(int64_t j, const double* coordinates, double length) const {
    if (j >= padded) return;
    if (square && j < count && threadIdx.x % 32 == 0) square[j] = length;
    const auto half = [&](int f) -> __half& {
      return reinterpret_cast<__half*>(tiles)[NarrowMainloopSm90<width>::place(j, f)];
    };
    write_centroid(half, width, j < count ? length : std::numeric_limits<double>::infinity(), *defect, coordinates, d);
  }
};

}  // namespace ladder
