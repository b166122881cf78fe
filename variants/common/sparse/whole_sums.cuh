// Sums as whole numbers from which rows can be subtracted again, where no value needs more digits than they have.
// v04f_changed_rows has the idea, and a form of its own.
#pragma once
#include "../update/block_private.cuh"
#include "fixed_sums.cuh"

namespace ladder {

constexpr int pair = 2;  // entries of a row that are loaded at once

/// What sums of sparse rows need.
template <class T>
struct SparseSums {
  SlicedRows<T> sparse;
  FixedSums fixed;
  Limits* limits = nullptr;  // 1
  Units<T> units;
  int* rests = nullptr;    // 1: entries whose rest is not 0
  bool whole = false;      // no value has a rest: the sums are whole numbers
  bool restarted = false;  // the sums hold no rows
};

template <class T>
struct WholeSums : SparseSums<T> {
  Sums sums;  // of dense points
};

/// Counts entries whose sums are no whole numbers.
template <class T, class Column>
__global__ void rests_kernel(Slices<T, Column, pair> rows, Units<T> units, int* rests, int slices) {
  int count = 0;
  const int64_t threads_of_grid = int64_t(gridDim.x) * blockDim.x;
  for (int64_t slot = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; slot < slices * int64_t(warp_lanes);
       slot += threads_of_grid)
    rows.entries(slot, [&](int, T x) {
      for (int q = 0; q < 3; ++q) x -= rint(x * units.scale[q]) * units.unit[q];
      count += x != 0;
    });
  if (count > 0) atomicAdd(rests, 1);
}

// ---- host side. W: a SparseSums<T>, or derived from it

template <class T, class W>
void prepare_sparse_sums(Run<T, W>& s) {
  prepare_sliced_rows(s, int64_t(s.n) * s.d * s.axis("percent") / 100, s.d <= 1 << 8 ? 1 : 2);
  s.ws.fixed = allocate_fixed_sums(s, s.k, s.d);
  s.ws.limits = s.template device<Limits>(1);
  s.ws.rests = s.template device<int>(1);
}

template <class T, class W>
void prepare_whole_sums(Run<T, W>& s) {
  prepare_sums(s);
  prepare_sparse_sums(s);
}

/// `threads`: of a block.
template <int threads, class T, class W>
void upload_whole_sums(Run<T, W>& s) {
  const auto& sparse = s.ws.sparse;
  with_column(s.d, [&]<class Column>() {
    upload_sliced_rows<Column, pair>(s);
    if (!sparse.used) return;
    Limits limits;
    to_device(s, s.ws.limits, &limits, 1, "clearing the limits");
    launch(limits_kernel<T, Column, pair>, s.device_info.multiprocessors, threads, s.d * sizeof(int), s.stream,
           sparse.template view<Column, pair>(), s.ws.limits, sparse.slices, s.d);
    check(cudaMemcpyAsync(&limits, s.ws.limits, sizeof limits, cudaMemcpyDeviceToHost, s.stream),
          "downloading the limits");
    check(cudaStreamSynchronize(s.stream), "finding the limits of the sums");
    s.ws.units = units_for<T>(limits);
    int rests = 0;
    to_device(s, s.ws.rests, &rests, 1, "clearing a count");
    launch(rests_kernel<T, Column>, s.device_info.multiprocessors, threads, 0, s.stream,
           sparse.template view<Column, pair>(), s.ws.units, s.ws.rests, sparse.slices);
    check(cudaMemcpyAsync(&rests, s.ws.rests, sizeof rests, cudaMemcpyDeviceToHost, s.stream), "downloading a count");
    check(cudaStreamSynchronize(s.stream), "counting values that are no whole numbers of units");
    s.ws.whole = rests == 0;
  });
}

template <class T, class W>
void restart_whole_sums(Run<T, W>& s) {
  restart_rows(s);
  s.ws.restarted = true;
}

/// Sizes: how a block of the variant uses its shared memory.
template <class Sizes>
std::string refuse_whole_sums(const Shape& p, const Device& device, const Axes& axes) {
  if (p.d > 1 << 16)
    return "two bytes hold the number of one of 65,536 columns, D is " + std::to_string(p.d) +
           ": v04b_sliced_rows takes any number";
  if (const Sizes size(p, device); size.copies == 0)
    return "a block keeps the centroids and the sums of all clusters in shared memory: K = " + std::to_string(p.k) +
           " and D = " + std::to_string(p.d) + " are too many; v04d_replicated_table takes more";
  return refuse_update_shared(p, device, axes);
}

}  // namespace ladder
