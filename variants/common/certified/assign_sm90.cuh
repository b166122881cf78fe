// The certified assignment on wgmma: its operands in memory, and the epilogue that turns a tile of products into
// bounds, keeps the best of each row and decides proven rows. v26_wgmma introduces it; v27_tma_ring to v29_multicast
// keep it and change the mainloop that calls the epilogue.
#pragma once
#include "../gemm/accumulator_probe.cuh"
#include "../gemm/wgmma_sm90.cuh"
#include "../lloyd/frame.cuh"
#include "../lloyd/phases.cuh"
#include "error_bound.cuh"
#include "refine.cuh"

namespace ladder {

// ---- operands

/// Columns of a tile of centroids, and steps of 16 features that are multiplied.
struct OperandShape {
  int columns = 0, steps = 0;
};

/// Points are padded with zeros to whole groups of this many rows: four warpgroups, two blocks.
constexpr int padded_group = 4 * warpgroup_rows;
inline int64_t padded_points(int n) { return (int64_t(n) + padded_group - 1) / padded_group * padded_group; }

/// Points and centroids as operands of wgmma.
struct WarpgroupData {
  OperandShape shape;
  uint4* x = nullptr;           // a_fragment_offset(); n, padded
  PointBound* point = nullptr;  // n, padded; null where the bounds are columns of the rows
  unsigned char* c = nullptr;   // tile by tile: b_smem_offset(), then a CentroidBound per column, if point is not null
  /// The operands from row `first` of the points on, a multiple of warpgroup_rows.
  WarpgroupData from(int first) const {
    WarpgroupData rows = *this;
    rows.x += size_t(first) * shape.steps * mma_depth / 8;
    if (point) rows.point += first;
    return rows;
  }
};

template <class T>
struct WarpgroupOperands {
  WarpgroupData rows;
  Frame<T> frame;
};

/// The bytes of a tile of centroids, whose bounds begin at bounds_offset().
template <int columns>
constexpr size_t bounds_offset(int steps) {
  return size_t(steps) * step_bytes<columns>;
}
template <int columns>
constexpr size_t centroid_tile_bytes(int steps) {
  return bounds_offset<columns>(steps) + columns * sizeof(CentroidBound);
}

/// Where quantize_kernel puts a point.
struct PointFragments {
  uint4* halves;
  PointBound* bound;
  int steps;
  template <class Value>
  __device__ void operator()(int64_t row, int, const Value& value, int d) const {
    const auto place = [&](int, int word) -> __half2& {
      return reinterpret_cast<__half2*>(halves)[a_fragment_offset(row, word, steps)];
    };
    const QuantizationError error = quantize_words<1>(place, steps * mma_depth / 2, d, value);
    if (threadIdx.x % 32 == 0) bound[row] = point_bound(error, steps * mma_depth);
  }
};

/// Where it puts a centroid. Steps of zeros that pad the rows are multiplied, too: the bounds allow for them.
template <int columns>
struct CentroidTiles {
  unsigned char* tiles;
  int steps;
  template <class Value>
  __device__ void operator()(int64_t row, int count, const Value& value, int d) const {
    const int column = int(row % columns);
    unsigned char* const tile = tiles + row / columns * centroid_tile_bytes<columns>(steps);
    const auto place = [&](int, int word) -> __half2& {
      return reinterpret_cast<__half2*>(tile)[b_smem_offset<columns>(column, word)];
    };
    const QuantizationError error = quantize_words<1>(place, steps * mma_depth / 2, d, value);
    if (threadIdx.x % 32 == 0) {
      auto* const bounds = reinterpret_cast<CentroidBound*>(tile + bounds_offset<columns>(steps));
      bounds[column] = row < count ? centroid_bound(error, steps * mma_depth) : padding_centroid();
    }
  }
};

/// Operands whose bounds are kept beside the halves.
struct SeparateBounds {
  static constexpr bool separate = true;
  template <class T, class W>
  static void prepare(Run<T, W>&) {}
  /// Tiles of 128 centroids; whole stages.
  static OperandShape shape(int, int d) { return {128, blocks(d, stage_depth) * stage_steps}; }
  static size_t tile_bytes(const OperandShape& shape) { return centroid_tile_bytes<128>(shape.steps); }
  template <class T>
  static void quantize_points(const T* points, const Frame<T>& frame, const WarpgroupData& rows, int count,
                              int64_t padded, int d, cudaStream_t stream) {
    quantize(points, frame, PointFragments{rows.x, rows.point, rows.shape.steps}, nullptr, count, padded, d, stream);
  }
  template <class T, int columns = 128>
  static void quantize_centroids(const T* c, const Frame<T>& frame, const WarpgroupData& rows, const int* length, int k,
                                 int d, cudaStream_t stream) {
    quantize(c, frame, CentroidTiles<columns>{rows.c, rows.shape.steps}, length, k,
             int64_t(blocks(k, columns)) * columns, d, stream);
  }
};

// ---- epilogue

#ifdef __CUDACC__
/// State of one of a thread's two rows, in shared memory: few tiles after the first ones need it.
struct alignas(16) RowSlot {
  PointBound point;
  Top3 top3;
};

/// After a warp's last tile, by its lanes 0 .. 15, one for each of its rows: the slots of the four threads that share
/// the row. `threads`: consumer threads of the block.
template <int threads>
__device__ const RowSlot* quad_slot(const RowSlot* slots) {
  const int thread = threadIdx.x, lane = thread % 32;
  return &slots[lane / 8 * threads + thread / 32 * 32 + lane % 8 * 4];
}
__device__ inline Top3 merge_quad(const RowSlot* slots) {
  Top3 merged = slots[0].top3;
#pragma unroll 1  // saves registers
  for (int e = 1; e < 4; ++e) merged.merge(slots[e].top3);
  return merged;
}

/// Keeps the Top3 of a thread's two rows over all tiles. Called by whole warps; `threads` consumer threads of a block.
template <int columns, int threads>
struct Top3Epilogue {
  static constexpr size_t bytes = 2 * threads * sizeof(RowSlot);
  static constexpr int thread_columns = columns / 4;  // a thread has products of two rows with this many columns
  /// The element of the first row with the thread's column `column`; that of the second row is 2 further.
  static __device__ constexpr int element(int column) { return column / 2 * 4 + column % 2; }

  RowSlot* slots;  // `bytes` bytes of shared memory
  float lower[2];  // Top3::lower of the rows

  __device__ RowSlot& slot(int r) const { return slots[r * threads + threadIdx.x]; }

  /// Before the first tile of 64 points, from `row` on.
  __device__ void prologue(const PointBound* point, int64_t row) {
    for (int r = 0; r < 2; ++r) {
      slot(r) = {point[row + accumulator_row(threadIdx.x % warpgroup_threads, 2 * r)], {}};
      lower[r] = Top3::none;
    }
  }

  /// A tile of products with the centroids first .. first + columns - 1, whose bounds are centroid[0 .. columns).
  __device__ void operator()(int first, const CentroidBound* centroid, float (&product)[columns / 2]) {
    constexpr float none = -std::numeric_limits<float>::infinity();  // below Top3::none: never inserted
    float largest[2];
    PointBound y[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // four lanes of a warp share a row: all get the largest of their lower bounds
      for (int step = 1; step < 4; step *= 2) lower[r] = fmaxf(lower[r], __shfl_xor_sync(0xffffffffu, lower[r], step));
      y[r] = slot(r).point;
      largest[r] = none;
    }
#pragma unroll
    for (int column = 0; column < thread_columns; ++column) {
      const CentroidBound z = centroid[accumulator_column(threadIdx.x, element(column))];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float& bound = product[element(column) + 2 * r];
        bound = upper_bound(bound, y[r], z);
        largest[r] = fmaxf(largest[r], bound);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      while (largest[r] >= lower[r]) {  // insert the bounds that reach `lower`, from the largest down
        int found_column = -1;          // the first of the thread's columns that has the largest bound
        float next = none;
#pragma unroll
        for (int column = 0; column < thread_columns; ++column) {
          float& bound = product[element(column) + 2 * r];
          const bool found = found_column < 0 && bound == largest[r];
          if (found) found_column = column, bound = none;
          next = fmaxf(next, bound);
        }
        const int index = accumulator_column(threadIdx.x, element(found_column));
        Top3& top3 = slot(r).top3;
        top3.insert(largest[r], first + index);
        top3.lower = fmaxf(top3.lower, lower_bound(largest[r], y[r], centroid[index]));
        lower[r] = fmaxf(lower[r], top3.lower);
        largest[r] = next;
      }
    }
  }

  /// After the last tile: stores the labels of proven rows and lists the others.
  __device__ void finish(int64_t row, int32_t* label, UndecidedPair* undecided_pairs, RefineCounters* refine_counters,
                         int n) const {
    const int thread = threadIdx.x, lane = thread % 32;
    __syncwarp();
    if (lane < 16) {
      const Top3 merged = merge_quad(quad_slot<threads>(slots));
      const int64_t i = row + thread % warpgroup_threads / 32 * 16 + lane;
      if (i < n) decide(int(i), merged, label, undecided_pairs, refine_counters, n);
    }
    __syncwarp();  // all have read the slots: the next rows may overwrite them
  }
};
#endif

// ---- the probe of accumulator_probe.cuh, for wgmma

#ifdef __CUDACC__
template <int columns>
constexpr size_t probe_sm90_bytes = step_bytes<columns> + sizeof(float) * warpgroup_rows* columns;

/// The same for the products of a warpgroup, which may be added in another order: one probe per block, 64 x columns
/// sums after each link of its chain.
template <int columns>
__global__ void __launch_bounds__(warpgroup_threads) probe_sm90_kernel(unsigned* worst) {
  unsigned char* const b = dynamic_shared<unsigned char>();               // a step's B
  float* const sums = reinterpret_cast<float*>(b + step_bytes<columns>);  // warpgroup_rows x columns
  const int probe = blockIdx.x, thread = threadIdx.x;
  const auto two = [&](int link, int matrix, int line, int word) {
    return __halves2half2(probe_operand(probe, link, matrix, line, 2 * word),
                          probe_operand(probe, link, matrix, line, 2 * word + 1));
  };
  float d[columns / 2] = {}, largest = 0;
  for (int link = 0; link < probe_chain; ++link) {
    for (int e = thread; e < columns * mma_depth / 2; e += warpgroup_threads) {
      const int column = e / (mma_depth / 2), word = e % (mma_depth / 2);
      reinterpret_cast<__half2*>(b)[b_smem_offset<columns>(column, word)] = two(link, 1, column, word);
    }
    fence_async_proxy();
    __syncthreads();
    FragmentA a;
    for (int e = 0; e < 4; ++e) {
      const __half2 pair = two(link, 0, accumulator_row(thread, e % 2 * 2), thread % 4 + e / 2 * 4);
      a.r[e] = reinterpret_cast<const uint32_t&>(pair);
    }
    warpgroup_arrive();
    wgmma<columns>(d, a, descriptor<columns>(uint32_t(__cvta_generic_to_shared(b))), link > 0);
    warpgroup_commit();
    warpgroup_wait_for(d);
#pragma unroll
    for (int e = 0; e < columns / 2; ++e)
      sums[accumulator_row(thread, e) * columns + accumulator_column(thread, e)] = d[e];
    __syncthreads();
    for (int e = thread; e < warpgroup_rows * columns; e += warpgroup_threads)
      largest = fmaxf(largest, probe_ratio(probe, link, e / columns, e % columns, sums[e]));
    __syncthreads();  // all have read the sums
  }
  atomicMax(&worst[probe % kinds_of_probes], __float_as_uint(largest));
}

/// wgmma with this number of columns on the current device.
template <int columns>
ProbeRatios probe_accumulator_sm90(int probes_per_kind) {
  return run_probes(probes_per_kind, [](unsigned* worst, int probes) {
    launch(probe_sm90_kernel<columns>, probes, warpgroup_threads, probe_sm90_bytes<columns>, nullptr, worst);
  });
}
#endif

// ---- host side. `By`: the format of the operands, SeparateBounds or BoundColumns (bound_columns.cuh).

/// Memory for the operands, and what refine.cuh needs.
template <class T, class By = SeparateBounds, class W>
void prepare_sm90(Run<T, W>& s) {
  prepare_refinement(s);
  s.ws.warpgroup.frame = {s.template device<T>(s.d), s.template device<int>(1)};
  By::prepare(s);
  auto& rows = s.ws.warpgroup.rows;
  rows.shape = By::shape(s.k, s.d);
  const int64_t points = padded_points(s.n);
  rows.x = s.template device<uint4>(size_t(points) * rows.shape.steps * mma_depth / 8);
  rows.c = s.template device<unsigned char>(blocks(s.k, rows.shape.columns) * By::tile_bytes(rows.shape));
  if (By::separate) rows.point = s.template device<PointBound>(points);
}

/// Requires these of the points, Rows::points, on the device, and the frame.
template <class By = SeparateBounds, class T, class W>
void quantize_rows_sm90(Run<T, W>& s, const RowRange& range) {
  static_assert(RowRange::alignment % warpgroup_rows == 0);
  By::quantize_points(static_cast<const T*>(s.ws.rows.points) + size_t(range.first) * s.d, s.ws.warpgroup.frame,
                      s.ws.warpgroup.rows.from(range.first), range.count, range.padded(padded_points(s.n), s.n), s.d,
                      s.stream);
}

/// Requires the points, Rows::points, on the device.
template <class T, class W>
void quantize_points_sm90(Run<T, W>& s) {
  fit_frame(s, s.ws.rows.points, s.ws.warpgroup.frame, s.n, s.d);
  quantize_rows_sm90(s, all_rows(s));
}

/// `length`: of the list of rows that need them; null: all rows do.
template <class By = SeparateBounds, class T, class W>
void quantize_centroids_sm90(Run<T, W>& s, const int* length = nullptr) {
  By::quantize_centroids(static_cast<const T*>(s.c), s.ws.warpgroup.frame, s.ws.warpgroup.rows, length, s.k, s.d,
                         s.stream);
}

/// `columns`: of the products, each shape of wgmma that the rung uses.
template <int... columns>
std::string refuse_sm90(const Shape& p, const Device& device) {
  if (p.d > most_features)
    return "its bounds are proven for up to " + std::to_string(most_features) + " features, these points have " +
           std::to_string(p.d);
  std::string why = refuse_warpgroups(device);
#ifdef __CUDACC__
  // 40 probes of a kind are more sums than 1000 by mma
  ((why = why.empty() ? refuse_ratios(probe_accumulator_sm90<columns>(40)) : why), ...);
#endif
  return why;
}

}  // namespace ladder
