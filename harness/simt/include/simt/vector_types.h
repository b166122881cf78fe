// CUDA's vector types with CUDA's sizes and alignments, their make_ functions, and dim3.
#pragma once

#define SIMT_VECTORS(element, name, align2, align4)                                       \
  struct name##1 {                                                                        \
    element x;                                                                            \
  };                                                                                      \
  struct alignas(align2) name##2 {                                                        \
    element x, y;                                                                         \
  };                                                                                      \
  struct name##3 {                                                                        \
    element x, y, z;                                                                      \
  };                                                                                      \
  struct alignas(align4) name##4 {                                                        \
    element x, y, z, w;                                                                   \
  };                                                                                      \
  constexpr name##1 make_##name##1(element x) { return {x}; }                             \
  constexpr name##2 make_##name##2(element x, element y) { return {x, y}; }               \
  constexpr name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

SIMT_VECTORS(signed char, char, 2, 4)
SIMT_VECTORS(unsigned char, uchar, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(unsigned short, ushort, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(unsigned, uint, 8, 16)
SIMT_VECTORS(long long, longlong, 16, 16)
SIMT_VECTORS(unsigned long long, ulonglong, 16, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

/// Sizes of a grid or a block; what is left out is 1.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
