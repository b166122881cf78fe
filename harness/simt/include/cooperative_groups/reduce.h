// cooperative_groups::reduce over a tile, by butterfly: every thread of the tile gets the result.
#pragma once
#include <cooperative_groups.h>

#include <type_traits>

namespace cooperative_groups {

template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

template <unsigned N, class Parent, class T, class Op>
T reduce(const thread_block_tile<N, Parent>& tile, T value, Op op, simt::Where where = simt::Where::current()) {
  if constexpr (std::is_same_v<T, float>) {
    // Unrolled: then g++ moves the last step behind a branch where nothing else needs it, as ptxas does. Of doubles
    // ptxas moves it only where nothing but a store follows.
#pragma GCC unroll 5
    for (unsigned step = N / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, step, where));
  } else {
    for (unsigned step = N / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, step, where));
  }
  return value;
}

}  // namespace cooperative_groups
