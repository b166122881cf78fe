// Sums of boxes, a warp per box, in a kernel of its own: phase `update`. Sums are whole numbers, so the centroids are
// the same bits in every run. v05d_warp_sums introduces it.
#pragma once
#include "assign_boxes.cuh"
#include "exact_box_sums.cuh"

namespace ladder {

/// A warp per box.
template <class T, int d>
__global__ void sum_boxes_kernel(const T* x, const int32_t* label, const int* box_label,
                                 const unsigned long long* total, unsigned long long* sum, FixedPoint format, int n) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n), values = BoxSums::values(format, d);
  if (begin >= n) return;
  const auto put = [&](int j, long long part) {
    if (lane <= values) atomicAdd(&sum[size_t(j) * (values + 1) + lane], static_cast<unsigned long long>(part));
  };
  const auto own_total = lane <= values ? static_cast<long long>(total[size_t(box) * (values + 1) + lane]) : 0;
  if (box_label[box] >= 0) return put(box_label[box], own_total);
  BoxPoints<T, d> points;
  points.load(x, begin, end, n);
  int labels[points_per_lane];
  for (int q = 0; q < points_per_lane; ++q) labels[q] = label[min(begin + q * warp_lanes + lane, end - 1)];
  sum_by_label(points, labels, valid_points(begin, end), own_total, format, put);
}

// ---- phases; W::boxes, W::box_label, W::sums

template <class T, class W>
void update_boxes(Run<T, W>& s) {
  const BoxSums& sums = s.ws.sums;
  clear_box_sums(s);
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(sum_boxes_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream,
           s.x, s.label, s.ws.box_label, sums.total, sums.sum, sums.format, s.n);
  });
  means_of_boxes(s);
}

}  // namespace ladder
