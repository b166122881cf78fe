// v28: v27's two consumers drift apart or run in step as chance has it; in step, both multiply, then both compute
// bounds while the tensor cores idle. Here they take turns (ping-pong): a consumer issues the products of a k-block,
// then it is the other's turn, so that one consumer's epilogue always runs during the other's products. The ring is
// long enough for both: a consumer that waits for its turn holds at most one slot of its last k-block and one of
// bounds. Registers follow the work: the producer, now a warpgroup because setmaxnreg counts in these, gives back all
// but 24 of its 168, and the consumers take 240, which hold rows of 416 features.
//
// for cuda: 90a
#include "../common/certified/assign_sm90.cuh"
#include "../common/device/tma_pipeline.cuh"
#include "../common/gemm/ping_pong_sm90.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

/// Stages of a k-block: the fewest that hold a row; of a row of more than 13 stages, 7 or 8, whichever pads it less.
constexpr int k_block_of(int stages) {
  for (const int k_block : {1, 2, 4, 6, 8, 10, 13}) {
    if (stages <= k_block) return k_block;
  }
  return (stages + 6) / 7 * 7 < (stages + 7) / 8 * 8 ? 7 : 8;
}

#ifdef __CUDACC__
constexpr int columns = 128;                                           // centroids of a tile
constexpr int consumers = 2, readers = consumers * warpgroup_threads;  // threads
constexpr int block = readers + warpgroup_threads, rows = consumers * warpgroup_rows;
constexpr int slots = 24, stage_bytes = stage_steps * step_bytes<columns>;  // of 32 features: 8 KB
constexpr int bounds_bytes = columns * sizeof(CentroidBound);
using Ring = TmaPipeline<slots, stage_bytes, readers / 32, 1>;
using Epilogue = Top3Epilogue<columns, readers>;
/// 168 at launch, 65,536 / 384 rounded down to a multiple of 8.
constexpr int consumer_registers = 240, producer_registers = 24;
static_assert(consumers * consumer_registers + producer_registers <= 3 * 168);

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
    warpgroup_reg_dealloc<producer_registers>();
    if (threadIdx.x > readers) return;
    for (int tile = 0; tile < tiles; ++tile) {
      for (int stage = 0; stage < stages; ++stage, c += stage_bytes) ring.produce(state, c, stage_bytes);
      ring.produce(state, c, bounds_bytes);
      c += bounds_bytes;
    }
    return;
  }

  warpgroup_reg_alloc<consumer_registers>();
  // No deadlock: while one consumer waits for its turn with a slot of products and one of bounds in hand, the other
  // needs at most a k-block and its bounds.
  static_assert(slots >= k_block + 3);
  const OrderedBarrier turns(threadIdx.x / warpgroup_threads);
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
      turns.take();
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
      turns.pass();  // all are issued: the other consumer's follow them
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
  turns.finish();
  epilogue.finish(row, label, undecided_pairs, refine_counters, n);
}

/// Calls body.template operator()<k_block, streamed>().
template <class F>
void dispatch_k_block(int stages, F body) {
  const int k_block = k_block_of(stages);
  if (stages > k_block)
    dispatch<7, 8>(k_block, [&]<int k>() { body.template operator()<k, true>(); });
  else
    dispatch<1, 2, 4, 6, 8, 10, 13>(k_block, [&]<int k>() { body.template operator()<k, false>(); });
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

LADDER_VARIANT(
        .id = "v28_ping_pong", .base = "v27_tma_ring",
        .idea = "two consumer warpgroups take turns on the tensor cores (ping-pong); registers move to them",
        .expect =
            "the products of a tile at 408 features take 1,660 cycles at full rate, its epilogue about half of "
            "that: in turns the epilogue disappears behind products where D is large. At kmcuda points stay in "
            "registers, so half of v27's traffic from the L2 cache goes: 1.3 times as fast as v27. At D = 32 the "
            "epilogue is the longer part, and turns change nothing",
        .shows = "assign", .counter = "tensor_percent",
        .source = "NVIDIA's CUTLASS, kernels with ping-pong warpgroups; J. Shah and others, FlashAttention-3, 2024",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
