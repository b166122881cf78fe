// Labels of boxes, a warp per box, in a kernel of its own: phase `assign`. A box whose points have one label has it as
// its own, too. v05c_box_sums introduces it.
#pragma once
#include "boxes.cuh"

namespace ladder {

/// A warp per box. `box_label`: several_centroids where the points have labels of their own.
template <class T, int d>
__global__ void assign_boxes_kernel(const T* x, const Box<d>* bounds, const T* c, int32_t* label, int* box_label, int n,
                                    int k) {
  const int lane = threadIdx.x % warp_lanes, box = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes;
  const int begin = box * box_points, end = min(begin + box_points, n);
  if (begin >= n) return;
  BoxPoints<T, d> points{};
  int labels[points_per_lane];
  BoxTests<T, d> tests{bounds[box], c};
  const int only = assign_box(tests, points, c, k, labels, [&] { points.load(x, begin, end, n); });
  if (lane == 0) box_label[box] = only;
  for (int q = 0; q < points_per_lane; ++q) {
    const int i = begin + q * warp_lanes + lane;
    if (i < end) label[i] = only >= 0 ? only : labels[q];
  }
}

// ---- phases; W::boxes, W::box_label

template <class T, class W>
void assign_boxes(Run<T, W>& s) {
  dispatch<1, 2, 3>(s.d, [&]<int d>() {
    launch(assign_boxes_kernel<T, d>, blocks(boxes_of(s.n), warps_per_block), warps_per_block * warp_lanes, 0, s.stream,
           s.x, static_cast<const Box<d>*>(s.ws.boxes.bounds), s.c, s.label, s.ws.box_label, s.n, s.k);
  });
}

}  // namespace ladder
