// All products of a block's points with all centroids, by tensor cores, tile by tile, none of them written to memory.
// 8 warps: 4 share out the points, 2 the centroids; each multiplies 32 points with 128 centroids, or with 64 where rows
// come in two parts. 32 features of points and centroids at a time are copied to shared memory, while earlier ones are
// multiplied: also across the end of a tile, so that the next one's are there when the last products of this one have
// been looked at. v17_tensor_split introduces it; v19_refine keeps it.
#pragma once
#include <cuda_pipeline.h>

#include "fp16_rows.cuh"

namespace ladder {

template <int parts>
struct MainloopSm80 {
  static constexpr int block = 256;
  static constexpr int rows = 128;                        // points
  static constexpr int columns = parts == 1 ? 256 : 128;  // centroids; twice as many would take all registers
  static constexpr int stages = parts == 1 ? 4 : 3;       // of features, in shared memory
  static constexpr int stage_words = parts * (rows + columns) * tile_words;
  static constexpr size_t bytes = size_t(stages) * stage_words * sizeof(uint32_t);
  static constexpr int down = 4, across = 2;  // warps: few rows for each, for what is kept of a row takes registers
  static constexpr int warp_rows = rows / down, warp_columns = columns / across;
  static constexpr int row_fragments = warp_rows / mma_rows, column_fragments = warp_columns / mma_columns;
  static constexpr int own_rows = 2 * row_fragments;  // rows of the tile in which a lane has products
  static constexpr int sharers = 4 * across;          // lanes that have products of the same row

  /// A lane's products: element 2 h + e of [m][f] is that of own row 2 m + h and of the column (f, e).
  using Products = float[row_fragments][column_fragments][4];

  static int64_t padded_rows(int n) { return int64_t(blocks(n, rows)) * rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }

  int first_row, first_column, lane;  // of the warp
  __device__ MainloopSm80()
      : first_row(threadIdx.x / 32 / across * warp_rows),
        first_column(threadIdx.x / 32 % across * warp_columns),
        lane(threadIdx.x % 32) {}
  __device__ int row(int own) const { return first_row + own * 8 + lane / 4; }
  __device__ int column(int f, int e) const { return first_column + f * mma_columns + lane % 4 * 2 + e; }
  /// Which of a row's sharers this lane is.
  __device__ int sharer() const { return threadIdx.x / 32 % across * 4 + lane % 4; }

  /// Calls look(first, products) for each tile of centroids first .. first + columns - 1, 0 first. x and c have as many
  /// rows as whole tiles need, padded_rows(n) and padded_columns(k). Dynamic shared memory: `bytes`; it is free again
  /// at the end.
  template <class Look>
  __device__ void multiply(const Fp16Rows& x, const Fp16Rows& c, int n, int k, int d, const Look& look) const {
    multiply(int(blockIdx.x) * rows, InOrder(), x, c, n, k, d, look);
  }
  struct InOrder {  // the list of all points
    __device__ int operator()(int i) const { return i; }
  };
  /// The same for a list of n points: of those from `begin` on, the i-th of the list is row point(i) of x; beyond the
  /// list's end, any row.
  template <class Point, class Look>
  __device__ void multiply(int begin, const Point& point, const Fp16Rows& x, const Fp16Rows& c, int n, int k, int d,
                           const Look& look) const {
    uint32_t* const shared = dynamic_shared<uint32_t>();  // stages x parts x (rows + columns) x tile_words
    const int steps = x.pitch / tile_chunks, tiles = (k + columns - 1) / columns;
    int next_tile = 0, next_step = 0;  // what is copied next
    // A thread copies the same chunk of every 64th row: what differs between these is the same for all threads.
    constexpr int copied = block / tile_chunks;
    const int own_line = int(threadIdx.x) / tile_chunks, own_chunk = int(threadIdx.x) % tile_chunks;
    const int own_place = smem_offset(own_line, own_chunk);
    constexpr int own_points = rows / copied;
    int own_point[own_points];  // of a list: the rows that this thread copies from
    for (int e = 0; e < own_points; ++e) own_point[e] = point(begin + e * copied + own_line);
    const auto fetch = [&](int to) {
      if (next_tile < tiles) {
        uint32_t* const stage = shared + to * stage_words;
        for (int p = 0; p < parts; ++p) {
#pragma unroll
          for (int e = 0; e < rows + columns; e += copied) {
            uint32_t* const line_place = stage + (p * (rows + columns) + e) * tile_words + own_place;
            if constexpr (!std::is_same_v<Point, InOrder>) {
              if (e < rows) {
                const int64_t line = own_point[e / copied % own_points];
                __pipeline_memcpy_async(line_place, x.part[p] + line * x.pitch + next_step * tile_chunks + own_chunk,
                                        16);
                continue;
              }
            }
            const Fp16Rows& from = e < rows ? x : c;
            const int64_t line = e < rows ? begin + e : next_tile * columns + e - rows;
            const uint4* const lines = from.part[p] + line * from.pitch + next_step * tile_chunks;  // of all threads
            __pipeline_memcpy_async(line_place, lines + own_line * from.pitch + own_chunk, 16);
          }
        }
        if (++next_step == steps) next_step = 0, ++next_tile;
      }
      __pipeline_commit();  // an empty one at the end, so that the number of groups tells which have come
    };

    for (int s = 0; s < stages - 1; ++s) fetch(s);
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      // A warp none of whose points, or centroids, exist goes along to the barriers alone.
      const bool busy = begin + first_row < n && tile * columns + first_column < k;
      Products sum = {}, rest = {};
      for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();                       // this stage is there for all, and nobody reads the one before any more
        fetch((stage + stages - 1) % stages);  // into the one before
        const uint32_t* const here = shared + stage * stage_words;
        stage = (stage + 1) % stages;
        if (!busy) continue;
        for (int chunk = 0; chunk < tile_chunks; chunk += 2) {
          if (step * tile_depth + chunk * 8 < d) add(sum, rest, here, chunk);  // beyond, there are only zeros
        }
      }
      if (busy) {
        if constexpr (parts == 2) {
          for (int m = 0; m < row_fragments; ++m)
            for (int f = 0; f < column_fragments; ++f)
              for (int e = 0; e < 4; ++e) sum[m][f][e] += rest[m][f][e] * 0x1p-11f;
        }
        look(tile * columns, sum);
      }
    }
    __syncthreads();
  }

 private:
  /// 16 features from chunk `chunk` on. `rest` gets what a low half is part of.
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

/// Why this device cannot run such a kernel; empty where it can.
template <int parts>
std::string refuse_tensor_tiles(const Device& device) {
  if (device.kind == DeviceKind::cuda && device.compute_capability < 80)
    return "the tensor cores' products used here need a GPU of compute capability 8.0 or more, this one has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  if (device.shared_bytes_optin < MainloopSm80<parts>::bytes)
    return "its tiles need " + std::to_string(MainloopSm80<parts>::bytes) +
           " bytes of shared memory in a block, the device has " + std::to_string(device.shared_bytes_optin);
  return "";
}

}  // namespace ladder
