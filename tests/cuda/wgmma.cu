// A warpgroup's products, the ring of bulk copies and both together, on a GPU of compute capability 9.0: whole numbers,
// so that one value in a wrong place shows. Built where there is a GPU: cmake --build build --target cuda_test
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "../../variants/common/certified/assign_sm90.cuh"
#include "../../variants/common/device/tma_pipeline.cuh"
#include "../../variants/common/gemm/mainloop_sm90.cuh"
#include "../simt/on_device.cuh"

namespace {
using namespace ladder;

class Hopper : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
    if (device.major != 9 || device.minor != 0) GTEST_SKIP() << device.name << " has no products of warpgroups";
  }
};
using Wgmma = Hopper;
using BulkRings = Hopper;
using WarpgroupTiles = Hopper;

int of_point(int64_t i, int f) { return int((i * 7 + f * 3) % 23) - 11; }
int of_centroid(int64_t j, int f) { return int((j * 5 + f * 11) % 19) - 9; }

/// What was asked for has ended, without an error.
void finish(const char* what) { check(cudaDeviceSynchronize(), what); }

/// n rows of d features, and zeros up to whole groups and steps, as warpgroups take them.
std::vector<__half> points_in_order(int n, int64_t padded, int steps, int d) {
  std::vector<__half> halves(padded * steps * mma_depth, __float2half(0.0f));
  for (int i = 0; i < n; ++i)
    for (int f = 0; f < d; ++f)
      halves[a_fragment_offset(i, f / 2, steps) * 2 + f % 2] = __float2half(float(of_point(i, f)));
  return halves;
}

/// k centroids, tile by tile, and behind each tile its facts, where it has any: their squares are their numbers.
template <int columns, class Facts = CentroidBound>
std::vector<unsigned char> tiles_of(int k, int steps, int d) {
  using Tile = MainloopSm90<columns, Facts>;
  std::vector<unsigned char> bytes(Tile::padded_columns(k) / columns * Tile::tile_bytes(steps));
  for (int j = 0; j < Tile::padded_columns(k); ++j) {
    unsigned char* const tile = bytes.data() + j / columns * Tile::tile_bytes(steps);
    for (int f = 0; f < d && j < k; ++f)
      reinterpret_cast<__half*>(tile)[b_smem_offset<columns>(j % columns, f / 2) * 2 + f % 2] =
          __float2half(float(of_centroid(j, f)));
    if constexpr (Tile::with_facts)
      reinterpret_cast<Facts*>(tile + steps * step_bytes<columns>)[j % columns] = {1, 0, float(j), 0};
  }
  return bytes;
}

/// All products, n x k.
std::vector<float> exact(int n, int k, int d) {
  std::vector<int> x(size_t(n) * d), c(size_t(k) * d);
  for (size_t e = 0; e < x.size(); ++e) x[e] = of_point(int64_t(e / d), int(e % d));
  for (size_t e = 0; e < c.size(); ++e) c[e] = of_centroid(int64_t(e / d), int(e % d));
  std::vector<float> products(size_t(n) * k);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) {
      int sum = 0;
      for (int f = 0; f < d; ++f) sum += x[size_t(i) * d + f] * c[size_t(j) * d + f];
      products[size_t(i) * k + j] = float(sum);  // below 2^24
    }
  return products;
}

/// Fails at the first product that differs.
void expect_products(const std::vector<float>& found, int n, int k, int d) {
  const auto expected = exact(n, k, d);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j)
      ASSERT_EQ(found[size_t(i) * k + j], expected[size_t(i) * k + j]) << "point " << i << ", centroid " << j;
}

// ------------------------------------------------------------------------------------------------------- one warpgroup

template <int columns>
__global__ void __launch_bounds__(warpgroup_threads)
    product_kernel(const uint4* x, const unsigned char* c, float* out, int steps) {
  unsigned char* const b = dynamic_shared<unsigned char>();
  for (int e = threadIdx.x; e < steps * step_bytes<columns>; e += warpgroup_threads) b[e] = c[e];
  fence_async_proxy();
  __syncthreads();
  float d[columns / 2] = {};
  for (int step = 0; step < steps; ++step) {
    const uint4 words = x[step * warpgroup_threads + threadIdx.x];
    warpgroup_arrive();
    wgmma<columns>(d, {words.x, words.y, words.z, words.w},
                   descriptor<columns>(shared_address(b)) + step * descriptor_offset(step_bytes<columns>), step > 0);
    warpgroup_commit();
    warpgroup_wait_for(d);
  }
#pragma unroll
  for (int e = 0; e < columns / 2; ++e)
    out[accumulator_row(threadIdx.x, e) * columns + accumulator_column(threadIdx.x, e)] = d[e];
}

template <int columns>
void multiply_whole_numbers() {
  constexpr int steps = 5, d = steps * mma_depth - 3;
  const OnDevice<__half> x(points_in_order(warpgroup_rows, warpgroup_rows, steps, d));
  const OnDevice<unsigned char> c(tiles_of<columns>(columns, steps, d));
  const OnDevice<float> out(warpgroup_rows * columns);
  launch(product_kernel<columns>, 1, warpgroup_threads, steps * step_bytes<columns>, nullptr,
         reinterpret_cast<const uint4*>(static_cast<__half*>(x)), c, out, steps);
  finish("multiplying");
  expect_products(out.values(), warpgroup_rows, columns, d);
}

TEST_F(Wgmma, ProductsOfWholeNumbersAreExact) {
  multiply_whole_numbers<64>();
  multiply_whole_numbers<128>();
  multiply_whole_numbers<168>();
}

TEST_F(Wgmma, TheProbeFindsWhatTheCertificateAllows) {
  const ProbeRatios narrow = probe_accumulator_sm90<128>(40), wide = probe_accumulator_sm90<168>(40),
                    part = probe_accumulator_sm90<64>(40);
  for (int kind = 0; kind < kinds_of_probes; ++kind)
    std::printf(
        "of what the certificate allows, a warpgroup's sums use up %.4f (64 columns), %.4f (128), %.4f (168): %s\n",
        double(part[kind]), double(narrow[kind]), double(wide[kind]), probe_kinds[kind]);
  EXPECT_EQ(refuse_ratios(part), "");
  EXPECT_EQ(refuse_ratios(narrow), "");
  EXPECT_EQ(refuse_ratios(wide), "");
  EXPECT_GT(*std::max_element(narrow.begin(), narrow.end()), 0) << "nothing was cut: the probe tries nothing";
}

// ------------------------------------------------------------------------------------------------------------ the ring

constexpr int ring_slots = 3, ring_bytes = 512, ring_readers = 2;
using SmallRing = TmaPipeline<ring_slots, ring_bytes, ring_readers>;

/// Of every third piece only a half is copied, as of a tile's last.
__host__ __device__ int piece_bytes(int piece) { return piece % 3 == 2 ? ring_bytes / 2 : ring_bytes; }

/// sum: of the words of each piece, cluster_size x readers x pieces.
__global__ void __cluster_dims__(cluster_size, 1, 1) ring_kernel(const unsigned char* from, int* sum, int pieces) {
  const SmallRing ring(dynamic_shared<unsigned char>());
  ring.init();
  PipelineState at;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == ring_readers) {
    if (lane == 0) {
      for (int piece = 0; piece < pieces; ++piece) ring.produce(at, from + piece * ring_bytes, piece_bytes(piece));
    }
  } else {
    for (int piece = 0; piece < pieces; ++piece) {
      ring.consumer_wait(at);
      const int* const words = dynamic_shared<int>() + at.slot * ring_bytes / 4;
      int total = 0;
      for (int e = lane; e < piece_bytes(piece) / 4; e += 32) total += words[e];
      for (int half = 16; half > 0; half /= 2) total += __shfl_xor_sync(0xffffffffu, total, half);
      if (lane == 0) sum[(ring.rank * ring_readers + warp) * pieces + piece] = total;
      __syncwarp();
      ring.consumer_release(at.slot);
      at.advance(ring_slots);
    }
  }
  ring.finish();
}

TEST_F(BulkRings, EveryPieceReachesBothBlocks) {
  constexpr int pieces = 1000;
  std::vector<int> words(pieces * ring_bytes / 4);
  for (size_t e = 0; e < words.size(); ++e) words[e] = int(e * 2654435761u >> 12);
  const OnDevice<int> from(words), sum(cluster_size * ring_readers * pieces);
  launch(ring_kernel, cluster_size, (ring_readers + 1) * 32, SmallRing::bytes, nullptr,
         reinterpret_cast<const unsigned char*>(static_cast<int*>(from)), sum, pieces);
  finish("going round");
  const auto found = sum.values();
  for (int piece = 0; piece < pieces; ++piece) {
    int exact = 0;
    for (int e = 0; e < piece_bytes(piece) / 4; ++e) exact += words[piece * ring_bytes / 4 + e];
    for (int reader = 0; reader < cluster_size * ring_readers; ++reader)
      ASSERT_EQ(found[reader * pieces + piece], exact) << "piece " << piece << ", reader " << reader;
  }
}

__global__ void wait_kernel() {
  __shared__ uint64_t barrier;
  cuda::ptx::mbarrier_init(&barrier, 1);
  wait(&barrier, 0);
}

TEST_F(BulkRings, WhoWaitsForEverIsAnError) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // the error stays with the process
  EXPECT_EXIT(
      {
        launch(wait_kernel, 1, 1, 0, nullptr);
        std::exit(cudaDeviceSynchronize() == cudaSuccess ? 1 : 7);
      },
      testing::ExitedWithCode(7), "");
}

// ------------------------------------------------------------------------------------------------------------ together

template <class Facts, int columns, int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns, Facts>::block, 1)
    matrix_kernel(const uint4* x, const unsigned char* c, float* out, int* strangers, int n, int k, int steps) {
  using Tile = MainloopSm90<columns, Facts>;
  int64_t own = 0;
  Tile::template multiply<k_block, streamed>(
      x, c, n, k, steps, [&](int64_t row) { own = row; },
      [&](int first, const auto& facts, float(&product)[columns / 2]) {
#pragma unroll
        for (int e = 0; e < columns / 2; ++e) {
          const int thread = threadIdx.x % warpgroup_threads, j = first + accumulator_column(thread, e);
          const int64_t i = own + accumulator_row(thread, e);
          if constexpr (Tile::with_facts) {
            if (facts[accumulator_column(thread, e)].square != float(j)) atomicAdd(strangers, 1);
          }
          if (i < n && j < k) out[i * k + j] += product[e];
        }
      },
      [&](int64_t row) {
        if (row != own) atomicAdd(strangers, 1);
      });
}

template <int columns, int k_block, bool streamed, class Facts = CentroidBound>
void matrix(int n, int k, int d, int grid) {
  SCOPED_TRACE("tiles of " + std::to_string(columns) + ", windows of " + std::to_string(k_block) +
               ", N = " + std::to_string(n) + ", K = " + std::to_string(k) + ", D = " + std::to_string(d));
  using Tile = MainloopSm90<columns, Facts>;
  const int pitch = k_block * stage_depth, steps = (d + pitch - 1) / pitch * pitch / mma_depth;
  const OnDevice<__half> x(points_in_order(n, Tile::padded_rows(n), steps, d));
  const OnDevice<unsigned char> c(tiles_of<columns, Facts>(k, steps, d));
  const OnDevice<float> out(size_t(n) * k);  // zeros: what is written twice shows
  const OnDevice<int> strangers(1);
  launch(matrix_kernel<Facts, columns, k_block, streamed>, grid, Tile::block, Tile::Ring::bytes, nullptr,
         reinterpret_cast<const uint4*>(static_cast<__half*>(x)), c, out, strangers, n, k, steps);
  finish("multiplying");
  EXPECT_EQ(strangers.values()[0], 0) << "facts of other centroids, or rows that begin and end otherwise";
  expect_products(out.values(), n, k, d);
}

TEST_F(WarpgroupTiles, AllProductsOfPointsThatStayInRegisters) {
  matrix<168, 1, false>(100, 7, 3, 2);       // one tile, one stage, half of the cluster without points
  matrix<128, 4, false>(1500, 500, 120, 4);  // 6 bundles for 2 clusters, 4 tiles
  matrix<168, 13, false>(1500, 800, 408, 4);
  matrix<168, 13, false>(20'000, 170, 416, 132);
  matrix<168, 16, false>(1500, 800, 484, 4);
}

TEST_F(WarpgroupTiles, AllProductsOfPointsThatAreReadAgain) {
  matrix<168, 5, true>(1500, 800, 784, 4);
  matrix<128, 7, true>(300, 130, 448, 2);
  matrix<128, 8, true>(1500, 300, 1000, 6);
  matrix<168, 8, true>(600, 170, 4096, 2);
}

TEST_F(WarpgroupTiles, AllProductsWithNothingBesideThem) {
  matrix<168, 1, false, NoFacts>(100, 7, 3, 2);
  matrix<128, 4, false, NoFacts>(1500, 500, 120, 4);
  matrix<168, 16, false, NoFacts>(20'000, 170, 512, 132);
  matrix<168, 7, true, NoFacts>(1500, 800, 784, 4);
  matrix<128, 8, true, NoFacts>(1500, 300, 1000, 6);
}

}  // namespace
