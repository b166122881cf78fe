// The product of a warpgroup on bytes: D = A B + D, A 64 x 32 signed bytes in registers, B 32 x 160 in shared memory, D
// integers of 32 bits in registers (wgmma.mma_async.m64n160k32). Sums are exact: no rounding and, up to most_features,
// no overflow. In bytes, A and B lie in registers and in shared memory as the halves of wgmma_sm90.cuh do, so its
// layouts hold with four features in the place of a word's two. Tiles of 160 columns pad 5,000 centroids by 2.4 % and
// 40,000 by nothing, and their sums leave registers for points of 512 features. Source: PTX ISA, "Register Fragments
// and Shared Memory Matrix Layouts": "for wgmma.mma_async.m64nNk32". v38a_integers introduces it.
#pragma once
#include "../gemm/wgmma_sm90.cuh"

namespace ladder {

constexpr int byte_columns = 160;                // centroids of a tile
constexpr int step_words = mma_depth / 2;        // of a row and step, 4 bytes each: 8 words are 32 features
constexpr int byte_step_depth = 4 * step_words;  // features of a step
constexpr int most_byte = 127;                   // -128 is not used
static_assert(int64_t(most_byte) * most_byte * most_features <= std::numeric_limits<int>::max(), "sums could overflow");

#ifdef __CUDACC__
/// As wgmma() of halves.
template <int columns>
__device__ void wgmma(int (&d)[columns / 2], const FragmentA& a, uint64_t b, bool more) = delete;
template <>
__device__ inline void wgmma<byte_columns>(int (&d)[80], const FragmentA& a, uint64_t b, bool more) {
  // clang-format off
  asm volatile(
      "{ .reg .pred more; setp.ne.b32 more, %85, 0; "
      "wgmma.mma_async.sync.aligned.m64n160k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
      "}, {%80, %81, %82, %83}, %84, more; }"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]),
        "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
        "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]),
        "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
        "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]),
        "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]),
        "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]),
        "+r"(d[63]), "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]),
        "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(int(more)));
  // clang-format on
}
#endif

}  // namespace ladder
