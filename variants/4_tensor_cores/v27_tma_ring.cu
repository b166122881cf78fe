// v27: in v26 all threads copy, and all wait for each other at a barrier in every stage. Here the block is
// warp-specialised: one warp is the producer and keeps a ring of 24 stages full by bulk copies, one instruction of one
// thread for 8 KB; two warpgroups are the consumers. They wait for data alone, by an mbarrier per slot
// (device/tma_pipeline.cuh has the picture), and one may be most of the ring ahead of the other, so that products go on
// during the other's epilogue. A consumer keeps 8 stages of its points in registers: whole rows up to 256 features; of
// longer rows, the fragments of a stage are replaced as soon as its products have ended, 8 stages ahead of their use.
//
// for cuda: 90a
#include "../common/certified/assign_sm90.cuh"
#include "../common/device/tma_pipeline.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

/// Stages of a k-block: the fewest that hold a row; of a row of more than 8 stages, 7 or 8, whichever pads it less.
constexpr int k_block_of(int stages) {
  for (const int k_block : {1, 2, 4, 6, 8}) {
    if (stages <= k_block) return k_block;
  }
  return (stages + 6) / 7 * 7 < (stages + 7) / 8 * 8 ? 7 : 8;
}

#ifdef __CUDACC__
constexpr int columns = 128;                                           // centroids of a tile
constexpr int consumers = 2, readers = consumers * warpgroup_threads;  // threads
constexpr int block = readers + 32, rows = consumers * warpgroup_rows;
constexpr int slots = 24, stage_bytes = stage_steps * step_bytes<columns>;  // of 32 features: 8 KB
constexpr int bounds_bytes = columns * sizeof(CentroidBound);
using Ring = TmaPipeline<slots, stage_bytes, readers / 32, 1>;
using Epilogue = Top3Epilogue<columns, readers>;

/// `k_block`: stages of a point in registers; `streamed`: a point has more, whole k-blocks.
template <int k_block, bool streamed>
__global__ void __launch_bounds__(block, 1)
    assign_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                  const PointBound* __restrict__ point, int32_t* __restrict__ label, UndecidedPair* undecided_pairs,
                  RefineCounters* refine_counters, int n, int k, int steps) {
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const Ring ring(shared);
  ring.init();
  const int tiles = (k + columns - 1) / columns, stages = steps / stage_steps;
  PipelineState state;
  if (threadIdx.x >= readers) {  // the producer
    if (threadIdx.x > readers) return;
    for (int tile = 0; tile < tiles; ++tile) {
      for (int stage = 0; stage < stages; ++stage, c += stage_bytes) ring.produce(state, c, stage_bytes);
      ring.produce(state, c, bounds_bytes);
      c += bounds_bytes;
    }
    return;
  }

  const int64_t row = int64_t(blockIdx.x) * rows + threadIdx.x / warpgroup_threads * warpgroup_rows;
  const uint4* const fragments = x + row / warpgroup_rows * steps * warpgroup_threads + threadIdx.x % warpgroup_threads;
  FragmentA a[k_block][stage_steps];
  const auto load = [&](int i, int stage) {
#pragma unroll
    for (int s = 0; s < stage_steps; ++s) {
      const uint4 words = __ldcg(fragments + (stage * stage_steps + s) * warpgroup_threads);
      a[i][s] = {words.x, words.y, words.z, words.w};
    }
  };
#pragma unroll
  for (int i = 0; i < k_block; ++i) load(i, i);
  Epilogue epilogue{reinterpret_cast<RowSlot*>(shared + Ring::bytes)};
  epilogue.prologue(point, row);
  for (int tile = 0; tile < tiles; ++tile) {
    float product[columns / 2];
    int previous = 0;  // the slot of the stage before
    for (int done = 0; done < (streamed ? stages : 1); done += k_block) {
#pragma unroll
      for (int i = 0; i < k_block; ++i) {
        ring.consumer_wait(state);
        const uint64_t b = descriptor<columns>(ring.slot(state));
        warpgroup_arrive();
#pragma unroll
        for (int s = 0; s < stage_steps; ++s)
          wgmma<columns>(product, a[i][s], b + s * descriptor_offset(step_bytes<columns>), done > 0 || i > 0 || s > 0);
        warpgroup_commit();
        if (done > 0 || i > 0) {  // with these in flight, the stage before has ended: its slot and registers are free
          warpgroup_wait<1>();
          ring.consumer_release(previous);
          const int free = (i + k_block - 1) % k_block, next = done + i - 1 + k_block;
          if constexpr (streamed) load(free, next < stages ? next : free);
        }
        previous = state.slot;
        state.advance(slots);
      }
    }
    warpgroup_wait_for(product);
    ring.consumer_release(previous);
    if constexpr (streamed) load(k_block - 1, k_block - 1);
    ring.consumer_wait(state);
    epilogue(tile * columns, reinterpret_cast<const CentroidBound*>(shared + state.slot * stage_bytes), product);
    __syncwarp();  // all lanes have read the bounds
    ring.consumer_release(state.slot);
    state.advance(slots);
  }
  epilogue.finish(row, label, undecided_pairs, refine_counters, n);
}

/// Calls body.template operator()<k_block, streamed>().
template <class F>
void dispatch_k_block(int stages, F body) {
  const int k_block = k_block_of(stages);
  if (stages > k_block)
    dispatch<7, 8>(k_block, [&]<int k>() { body.template operator()<k, true>(); });
  else
    dispatch<1, 2, 4, 6, 8>(k_block, [&]<int k>() { body.template operator()<k, false>(); });
}
#endif

/// Operands padded to whole k-blocks.
struct PaddedBounds : SeparateBounds {
  static OperandShape shape(int, int d) {
    const int stages = blocks(d, stage_depth), k_block = k_block_of(stages);
    return {128, blocks(stages, k_block) * k_block * stage_steps};
  }
};

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
  prepare_sm90<T, PaddedBounds>(s);
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
  dispatch_k_block(operands.shape.steps / stage_steps, [&]<int k_block, bool streamed>() {
    launch(assign_kernel<k_block, streamed>, blocks(s.n, rows), block, Ring::bytes + Epilogue::bytes, s.stream,
           operands.x, operands.c, operands.point, s.label, s.ws.refinement.undecided_pairs, refine_counters, s.n, s.k,
           operands.shape.steps);
  });
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

LADDER_VARIANT(.id = "v27_tma_ring", .base = "v26_wgmma",
               .idea = "a producer warp fills a ring by bulk copies (TMA); consumers wait for data, not for each other",
               .expect =
                   "no barrier of the block in the mainloop, and no thread spends instructions on copies. Traffic from "
                   "the L2 cache stays: at kmcuda 9.8 GB of centroids (2,344 blocks x 4.2 MB) and as much of points, "
                   "3.5 ms at 5.5 TB/s, twice what the products take. 1.1 to 1.2 times as fast as v26; more at D up to "
                   "256, where points stay in registers",
               .shows = "assign", .counter = "tensor_percent",
               .source = "NVIDIA's CUTLASS, PipelineTmaAsync; HazyResearch's ThunderKittens, educational_h100",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
