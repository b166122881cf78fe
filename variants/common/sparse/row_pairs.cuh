// A row in pairs of entries, the first of them in registers, and its nearest centroids. v04p_known_sizes introduces it.
#pragma once
#include "slice_places.cuh"
#include "subtracted_table.cuh"

namespace ladder {

/// Pairs of a row that are loaded before the first is used: what 80 registers leave beside `values` distances.
template <class T, int values>
constexpr int held = sizeof(T) == 8 ? 1
                     : values < 9   ? 6
                     : values == 9  ? 7
                     : values <= 12 ? 4
                                    : 2;

/// The row of a lane: the first pairs in registers.
template <class T, class Column, int early>
struct Row {
  const Group<T, pair>* values;
  const Columns<Column>* columns;
  int width;  // in pairs
  Group<T, pair> x[early];
  Columns<Column> f[early];
  __device__ Row(const Slices<T, Column, pair>& rows, const Place& place) : width(place.width()) {
    values = reinterpret_cast<const Group<T, pair>*>(rows.value + place.begin) + threadIdx.x % warp_lanes;
    columns = reinterpret_cast<const Columns<Column>*>(rows.column + place.begin) + threadIdx.x % warp_lanes;
#pragma unroll
    for (int e = 0; e < early; ++e)
      if (e < width) x[e] = values[e * warp_lanes], f[e] = columns[e * warp_lanes];
  }
  /// Calls use(pair of values, pair of columns) for all pairs.
  template <class Use>
  __device__ void pairs(const Use& use) const {
#pragma unroll
    for (int e = 0; e < early; ++e) {
      if (e >= width) break;
      use(x[e], f[e]);
    }
#pragma unroll 1
    for (int e = early; e < width; ++e) use(values[e * warp_lanes], columns[e * warp_lanes]);
  }
};

/// A lane per row of a slice. A lane reads the copy of its own banks; `line` bytes lie between two features. `weight`
/// becomes the sum of all |x|.
template <class T, int tile, int tail, bool one_tile, class RowEntries>
__device__ TwoNearest<T> nearest_centroids(const RowEntries& entries, const Vec16<T>* table, const Vec16<T>* norm,
                                           int row, int copies, int line, T& weight) {
  constexpr int size = Vec16<T>::size, whole = tail == size ? tile : tile - 1;  // vectors
  const int lane = threadIdx.x % warp_lanes;
  const auto* const tails =
      reinterpret_cast<const unsigned char*>(table[(row - 1) * copies].feature + lane % (copies * size / tail) * tail);
  TwoNearest<T> two;
  two.insert(0, 0);
  for (int first = 0; first < (one_tile ? 1 : row); first += tile) {
    T distance[tile][size];
#pragma unroll
    for (int q = 0; q < tile; ++q) {
      const Vec16<T> start = norm[first + q];
      for (int v = 0; v < size; ++v) distance[q][v] = start.feature[v];
    }
    const auto* const lines = reinterpret_cast<const unsigned char*>(table + first * copies + lane % copies);
    weight = 0;
    entries.pairs([&](const auto& value, const auto& column) {
#pragma unroll
      for (int p = 0; p < pair; ++p) {
        weight += fabs(value.of[p]);
        const auto* const c = reinterpret_cast<const Vec16<T>*>(lines + column.of(p) * line);
#pragma unroll
        for (int q = 0; q < whole; ++q) {
          const Vec16<T> vector = c[q * copies];
          for (int v = 0; v < size; ++v) distance[q][v] += value.of[p] * vector.feature[v];
        }
        if (whole == tile) continue;
        const auto values_of_tail = *reinterpret_cast<const Group<T, tail>*>(tails + column.of(p) * line);
        for (int v = 0; v < tail; ++v) distance[tile - 1][v] += value.of[p] * values_of_tail.of[v];
      }
    });
#pragma unroll
    for (int e = 0; e < (tile - 1) * size + tail; ++e) two.insert(distance[e / size][e % size], first * size + e + 1);
  }
  return two;
}

/// Centroids and sums in shared memory.
template <class BlockState>
struct RowSizes {
  int tile;    // vectors of centroids in registers at a time
  int row;     // vectors of one feature of all centroids: whole tiles
  int tail;    // values in the last of them: 1, 2 or 4
  int copies;  // of the centroids; 0: they do not fit
  bool known;  // one tile, with a copy for each group of banks
  size_t bytes;
  RowSizes(const Shape& p, const Device& device) {
    const int columns = std::max(1, p.k - 1);  // centroids without the first
    const int size = 16 / int(p.element_bytes), tiles = blocks(columns, vectors * size);
    tile = blocks(columns, tiles * size);
    row = tiles * tile;
    copies = 2 * bank_groups;
    do copies /= 2, bytes = sizeof(BlockState) + 16 * size_t(row) * (size_t(p.d) * copies + 1) + sums_bytes(p);
    while (copies > 0 && bytes > device.shared_bytes_optin);
    known = tiles == 1 && copies == bank_groups;
    tail = known ? int(std::bit_ceil(unsigned(columns - (row - 1) * size))) : size;
  }
  static size_t sums_bytes(const Shape& p) { return sizeof(int) * (2 * size_t(p.k) * p.d + size_t(p.k) * warp_lanes); }
};

}  // namespace ladder
