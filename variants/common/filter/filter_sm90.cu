// Kernels of filter_sm90.cuh.
//
// for cuda: 90a
#include "../device/warp_argmin.cuh"
#include "../gemm/narrow_mainloop_sm90.cuh"
#include "filter_sm90.cuh"
#include "finish_rows.cuh"

namespace ladder {
#ifdef __CUDACC__
namespace {

/// A bitwise function of three words, by its truth table: its value of 0xf0, 0xcc and 0xaa. Written out because nvcc
/// has been seen to compile the expression to two LOP3 where one will do.
template <unsigned table>
__device__ unsigned lop3(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(table));
  return d;
}

/// The centroid with the largest bound of each row, or nearly: the last bits of a bound hold a column. `bound_bits` is
/// guess_bits, as an argument: an instruction takes one constant, and the column is a second.
template <int width>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(NarrowMainloopSm90<width>::block, 1)
    max_bound_sm90_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c, unsigned bound_bits,
                          int* guess, RowOrder order, int n, int k) {
  using Tile = NarrowMainloopSm90<width>;
  static_assert(Tile::own_columns == ~guess_bits + 1);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  const int thread = threadIdx.x % warpgroup_threads, lane = thread % 32;
  float greatest[2];
  int first_column[2];
  const auto prologue = [&](int64_t) {
    for (int r = 0; r < 2; ++r) greatest[r] = nothing, first_column[r] = 0;
  };
  const auto epilogue = [&](int first, typename Tile::Products& product) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float best[2] = {nothing, nothing};  // of even and of odd columns: two independent chains
#pragma unroll
      for (int column = 0; column < Tile::own_columns; ++column) {
        const unsigned bits = __float_as_uint(product[Tile::element(column) + 2 * r]);
        best[column % 2] = fmaxf(best[column % 2], __uint_as_float((bits & bound_bits) | unsigned(column)));
      }
      best[0] = fmaxf(best[0], best[1]);
      if (best[0] > greatest[r]) greatest[r] = best[0], first_column[r] = first;
    }
  };
  const auto finish = [&](int64_t first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int j = first_column[r] + Tile::column(thread, __float_as_uint(greatest[r]) & ~bound_bits);
      warp_argmax<4>(greatest[r], j);  // four lanes share a row
      const int64_t i = first + accumulator_row(thread, 2 * r);
      if (lane % 4 == 0 && i < n) count_row(order, guess[i] = min(j, k - 1));
    }
  };
  Tile::multiply(
      x, nullptr, c, n, k, [](int i) { return i; }, prologue, epilogue, finish);
}

/// The candidates of each row, as filter_kernel of filter.cu finds them. Of most tiles one bit is wanted: is any
/// product of the warp not negative? A LOP3 combines two products.
template <int width>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(NarrowMainloopSm90<width>::block, 1)
    filter_sm90_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                       const uint32_t* __restrict__ thresholds, Candidates candidates, const int* __restrict__ order,
                       int* candidate_rows, int* overflow, FilterCounters* counters, int32_t* __restrict__ label, int n,
                       int k, FilterPart part) {
  using Tile = NarrowMainloopSm90<width>;
  order = part.order(order), n = part.count(n), k = part.columns(k);
  const int thread = threadIdx.x % warpgroup_threads, lane = thread % 32;
  // Candidates of each row of this warp, and of this thread's two.
  int* const found = reinterpret_cast<int*>(dynamic_shared<unsigned char>() + Tile::Ring::bytes) +
                     threadIdx.x / 32 * (warpgroup_rows / 4);
  int* const thread_found = found + lane / 4;
  int row[2], guess[2];
  unsigned closed[2];  // all bits set: the row's products are ignored
  const auto prologue = [&](int64_t first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t i = first + accumulator_row(thread, 2 * r);
      row[r] = order[i < n ? i : n - 1];
      closed[r] = i < n ? 0 : ~0u;
      guess[r] = candidates.guess[row[r]];
    }
    if (lane < warpgroup_rows / 4) found[lane] = 0;
    __syncwarp();
  };
  const auto epilogue = [&](int first, typename Tile::Products& product) {
    const auto bits = [&](int r, int column) { return __float_as_uint(product[Tile::element(column) + 2 * r]); };
    unsigned below[2];  // sign bit: all products of the row are negative
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      constexpr int last = Tile::own_columns - 1;
      static_assert(last % 2 == 1);
      below[r] = bits(r, 0);
#pragma unroll
      for (int column = 1; column < last; column += 2)
        below[r] = lop3<0xf0 & 0xcc & 0xaa>(below[r], bits(r, column), bits(r, column + 1));
      below[r] = lop3<(0xf0 & 0xcc) | 0xaa>(below[r], bits(r, last), closed[r]);
    }
    if (!__any_sync(0xffffffffu, int(below[0] & below[1]) >= 0)) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (int(below[r]) < 0) continue;
      unsigned signs = 0;  // a bit per column
#pragma unroll
      for (int column = Tile::own_columns - 1; column >= 0; --column)
        signs = __funnelshift_l(bits(r, column), signs, 1);
      for (unsigned which = signs ^ ((1u << Tile::own_columns) - 1); which != 0; which &= which - 1) {
        const int j = first + Tile::column(thread, unsigned(__ffs(int(which)) - 1));
        if (j >= k || part.centroid(j) == guess[r]) continue;
        const int place = atomicAdd(&thread_found[8 * r], 1);
        if (place < most_candidates)
          candidates.list[int64_t(row[r]) * most_candidates + place] = part.centroid(j);
        else
          closed[r] = ~0u;  // an overflow row needs no more candidates
      }
    }
    __syncwarp();
  };
  const auto finish = [&](int64_t first) {
    __syncwarp();  // all candidates are stored
    const int64_t i = first + thread / 32 * 16 + lane;
    const bool active = lane < warpgroup_rows / 4 && i < n;
    const int row_number = active ? order[i] : 0;
    finish_rows({candidates, candidate_rows, overflow, counters, label}, active, row_number,
                active ? candidates.guess[row_number] : 0, active ? found[lane] : 0);
    __syncwarp();  // the counts are read: those of the next rows may be cleared
  };
  Tile::multiply(
      x, thresholds, c, n, k, [&](int i) { return order[i]; }, prologue, epilogue, finish);
}

/// Blocks of a launch: by default whole clusters that run at a time.
template <int width>
int filter_grid(const FilterOperands& o) {
  return o.blocks > 0 ? o.blocks : NarrowMainloopSm90<width>::grid(o.n, o.multiprocessors);
}

const unsigned char* tiles(const FilterOperands& o) { return reinterpret_cast<const unsigned char*>(o.c); }

}  // namespace

int FilterSm90::rows_at_once(int width, int multiprocessors) {
  int rows = 0;
  dispatch_width(width, [&]<int width>() { rows = NarrowMainloopSm90<width>::cluster_rows; });
  return multiprocessors / cluster_size * rows;
}

void FilterSm90::filter(int width, cudaStream_t stream, const FilterOperands& o, const FilterPart& part) {
  dispatch_width(width, [&]<int width>() {
    using Tile = NarrowMainloopSm90<width>;
    launch(filter_sm90_kernel<width>, filter_grid<width>(o), Tile::block, Tile::Ring::bytes + Tile::rows * sizeof(int),
           stream, o.x, tiles(o), o.threshold, o.candidates, o.order, o.candidate_rows, o.overflow, o.counters, o.label,
           o.n, o.k, part);
  });
}

void max_bound(FilterSm90, int width, cudaStream_t stream, const FilterOperands& o, const RowOrder& order) {
  dispatch_width(width, [&]<int width>() {
    using Tile = NarrowMainloopSm90<width>;
    launch(max_bound_sm90_kernel<width>, filter_grid<width>(o), Tile::block, Tile::Ring::bytes, stream, o.x, tiles(o),
           guess_bits, o.candidates.guess, order, o.n, o.k);
  });
}
#endif

}  // namespace ladder
