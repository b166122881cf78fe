// The tests of a box against all centroids in float: half the words, and twice the operations per cycle, of those in
// double (boxes.cuh). v05h_narrow_tests introduces them.
//
// Centroids are rounded to nearest, which is off by less than 2^-23.9 of the value, boxes outwards. With m the sum of
// the magnitudes of v, z and c, the two factors of a term, z - c and s = (v - z) + (v - c), are off by less than
// 2^-22.9 m and 2^-21.5 m. The sum of their products, its rounding included, is off by less than
// 2^-20 m (|z - c| + |s|) + 2^-44 m^2 for each. Where rounding turns the sign of z - c, the corner is the other one,
// and the term is off by 2^-21 m times the side of the box.
#pragma once
#include "narrow_boxes.cuh"

namespace ladder {

template <int d>
struct NarrowTests {
  NarrowBox<d> box;
  const NarrowCentroid<d>* c;
  int z = 0;
  __device__ void find_near(int k) { z = near_centre(box, c, k); }
  __device__ bool keeps(int j) const {
    constexpr float term_error = 0x1p-20f, square_error = 0x1p-18f, underflow = 0x1p-100f;
    const float m = box.size + c[z].size + c[j].size;
    float sum = 0, reach = box.sides + square_error * m;
#pragma unroll
    for (int f = 0; f < d; ++f) {
      const float from = c[z].x[f], to = c[j].x[f], apart = from - to, v = apart < 0 ? box.high[f] : box.low[f];
      const float s = (v - from) + (v - to);
      sum += apart * s;
      reach += fabsf(apart) + fabsf(s);
    }
    return !(sum > term_error * m * reach + underflow);  // also where the sum is NaN; z keeps itself: the sum is 0
  }
};

}  // namespace ladder
