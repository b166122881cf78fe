// Rows of points in memory as they lie in shared memory, so that one bulk copy brings 32 of them. v25c_bulk_rows
// introduces it.
#pragma once
#include "../device/bulk_buffer.cuh"
#include "register_sums.cuh"

namespace ladder {

/// Stored: the type that a coordinate has in memory.
template <class T, class Stored = T>
struct BulkRows {
  Stored* rows = nullptr;  // the points, n x Sizes::pitch
  Sums sums;
  certified::Certified<T> certified;  // of the centroids; the points have no halves in memory
  UndecidedRows refinement;           // the counters
  float* weight = nullptr;            // of each tile of 32 points: the largest PointBound::weight
};

/// Coordinates from one row to the next: eight rows lie 16 bytes apart modulo the 128 of all banks.
template <class T>
__host__ __device__ int bulk_pitch(int d) {
  const int quads = (d + 3) / 4;
  return sizeof(T) == 2 ? 8 * ((d + 7) / 8 | 1) : sizeof(T) == 4 ? 4 * (quads | 1) : 4 * quads + 2;
}

/// Starts the copy of the rows first .. first + 31 of x; those behind the last row become zeros.
template <class T>
__device__ void start_copy(BulkBuffer& buffer, T* tile, const T* x, int first, int n, int pitch) {
  if (first >= n) return;
  const int values = min(tile_rows, n - first) * pitch;
  buffer.start(tile, x + int64_t(first) * pitch, values * int(sizeof(T)));
  for (int e = values + threadIdx.x % 32; e < tile_rows * pitch; e += 32) tile[e] = 0;
}

// ---- host side. W: a BulkRows<T>, or derived from it

template <class T, class W>
void prepare_bulk_rows(Run<T, W>& s) {
  using Stored = std::remove_pointer_t<decltype(s.ws.rows)>;
  const int pitch = bulk_pitch<Stored>(s.d);
  prepare_sums(s);
  if constexpr (std::is_same_v<T, Stored>)
    s.ws.rows = pitch == s.d ? s.x : s.template device<T>(size_t(s.n) * pitch);
  else
    s.ws.rows = s.template device<Stored>(size_t(s.n) * pitch);
  auto& certified = s.ws.certified;
  const int64_t columns = certified::Tile::padded_columns(s.k);
  certified.c = allocate_fp16_rows(s, 1, columns, s.d);
  certified.centroid = s.template device<CentroidBound>(columns);
  certified.frame = {s.template device<T>(pitch), s.template device<int>(1)};
  s.ws.refinement.refine_counters = s.template device<RefineCounters>(counted);
  s.ws.refinement.refine_counters_host = s.template pinned<RefineCounters>(counted);
  s.ws.weight = s.template device<float>(blocks(s.n, tile_rows));
}

/// The frame of the points, and the weights. `rows`: n x pitch, the padding zero in every frame.
template <class T, class W>
void measure_points(Run<T, W>& s, const T* rows, int pitch) {
  fit_frame(s, rows, s.ws.certified.frame, s.n, pitch);
  check(cudaMemsetAsync(s.ws.weight, 0, blocks(s.n, tile_rows) * sizeof(float), s.stream), "clearing the weights");
  launch(weight_kernel<T>, blocks(int64_t(s.n) * 32, 256), 256, 0, s.stream, rows, s.ws.certified.frame, s.ws.weight,
         s.n, pitch);
}

template <class T, class W>
void upload_bulk_rows(Run<T, W>& s) {
  const int pitch = bulk_pitch<T>(s.d);
  if (pitch != s.d)
    check(cudaMemsetAsync(s.ws.rows, 0, size_t(s.n) * pitch * sizeof(T), s.stream), "clearing the rows");
  check(cudaMemcpy2DAsync(s.ws.rows, pitch * sizeof(T), s.points, s.d * sizeof(T), s.d * sizeof(T), s.n,
                          cudaMemcpyHostToDevice, s.stream),
        "uploading the points");
  measure_points(s, s.ws.rows, pitch);
}

/// Sizes: those of the variant, which has the bytes of a block and of a warp.
template <template <class> class Sizes>
std::string refuse_few_clusters(const Shape& p, const Device& device, const Axes&) {
  if (p.k > most_clusters)
    return "it is for few clusters: K is " + std::to_string(p.k) + ", at most " + std::to_string(most_clusters) +
           " are taken; v46_graph_loop takes any number";
  const Sizes<float> narrow(p.d, columns_of(clusters_of(p.k)));
  const Sizes<double> wide(p.d, columns_of(clusters_of(p.k)));
  const size_t bytes = p.element_bytes == 4 ? narrow.block_bytes(false) + narrow.warp_bytes()
                                            : wide.block_bytes(false) + wide.warp_bytes();
  if (bytes > device.shared_bytes_optin)
    return "a warp keeps 32 points in shared memory: " + std::to_string(bytes) +
           " bytes for D = " + std::to_string(p.d) + ", a block has " + std::to_string(device.shared_bytes_optin);
  const std::string why = refuse_bulk_copies(device);
  return why.empty() ? refuse_certified(p, device) : why;
}

}  // namespace ladder
