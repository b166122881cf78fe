// The mainloop of a matrix product on tensor cores (mma.sync): a block multiplies 128 points with all centroids, tile
// by tile, and passes each tile of products to an epilogue; no product is written to memory. 8 warps: 4 share out the
// points, 2 the centroids; each multiplies 32 points with 128 centroids, or with 64 where rows have two parts. cp.async
// copies 32 features of points and centroids at a time into a ring of stages, also across the end of a tile, so that
// the next tile's features arrive during the epilogue. v22_tensor_split introduces it.
#pragma once
#include <cuda_pipeline.h>

#include "fp16_rows.cuh"

namespace ladder {

template <int parts>
struct MainloopSm80 {
  static constexpr int block = 256;
  static constexpr int rows = 128;                        // points
  static constexpr int columns = parts == 1 ? 256 : 128;  // centroids; twice as many would spill
  static constexpr int stages = parts == 1 ? 4 : 3;       // of features, in shared memory
  static constexpr int stage_words = parts * (rows + columns) * tile_words;
  static constexpr size_t bytes = size_t(stages) * stage_words * sizeof(uint32_t);
  static constexpr int down = 4, across = 2;  // warps: few rows each, because the epilogue's state is per row
  static constexpr int warp_rows = rows / down, warp_columns = columns / across;
  static constexpr int row_fragments = warp_rows / mma_rows, column_fragments = warp_columns / mma_columns;
  static constexpr int lane_rows = 2 * row_fragments;  // rows of the tile of which a lane has products
  static constexpr int sharers = 4 * across;           // lanes that have products of the same row

  /// A lane's accumulators: element 2 h + e of [m][f] is that of its row 2 m + h and of the column (f, e).
  using Products = float[row_fragments][column_fragments][4];

  static int64_t padded_rows(int n) { return int64_t(blocks(n, rows)) * rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }

  int first_row, first_column, lane;  // of the warp
  __device__ MainloopSm80()
      : first_row(threadIdx.x / 32 / across * warp_rows),
        first_column(threadIdx.x / 32 % across * warp_columns),
        lane(threadIdx.x % 32) {}
  __device__ int row(int r) const { return first_row + r * 8 + lane / 4; }
  __device__ int column(int f, int e) const { return first_column + f * mma_columns + lane % 4 * 2 + e; }
  /// This lane's index among the sharers of its rows.
  __device__ int sharer() const { return threadIdx.x / 32 % across * 4 + lane % 4; }

  /// Calls epilogue(first, products) for each tile of centroids first .. first + columns - 1, in order. x and c have
  /// padded_rows(n) and padded_columns(k) rows. Dynamic shared memory: `bytes`; it is free again at the end.
  template <class Epilogue>
  __device__ void multiply(const Fp16Rows& x, const Fp16Rows& c, int n, int k, int d, const Epilogue& epilogue) const {
    multiply(int(blockIdx.x) * rows, InOrder(), x, c, n, k, d, epilogue);
  }
  struct InOrder {  // the list of all points
    __device__ int operator()(int i) const { return i; }
  };
  /// The same for a list of n points, from the `begin`-th on: the i-th is row point(i) of x; beyond the list's end, any
  /// row.
  template <class Point, class Epilogue>
  __device__ void multiply(int begin, const Point& point, const Fp16Rows& x, const Fp16Rows& c, int n, int k, int d,
                           const Epilogue& epilogue) const {
    uint32_t* const shared = dynamic_shared<uint32_t>();  // stages x parts x (rows + columns) x tile_words
    const int steps = x.pitch / tile_chunks, tiles = (k + columns - 1) / columns;
    int next_tile = 0, next_step = 0;  // the next to be copied
    // A thread copies the same chunk of every 64th row, so that all other terms of the addresses are uniform.
    constexpr int copied = block / tile_chunks;
    const int thread_line = int(threadIdx.x) / tile_chunks, chunk = int(threadIdx.x) % tile_chunks;
    const int thread_offset = smem_offset(thread_line, chunk);
    constexpr int thread_points = rows / copied;
    int point_row[thread_points];  // of a list: the rows that this thread copies
    for (int e = 0; e < thread_points; ++e) point_row[e] = point(begin + e * copied + thread_line);
    const auto fetch = [&](int to) {
      if (next_tile < tiles) {
        uint32_t* const stage = shared + to * stage_words;
        for (int p = 0; p < parts; ++p) {
#pragma unroll
          for (int e = 0; e < rows + columns; e += copied) {
            uint32_t* const target = stage + (p * (rows + columns) + e) * tile_words + thread_offset;
            if constexpr (!std::is_same_v<Point, InOrder>) {
              if (e < rows) {
                const int64_t line = point_row[e / copied % thread_points];
                __pipeline_memcpy_async(target, x.part[p] + line * x.pitch + next_step * tile_chunks + chunk, 16);
                continue;
              }
            }
            const Fp16Rows& from = e < rows ? x : c;
            const int64_t line = e < rows ? begin + e : next_tile * columns + e - rows;
            const uint4* const lines = from.part[p] + line * from.pitch + next_step * tile_chunks;  // uniform
            __pipeline_memcpy_async(target, lines + thread_line * from.pitch + chunk, 16);
          }
        }
        if (++next_step == steps) next_step = 0, ++next_tile;
      }
      __pipeline_commit();  // empty groups at the end keep wait_prior's count right
    };

    for (int s = 0; s < stages - 1; ++s) fetch(s);
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      // A warp whose points or centroids are all padding only takes part in the barriers.
      const bool busy = begin + first_row < n && tile * columns + first_column < k;
      Products sum = {}, rest = {};
      for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();                       // this stage is visible to all, and the one before is free
        fetch((stage + stages - 1) % stages);  // into the one before
        const uint32_t* const operands = shared + stage * stage_words;
        stage = (stage + 1) % stages;
        if (!busy) continue;
        for (int first = 0; first < tile_chunks; first += 2) {
          if (step * tile_depth + first * 8 < d) add(sum, rest, operands, first);  // beyond d there are only zeros
        }
      }
      if (busy) {
        if constexpr (parts == 2) {
          for (int m = 0; m < row_fragments; ++m)
            for (int f = 0; f < column_fragments; ++f)
              for (int e = 0; e < 4; ++e) sum[m][f][e] += rest[m][f][e] * 0x1p-11f;
        }
        epilogue(tile * columns, sum);
      }
    }
    __syncthreads();
  }

 private:
  /// Multiplies 16 features, from chunk `chunk` on. `rest`: the products with a low half.
  __device__ void add(Products& sum, Products& rest, const uint32_t* stage, int chunk) const {
    constexpr int part_words = (rows + columns) * tile_words;
    FragmentA a[parts][row_fragments];
    for (int p = 0; p < parts; ++p) {
      for (int m = 0; m < row_fragments; ++m) a[p][m] = load_a(stage + p * part_words, first_row + mma_rows * m, chunk);
    }
    for (int f = 0; f < column_fragments; f += 2) {
      FragmentB b[parts][2];
      for (int p = 0; p < parts; ++p)
        load_b(b[p], stage + p * part_words, rows + first_column + mma_columns * f, chunk);
      for (int m = 0; m < row_fragments; ++m) {
        for (int e = 0; e < 2; ++e) {
          mma(sum[m][f + e], a[0][m], b[0][e]);
          if constexpr (parts == 2) {
            mma(rest[m][f + e], a[0][m], b[1][e]);
            mma(rest[m][f + e], a[1][m], b[0][e]);
          }
        }
      }
    }
  }
};

/// The reason why this device cannot run such a kernel; empty where it can.
template <int parts>
std::string refuse_tensor_tiles(const Device& device) {
  if (device.kind == DeviceKind::cuda && device.compute_capability < 80)
    return "the tensor cores' products used here need a GPU of compute capability 8.0 or more, this one has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  std::string why;
  if (device.shared_bytes_optin < MainloopSm80<parts>::bytes) {
    why.append("its tiles need ").append(std::to_string(MainloopSm80<parts>::bytes));
    why.append(" bytes of shared memory in a block, the device has ");
    why.append(std::to_string(device.shared_bytes_optin));
  }
  return why;
}

}  // namespace ladder
