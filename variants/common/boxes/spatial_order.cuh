// Points of one to three dimensions in the order of a Hilbert curve, so that neighbours in memory are neighbours in
// space: a counting sort by the cell of a grid that a point lies in, once per upload. The order within a cell is any.
// v05a_spatial_order introduces it. Sources: Hilbert, "Ueber die stetige Abbildung einer Linie auf ein Flächenstück",
// 1891; Skilling, "Programming the Hilbert curve", 2004.
#pragma once
#include <bit>

#include "../device/counting_sort.cuh"
#include "../lloyd/feature_major.cuh"

namespace ladder {

constexpr int most_dimensions = 3;

struct SpatialOrder {
  RowOrder cells;                       // row[p]: the row of the point at place p
  RowOrder tiles;                       // of prefix_sum_block cells each; no rows
  unsigned long long* range = nullptr;  // 2 x d: the least of each feature, then the largest, as ordered_bits()
  int32_t* label = nullptr;             // n: in the order of the rows
  int cell_bits = 0;                    // the grid has 2^cell_bits cells along each axis
};

/// Bits of a double as a whole number that is larger for a larger value.
__device__ inline unsigned long long ordered_bits(double x) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
/// Half the value: the difference of two halves does not overflow.
__host__ __device__ inline double half_of_ordered(unsigned long long ordered) {
  return 0.5 * std::bit_cast<double>(ordered >> 63 ? ordered ^ 1ull << 63 : ~ordered);
}

template <class T, int d>
__global__ void range_kernel(const T* rows, unsigned long long* range, int n) {
  unsigned long long low[d], high[d];
  for (int f = 0; f < d; ++f) low[f] = ~0ull, high[f] = 0;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    for (int f = 0; f < d; ++f) {
      const unsigned long long bits = ordered_bits(double(rows[i * d + f]));
      low[f] = min(low[f], bits), high[f] = max(high[f], bits);
    }
  }
  for (int f = 0; f < d; ++f) {
    low[f] = warp_min(low[f]), high[f] = warp_max(high[f]);
    if (threadIdx.x % warp_lanes == 0) atomicMin(&range[f], low[f]), atomicMax(&range[d + f], high[f]);
  }
}

/// The place on the curve of the cell with these coordinates of `bits` bits, which are destroyed.
template <int d>
__device__ unsigned hilbert_index(unsigned (&cell)[d], int bits) {
  for (unsigned bit = 1u << (bits - 1); bit > 1; bit /= 2) {
    for (int f = 0; f < d; ++f) {  // turn the sub-cube: mirror the lower bits, or swap two axes in them
      const unsigned lower = cell[f] & bit ? bit - 1 : (cell[0] ^ cell[f]) & (bit - 1);
      if (!(cell[f] & bit)) cell[f] ^= lower;
      cell[0] ^= lower;
    }
  }
  unsigned gray = 0, index = 0;
  for (int f = 1; f < d; ++f) cell[f] ^= cell[f - 1];
  for (unsigned bit = 1u << (bits - 1); bit > 1; bit /= 2) gray ^= cell[d - 1] & bit ? bit - 1 : 0;
  for (int bit = bits - 1; bit >= 0; --bit)
    for (int f = 0; f < d; ++f) index = 2 * index + ((cell[f] ^ gray) >> bit & 1);
  return index;
}

/// The cell of a row. Cells are cubes, and the longest side of the points' range has 2^bits of them.
template <class T, int d>
__device__ int cell_of(const T* row, const unsigned long long* range, int bits) {
  double longest = 0;
  for (int f = 0; f < d; ++f) longest = fmax(longest, half_of_ordered(range[d + f]) - half_of_ordered(range[f]));
  const double cells = double(1 << bits);
  unsigned cell[d];
  for (int f = 0; f < d; ++f) {
    const double share = (0.5 * double(row[f]) - half_of_ordered(range[f])) / longest;  // NaN: all points are the same
    cell[f] = unsigned(fmin(fmax(share * cells, 0.0), cells - 1));
  }
  return int(hilbert_index(cell, bits));
}

template <class T, int d>
__global__ void count_cells_kernel(const T* rows, const unsigned long long* range, RowOrder cells, int bits, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) count_row(cells, cell_of<T, d>(rows + i * d, range, bits));
}

/// A block per tile: prefix sums within it, and how many points it has.
[[maybe_unused]] static __global__ void __launch_bounds__(prefix_sum_block)
    tile_offsets_kernel(RowOrder cells, RowOrder tiles) {
  const int first = blockIdx.x * prefix_sum_block, last = prefix_sum_block - 1;
  exclusive_prefix_sum(cells.count + first, cells.offset + first, prefix_sum_block);
  if (threadIdx.x == last) tiles.count[blockIdx.x] = cells.offset[first + last] + cells.count[first + last];
}

/// Moves each row to its place in the order, feature by feature.
template <class T, int d>
__global__ void place_rows_kernel(const T* rows, const unsigned long long* range, RowOrder cells,
                                  const int* tile_offset, T* x, int bits, int n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const int cell = cell_of<T, d>(rows + i * d, range, bits);
  const int place = tile_offset[cell / prefix_sum_block] + atomicAdd(&cells.offset[cell], 1);
  cells.row[place] = int(i);
  for (int f = 0; f < d; ++f) x[size_t(f) * n + place] = rows[i * d + f];
}

[[maybe_unused]] static __global__ void labels_by_row_kernel(const int32_t* label, const int* row, int32_t* by_row,
                                                             int n) {
  const int64_t p = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (p < n) by_row[row[p]] = label[p];
}

// ---- phases; W::rows, which has its memory already, and W::order

template <class T, class W>
void prepare_spatial(Run<T, W>& s) {
  constexpr int least_bits = 12,
                most_bits = 20;  // of a cell's number: at least a tile of cells, at most 4 MB of counts
  auto& order = s.ws.order;
  const int wanted = int(std::bit_width(unsigned(s.n)));  // about one point in a cell
  order.cell_bits = std::clamp(wanted, least_bits, most_bits) / s.d;
  const int cells = 1 << (order.cell_bits * s.d);
  order.cells = allocate_order(s, s.n, cells);
  order.tiles = allocate_order(s, 0, cells / prefix_sum_block);
  order.range = s.template device<unsigned long long>(2 * s.d);
  order.label = s.template device<int32_t>(s.n);
}

template <int d, class T, class W>
void place_rows(Run<T, W>& s) {
  const auto& order = s.ws.order;
  const T* rows = s.ws.rows.points;
  const int cells = 1 << (order.cell_bits * d), tiles = cells / prefix_sum_block, grid = blocks(s.n, 256);
  check(cudaMemsetAsync(order.range, 0xff, d * sizeof *order.range, s.stream), "clearing the range");
  check(cudaMemsetAsync(order.range + d, 0, d * sizeof *order.range, s.stream), "clearing the range");
  check(cudaMemsetAsync(order.cells.count, 0, cells * sizeof(int), s.stream), "clearing the counts of cells");
  launch(range_kernel<T, d>, std::min(grid, 4 * s.device_info.multiprocessors), 256, 0, s.stream, rows, order.range,
         s.n);
  launch(count_cells_kernel<T, d>, grid, 256, 0, s.stream, rows, order.range, order.cells, order.cell_bits, s.n);
  launch(tile_offsets_kernel, tiles, prefix_sum_block, 0, s.stream, order.cells, order.tiles);
  launch(prefix_sum_kernel, 1, prefix_sum_block, 0, s.stream, order.tiles, tiles);
  launch(place_rows_kernel<T, d>, grid, 256, 0, s.stream, rows, order.range, order.cells, order.tiles.offset, s.x,
         order.cell_bits, s.n);
}

template <class T, class W>
void upload_spatial(Run<T, W>& s) {
  to_device(s, s.ws.rows.points, s.points, size_t(s.n) * s.d, "uploading the points");
  dispatch<1, 2, 3>(s.d, [&]<int d>() { place_rows<d>(s); });
}

/// Labels return to the order of the rows.
template <class T, class W>
void download_spatial(Run<T, W>& s) {
  const auto& order = s.ws.order;
  launch(labels_by_row_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, order.cells.row, order.label, s.n);
  std::swap(s.label, s.ws.order.label);  // for the copy
  download_rows(s);
  std::swap(s.label, s.ws.order.label);
}

inline std::string refuse_dimensions(const Shape& p) {
  if (p.d <= most_dimensions) return "";
  return "its points are ordered along a curve through one to three dimensions, these have D = " + std::to_string(p.d);
}

}  // namespace ladder
