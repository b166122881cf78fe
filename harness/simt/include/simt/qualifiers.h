// CUDA's qualifiers, in the words of g++. (`__noinline__` is left out: libstdc++ uses that word as an attribute's
// name.)
#pragma once

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

// Constant memory is a section of its own in each module, so that the runtime knows its bounds.
#define __constant__ __attribute__((section("simt_constant")))

// An OS thread runs one block at a time, so what belongs to the block may belong to the OS thread.
// __thread, not thread_local: no guard is tested at each access. A checked build puts an unused array beside each
// variable: an access past the end of one then hits that array instead of the next variable.
#ifdef __SANITIZE_ADDRESS__
#define SIMT_JOIN_(a, b) a##b
#define SIMT_JOIN(a, b) SIMT_JOIN_(a, b)
#define __shared__                                                                    \
  static __thread __attribute__((used)) char SIMT_JOIN(simt_guard_, __COUNTER__)[64]; \
  static __thread
#else
#define __shared__ static __thread
#endif
