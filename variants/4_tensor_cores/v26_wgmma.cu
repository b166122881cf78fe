// v26: Hopper's tensor cores reach their rate only with wgmma, a product of a whole warpgroup: four warps multiply 64
// points with a tile of centroids, asynchronously, and read the centroids from shared memory themselves. In v25 each
// warp loads both operands into registers (ldmatrix) before a synchronous mma.sync, which gives half of that rate. Here
// only points are in registers. v25's ring of cp.async stages stays; the copies go through the ordinary (generic) proxy
// and the tensor core reads through the asynchronous one, hence a fence between them. The layouts: gemm/wgmma_sm90.cuh.
// The instruction is for compute capability 9.0 only.
//
// for cuda: 90a
#include <cuda_pipeline.h>

#include "../common/certified/assign_sm90.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

#ifdef __CUDACC__
constexpr int columns = 128;                                                                 // centroids of a tile
constexpr int block = 2 * warpgroup_threads, rows = block / 2;                               // 64 points per warpgroup
constexpr int stages = 4, stage_bytes = stage_steps * step_bytes<columns>;                   // of 32 features: 8 KB
constexpr size_t shared_bytes = stages * stage_bytes + Top3Epilogue<columns, block>::bytes;  // 48 KB: two blocks fit

__global__ void __launch_bounds__(block, 2)
    assign_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                  const PointBound* __restrict__ point, int32_t* __restrict__ label, UndecidedPair* undecided_pairs,
                  RefineCounters* refine_counters, int n, int k, int steps) {
  unsigned char* const shared = dynamic_shared<unsigned char>();  // stages x stage_bytes
  Top3Epilogue<columns, block> epilogue{reinterpret_cast<RowSlot*>(shared + stages * stage_bytes)};
  const int tiles = (k + columns - 1) / columns, tile_stages = steps / stage_steps;
  const int64_t row = int64_t(blockIdx.x) * rows + threadIdx.x / warpgroup_threads * warpgroup_rows;
  const uint4* const fragments = x + row / warpgroup_rows * steps * warpgroup_threads + threadIdx.x % warpgroup_threads;

  const unsigned char* next = c;  // the next stage to be copied
  int next_tile = 0, next_stage = 0;
  const auto fetch = [&](int to) {
    if (next_tile < tiles) {
      for (int e = threadIdx.x * 16; e < stage_bytes; e += block * 16)
        __pipeline_memcpy_async(shared + to * stage_bytes + e, next + e, 16);
      next += stage_bytes;
      if (++next_stage == tile_stages) {
        next_stage = 0, ++next_tile;
        next = c + next_tile * centroid_tile_bytes<columns>(steps);
      }
    }
    __pipeline_commit();  // empty groups at the end keep wait_prior's count right
  };

  for (int stage = 0; stage < stages - 1; ++stage) fetch(stage);
  int stage = 0;
  epilogue.prologue(point, row);
  for (int tile = 0; tile < tiles; ++tile) {
    float product[columns / 2];
    for (int current = 0; current < tile_stages; ++current) {
      FragmentA a[stage_steps];  // loaded again for each tile, from the L1 or L2 cache
#pragma unroll
      for (int s = 0; s < stage_steps; ++s) {
        const uint4 words = __ldg(fragments + (current * stage_steps + s) * warpgroup_threads);
        a[s] = {words.x, words.y, words.z, words.w};
      }
      __pipeline_wait_prior(stages - 2);
      fence_async_proxy();
      __syncthreads();                       // this stage is visible to all, and the one before is free
      fetch((stage + stages - 1) % stages);  // into the one before
      const uint64_t b = descriptor<columns>(uint32_t(__cvta_generic_to_shared(shared)) + stage * stage_bytes);
      warpgroup_arrive();
#pragma unroll
      for (int s = 0; s < stage_steps; ++s)
        wgmma<columns>(product, a[s], b + s * descriptor_offset(step_bytes<columns>), current > 0 || s > 0);
      warpgroup_commit();
      warpgroup_wait_for(product);  // the other warpgroups of the multiprocessor keep the tensor cores busy meanwhile
      stage = (stage + 1) % stages;
    }
    const unsigned char* const bounds = c + tile * centroid_tile_bytes<columns>(steps) + bounds_offset<columns>(steps);
    epilogue(tile * columns, reinterpret_cast<const CentroidBound*>(bounds), product);
  }
  epilogue.finish(row, label, undecided_pairs, refine_counters, n);
}
#endif

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
  WarpgroupOperands<T> warpgroup;
  Refinement refinement;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_sm90(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points_sm90(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  quantize_centroids_sm90(s);
#ifdef __CUDACC__
  const WarpgroupData& operands = s.ws.warpgroup.rows;
  launch(assign_kernel, blocks(s.n, rows), block, shared_bytes, s.stream, operands.x, operands.c, operands.point,
         s.label, s.ws.refinement.undecided_pairs, refine_counters, s.n, s.k, operands.shape.steps);
#endif
  refine(s, refine_counters);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90<128>(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(.id = "v26_wgmma", .base = "v25_refine",
               .idea = "products of warpgroups (wgmma): centroids read from shared memory by the tensor cores",
               .expect =
                   "wgmma can reach some 750 TFLOP/s where mma.sync reaches 300, but here every stage of 32 features "
                   "waits for a barrier of the block, for its copies and for the end of its products, and points are "
                   "loaded again for each tile: 1.3 to 1.6 times as fast as v25 where K and D are large",
               .shows = "assign", .counter = "tensor_percent",
               .source = "NVIDIA, PTX ISA, Asynchronous Warpgroup Level Matrix Instructions",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
