// Products of short rows of halves with all centroids, by tensor cores. Where a row has only a few dozen columns, a
// warp keeps its points' whole rows in registers, and only centroids pass through shared memory: tiles of 128, three of
// them on their way, by asynchronous copies. 8 warps with 32 points each, which multiply with 64 centroids at a time
// (32 where rows are wider: registers), so that two blocks fit on a multiprocessor. v36_narrow_mainloop
// introduces it.
#pragma once
#include <cuda_pipeline.h>

#include "mma_sm80.cuh"

namespace ladder {

/// Rows of `width` halves, a multiple of 16.
template <int width>
struct NarrowMainloopSm80 {
  static constexpr int block = 256;
  static constexpr int warp_rows = 32, rows = block / 32 * warp_rows;  // points
  static constexpr int columns = 128;                                  // centroids of a stage
  static constexpr int group = width == 48 || width == 64 ? 32 : 64;   // centroids that are multiplied at a time
  static constexpr int resident = width <= 64 ? 2 : 1;                 // blocks of a multiprocessor
  static constexpr int stages = 3;
  static constexpr int steps = width / mma_depth, chunks = width / 8;  // of a row; a chunk is 16 bytes
  static constexpr int pitch = chunks + 1;  // chunks, an odd number: those of 8 rows lie in different banks
  static constexpr int stage_words = columns * pitch * 4;
  static constexpr size_t bytes = size_t(stages) * stage_words * sizeof(uint32_t);
  static constexpr int row_fragments = warp_rows / mma_rows, column_fragments = group / mma_columns;
  static constexpr int own_rows = 2 * row_fragments;  // rows of the tile in which a lane has products

  /// A lane's products: element 2 h + e of [m][f] is that of row 2 m + h of its own_rows and of the column (f, e).
  using Products = float[row_fragments][column_fragments][4];

  static int64_t padded_rows(int n) { return int64_t(blocks(n, rows)) * rows; }
  static int64_t padded_columns(int k) { return int64_t(blocks(k, columns)) * columns; }

  int first_row, lane;  // of the warp
  __device__ NarrowMainloopSm80() : first_row(threadIdx.x / 32 * warp_rows), lane(threadIdx.x % 32) {}
  __device__ int row(int r) const { return first_row + r * 8 + lane / 4; }
  __device__ int column(int f, int e) const { return f * mma_columns + lane % 4 * 2 + e; }

  /// Calls epilogue(first, products) for each group of centroids first .. first + group - 1, 0 first. x and c have
  /// padded_rows(n) and padded_columns(k) rows. Dynamic shared memory: `bytes`; it is free again at the end.
  template <class Epilogue>
  __device__ void multiply(const uint4* __restrict__ x, const uint4* __restrict__ c, int k,
                           const Epilogue& epilogue) const {
    multiply([](int r) { return int64_t(blockIdx.x) * rows + r; }, x, nullptr, c, k, epilogue);
  }
  /// The same for rows in any order: row r of the tile is row_at(r) of x. last_words: of each row of x, two halves that
  /// take the place of its last two; null: these stay.
  template <class RowAt, class Epilogue>
  __device__ void multiply(const RowAt& row_at, const uint4* __restrict__ x, const uint32_t* __restrict__ last_words,
                           const uint4* __restrict__ c, int k, const Epilogue& epilogue) const {
    FragmentA a[steps][row_fragments];
    for (int r = 0; r < own_rows; ++r) {
      const int64_t from = row_at(row(r));
      const uint32_t* const words = reinterpret_cast<const uint32_t*>(x + from * chunks);
#pragma unroll
      for (int s = 0; s < steps; ++s)
        for (int e = 0; e < 2; ++e) a[s][r / 2].r[e * 2 + r % 2] = words[s * (mma_depth / 2) + e * 4 + lane % 4];
      if (last_words && lane % 4 == 3) a[steps - 1][r / 2].r[2 + r % 2] = last_words[from];
    }

    uint32_t* const shared = dynamic_shared<uint32_t>();  // stages x columns x pitch x 4
    const int tiles = (k + columns - 1) / columns;
    const auto fetch = [&](int tile, int to) {
      if (tile < tiles) {
        const uint4* const from = c + int64_t(tile) * columns * chunks;
        for (int e = 0; e < columns * chunks / block; ++e) {
          const int place = e * block + int(threadIdx.x), line = place / chunks, chunk = place % chunks;
          __pipeline_memcpy_async(shared + to * stage_words + (line * pitch + chunk) * 4, from + place, 16);
        }
      }
      __pipeline_commit();  // an empty one at the end, so that the number of groups tells which have come
    };

    for (int s = 0; s < stages - 1; ++s) fetch(s, s);
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      __pipeline_wait_prior(stages - 2);
      __syncthreads();  // this stage has arrived, and the one before is no longer read
      fetch(tile + stages - 1, (stage + stages - 1) % stages);  // into the one before
      const uint32_t* const current = shared + stage * stage_words;
      stage = (stage + 1) % stages;
#pragma unroll 1  // one group's products take all registers
      for (int first = 0; first < columns; first += group) {
        Products sum = {};
#pragma unroll  // a dynamically indexed array would go to local memory
        for (int s = 0; s < steps; ++s) {
#pragma unroll
          for (int f = 0; f < column_fragments; f += 2) {
            FragmentB b[2];
            load(b, current, first + f * mma_columns, s);
            for (int m = 0; m < row_fragments; ++m)
              for (int e = 0; e < 2; ++e) mma(sum[m][f + e], a[s][m], b[e]);
          }
        }
        epilogue(tile * columns + first, sum);
      }
    }
    __syncthreads();
  }

 private:
  /// Two B side by side, whose columns are 16 rows of a stage from `row` on; their `step`-th 16 halves.
  __device__ void load(FragmentB (&b)[2], const uint32_t* stage, int row, int step) const {
#ifdef __CUDACC__
    uint32_t r[4];
    load_matrices(r, stage + ((row + lane / 16 * 8 + lane % 8) * pitch + 2 * step + lane / 8 % 2) * 4);
    for (int e = 0; e < 4; ++e) b[e / 2].r[e % 2] = r[e];
#else
    for (int e = 0; e < 4; ++e)
      b[e / 2].r[e % 2] = stage[((row + e / 2 * 8 + lane / 4) * pitch + 2 * step + e % 2) * 4 + lane % 4];
#endif
  }
};

}  // namespace ladder
