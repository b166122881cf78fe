// Sparse rows in slices. Rows are sorted by length within windows, 32 neighbours make a slice, and entry e of the 32
// rows lies side by side: a warp with a lane per row reads whole lines of memory. The rows of a slice are padded with
// zeros to the longest of them. v04b_sliced_rows introduces it. Source: Kreutzer et al., "A unified sparse matrix data
// format", SIAM J. Sci. Comput. 36, 2014 (SELL-C-sigma).
//
// A slot is a row's place in this order: lane slot % 32 of slice slot / 32. The n rows have the slots 0 .. n - 1.
// Library: cuSPARSE has this format (CUSPARSE_FORMAT_SLICED_ELL) but neither sorts rows nor builds it from dense ones.
#pragma once
#include "../device/warp_compact.cuh"
#include "../lloyd/phases.cuh"

namespace ladder {

constexpr int window_rows = 2048;
constexpr int spare_entries = 2 * warp_lanes;  // behind the last slice: a kernel may load entries of an empty one

/// Neighbouring entries of a row, loaded at once.
template <class E, int group>
struct alignas(group * sizeof(E)) Group {
  E of[group];
};

/// For kernels. `group` entries of a row are neighbours: entry e of a lane is at begin + (e / group * 32 + lane) *
/// group
/// + e % group.
template <class T, class Column, int group>
struct Slices {
  const int64_t* begin;  ///< slices + 1: where slices begin, in entries
  const Column* column;
  const T* value;
  /// Calls use(column, value) for each entry of the row in this slot, padding included.
  template <class Use>
  __device__ void entries(int64_t slot, Use use) const {
    const int64_t first = begin[slot / warp_lanes] / group, last = begin[slot / warp_lanes + 1] / group;
#pragma unroll 4
    for (int64_t e = first + slot % warp_lanes; e < last; e += warp_lanes) {
      const auto x = reinterpret_cast<const Group<T, group>*>(value)[e];
      const auto f = reinterpret_cast<const Group<Column, group>*>(column)[e];
#pragma unroll
      for (int q = 0; q < group; ++q) use(f.of[q], x.of[q]);
    }
  }
};

template <class T>
struct SlicedRows {
  int64_t capacity = 0;            // the most entries, padding included, for which sparse rows pay
  bool used = false;               // whether the points are stored as sparse rows
  int slices = 0;                  // ceil(n / 32)
  int32_t* order = nullptr;        // n: the row in each slot
  int32_t* length = nullptr;       // n: entries of each row; free in iterations; in the end its label
  int64_t* slice_begin = nullptr;  // slices + 1
  void* column = nullptr;          // capacity
  T* value = nullptr;              // capacity
  int64_t* row_begin = nullptr;    // n + 1, points given as CSR rows only, as the next two
  int32_t* csr_column = nullptr;   // nnz
  T* csr_value = nullptr;          // nnz

  template <class Column, int group>
  Slices<T, Column, group> view() const {
    return {slice_begin, static_cast<const Column*>(column), value};
  }
};

// ---- where rows come from; a warp asks for one row

template <class T>
struct DenseRows {
  const T* x;
  int d;
  __device__ int length(int row) const {
    return entries(row, [](int, int, T) {});
  }
  /// Calls store(number, column, value) for each entry that is not 0, and returns how many there are.
  template <class Store>
  __device__ int entries(int row, Store store) const {
    const int lane = threadIdx.x % warp_lanes;
    int before = 0;
    for (int f = lane; f < d + lane; f += warp_lanes) {
      const T coordinate = f < d ? x[size_t(row) * d + f] : T(0);
      const unsigned stored = __ballot_sync(all_lanes, coordinate != 0);
      if (coordinate != 0) store(before + lanes_below(stored), f, coordinate);
      before += __popc(stored);
    }
    return before;
  }
};

template <class T>
struct CsrRows {
  const int64_t* row_begin;
  const int32_t* column;
  const T* value;
  __device__ int length(int row) const { return int(row_begin[row + 1] - row_begin[row]); }
  template <class Store>
  __device__ int entries(int row, Store store) const {
    const int64_t first = row_begin[row];
    const int count = length(row);
    for (int e = threadIdx.x % warp_lanes; e < count; e += warp_lanes) store(e, column[first + e], value[first + e]);
    return count;
  }
};

// ---- kernels

/// A warp per row.
template <class Rows>
__global__ void length_kernel(Rows rows, int32_t* length, int n) {
  const int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / warp_lanes;
  if (row >= n) return;  // a whole warp at a time
  const int entries = rows.length(int(row));
  if (threadIdx.x % warp_lanes == 0) length[row] = entries;
}

/// A block per window, a thread per two rows: bitonic sort, longest rows first, equal ones by number. The entries of
/// each slice go to slice_begin[slice + 1]. Library: cub::BlockRadixSort; own because the CPU device has no CUB.
template <int group>
__global__ void __launch_bounds__(window_rows / 2)
    sort_kernel(const int32_t* length, int32_t* order, int64_t* slice_begin, int n) {
  __shared__ uint64_t key[window_rows];  // ~length, row in the window; places behind the last row come last
  const int first = blockIdx.x * window_rows, t = threadIdx.x;
  for (int i = t; i < window_rows; i += blockDim.x)
    key[i] = first + i < n ? uint64_t(~unsigned(length[first + i])) << 32 | unsigned(i) : ~uint64_t(0);
  for (int run = 2; run <= window_rows; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      const int low = 2 * t - t % step, high = low + step;
      const uint64_t a = key[low], b = key[high];
      if ((a > b) == ((low & run) == 0)) key[low] = b, key[high] = a;
    }
  }
  __syncthreads();
  for (int i = t; i < window_rows && first + i < n; i += blockDim.x) {
    order[first + i] = first + int(unsigned(key[i]));
    const int longest = int(~unsigned(key[i] >> 32));  // of a slice that begins here
    if (i % warp_lanes == 0)
      slice_begin[(first + i) / warp_lanes + 1] = (longest + group - 1) / group * group * int64_t(warp_lanes);
  }
}

constexpr int scan_threads = 1024;

/// One block: the counts in begin[1 .. count] become an inclusive prefix sum; begin[0] becomes 0. Each thread sums its
/// share, the block scans these sums, and each thread writes its share. Library: cub::DeviceScan does this; own because
/// the CPU device has no CUB.
[[maybe_unused]] static __global__ void __launch_bounds__(scan_threads) begin_kernel(int64_t* begin, int count) {
  __shared__ int64_t warp_total[scan_threads / warp_lanes];
  const int t = threadIdx.x, lane = t % warp_lanes, warp = t / warp_lanes;
  const int share = (count + scan_threads - 1) / scan_threads;
  const int64_t first = int64_t(t) * share, last = min(int64_t(count), first + share);
  int64_t share_sum = 0;
  for (int64_t i = first; i < last; ++i) share_sum += begin[i + 1];
  const int64_t up_to_lane = warp_prefix_sum(share_sum);
  if (lane == warp_lanes - 1) warp_total[warp] = up_to_lane;
  __syncthreads();
  const int64_t lower_warps = warp_sum(lane < warp ? warp_total[lane] : 0);
  int64_t sum = lower_warps + up_to_lane - share_sum;
  if (t == 0) begin[0] = 0;
  for (int64_t i = first; i < last; ++i) begin[i + 1] = sum += begin[i + 1];
}

/// A warp per slot copies its row, in the order of the features, and pads it with zeros. Their column is another one in
/// each lane: sums that get them are in different banks.
template <class Column, int group, class T, class Rows>
__global__ void fill_kernel(Rows rows, const int32_t* order, const int64_t* slice_begin, Column* column, T* value,
                            int n, int d, int slices) {
  const int64_t slot = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / warp_lanes, slice = slot / warp_lanes;
  if (slice >= slices) return;  // a whole warp at a time
  const int64_t begin = slice_begin[slice];
  const int width = int((slice_begin[slice + 1] - begin) / warp_lanes);
  const auto store = [&](int e, int f, T coordinate) {
    const int64_t at = begin + (int64_t(e / group) * warp_lanes + slot % warp_lanes) * group + e % group;
    column[at] = Column(f);
    value[at] = coordinate;
  };
  const int stored = slot < n ? rows.entries(order[slot], store) : 0;
  for (int e = stored + int(threadIdx.x % warp_lanes); e < width; e += warp_lanes)
    store(e, int(slot % warp_lanes) % d, T(0));
}

[[maybe_unused]] static __global__ void row_labels_kernel(const int32_t* label, const int32_t* order,
                                                          int32_t* row_label, int n) {
  const int slot = blockIdx.x * blockDim.x + threadIdx.x;
  if (slot < n) row_label[order[slot]] = label[slot];
}

/// Calls use.template operator()<Column>() with the narrowest type for the number of a column.
template <class Use>
void with_column(int d, Use use) {
  d <= 1 << 8 ? use.template operator()<uint8_t>() : use.template operator()<uint16_t>();
}

// ---- host side; W::sparse is a SlicedRows<T>

/// `column_bytes`: of one column number.
template <class T, class W>
void prepare_sliced_rows(Run<T, W>& s, int64_t capacity, size_t column_bytes) {
  SlicedRows<T>& rows = s.ws.sparse;
  rows.capacity = capacity;
  rows.slices = blocks(s.n, warp_lanes);
  rows.order = s.template device<int32_t>(s.n);
  rows.length = s.template device<int32_t>(s.n);
  rows.slice_begin = s.template device<int64_t>(size_t(rows.slices) + 1);
  rows.column = s.template device<unsigned char>((capacity + spare_entries) * column_bytes);
  rows.value = s.template device<T>(capacity + spare_entries);
  if (!s.problem.sparse()) return;
  rows.row_begin = s.template device<int64_t>(size_t(s.n) + 1);
  rows.csr_column = s.template device<int32_t>(s.problem.nnz);
  rows.csr_value = s.template device<T>(s.problem.nnz);
}

/// Builds the slices if they have at most `capacity` entries; waits for the device.
template <class Column, int group, class T, class W, class Rows>
void slice_rows(Run<T, W>& s, const Rows& from) {
  SlicedRows<T>& rows = s.ws.sparse;
  launch(length_kernel<Rows>, blocks(int64_t(s.n) * warp_lanes, 256), 256, 0, s.stream, from, rows.length, s.n);
  launch(sort_kernel<group>, blocks(s.n, window_rows), window_rows / 2, 0, s.stream, rows.length, rows.order,
         rows.slice_begin, s.n);
  launch(begin_kernel, 1, scan_threads, 0, s.stream, rows.slice_begin, rows.slices);
  int64_t entries = 0;
  check(cudaMemcpyAsync(&entries, rows.slice_begin + rows.slices, sizeof entries, cudaMemcpyDeviceToHost, s.stream),
        "downloading the count of entries");
  check(cudaStreamSynchronize(s.stream), "counting the non-zero entries");
  rows.used = entries <= rows.capacity;
  if (!rows.used) return;
  launch(fill_kernel<Column, group, T, Rows>, blocks(int64_t(rows.slices) * warp_lanes * warp_lanes, 256), 256, 0,
         s.stream, from, rows.order, rows.slice_begin, static_cast<Column*>(rows.column), rows.value, s.n, s.d,
         rows.slices);
}

/// Uploads the points and builds slices where these pay; otherwise s.x holds the points, row-major.
template <class Column, int group, class T, class W>
void upload_sliced_rows(Run<T, W>& s) {
  SlicedRows<T>& rows = s.ws.sparse;
  if (!s.problem.sparse()) {
    upload_rows(s);
    return slice_rows<Column, group>(s, DenseRows<T>{s.x, s.d});
  }
  to_device(s, rows.row_begin, s.csr.row_begin, size_t(s.n) + 1, "uploading where the rows begin");
  to_device(s, rows.csr_column, s.csr.column, size_t(s.problem.nnz), "uploading the columns");
  to_device(s, rows.csr_value, s.csr.value, size_t(s.problem.nnz), "uploading the values");
  slice_rows<Column, group>(s, CsrRows<T>{rows.row_begin, rows.csr_column, rows.csr_value});
  if (!rows.used) upload_rows(s);
}

/// Labels are in the order of the slots until here.
template <class T, class W>
void download_sliced_rows(Run<T, W>& s) {
  const SlicedRows<T>& rows = s.ws.sparse;
  if (!rows.used) return download_rows(s);
  launch(row_labels_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, rows.order, rows.length, s.n);
  check(cudaMemcpyAsync(s.result.label, rows.length, s.n * sizeof(int32_t), cudaMemcpyDeviceToHost, s.stream),
        "downloading the labels");
  check(cudaMemcpyAsync(s.result.centroids, s.c, size_t(s.k) * s.d * sizeof(T), cudaMemcpyDeviceToHost, s.stream),
        "downloading the centroids");
  check(cudaStreamSynchronize(s.stream), "downloading labels and centroids");
}

}  // namespace ladder
