// v29: in v28 every block reads all centroids from the L2 cache for its 128 points: at kmcuda 9.8 GB, longer than the
// products take. Here two neighbouring blocks form a cluster and share the copies: each producer fetches half of a
// stage, and the copy engine writes it to the shared memory of both blocks (multicast). Blocks are persistent, so that
// a cluster's ring stays full from one work tile of 256 points to the next, tiles have 168 columns where that pads
// less, and k-blocks fit the number of features (gemm/mainloop_sm90.cuh; device/tma_pipeline.cuh has the cluster's
// barriers).
//
// for cuda: 90a
#include "../common/certified/assign_sm90.cuh"
#include "../common/gemm/mainloop_sm90.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

#ifdef __CUDACC__
template <int columns, int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns>::block, 1)
    assign_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                  const PointBound* __restrict__ point, int32_t* __restrict__ label, UndecidedPair* undecided_pairs,
                  RefineCounters* refine_counters, int n, int k, int steps) {
  using Mainloop = MainloopSm90<columns>;
  Top3Epilogue<columns, Mainloop::readers> epilogue{
      reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Mainloop::Ring::bytes)};
  Mainloop::template multiply<k_block, streamed>(
      x, c, n, k, steps, [&](int64_t row) { epilogue.prologue(point, row); },
      [&](int first, const CentroidBound* centroid, float(&product)[columns / 2]) {
        epilogue(first, centroid, product);
      },
      [&](int64_t row) { epilogue.finish(row, label, undecided_pairs, refine_counters, n); });
}
#endif

/// Operands in the shape of the mainloop's plan.
struct PlannedBounds : SeparateBounds {
  static OperandShape shape(int k, int d) {
    const MainloopPlan plan = plan_mainloop(k, d);
    return {plan.columns, plan.steps};
  }
  static size_t tile_bytes(const OperandShape& shape) {
    return shape.columns == 128 ? centroid_tile_bytes<128>(shape.steps) : centroid_tile_bytes<168>(shape.steps);
  }
  template <class T>
  static void quantize_centroids(const T* c, const Frame<T>& frame, const WarpgroupData& rows, const int* length, int k,
                                 int d, cudaStream_t stream) {
    dispatch<128, 168>(rows.shape.columns, [&]<int columns>() {
      SeparateBounds::quantize_centroids<T, columns>(c, frame, rows, length, k, d, stream);
    });
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
  prepare_sm90<T, PlannedBounds>(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points_sm90(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  RefineCounters* const refine_counters = next_refine_counters(s);
  quantize_centroids_sm90<PlannedBounds>(s);
#ifdef __CUDACC__
  const WarpgroupData& operands = s.ws.warpgroup.rows;
  dispatch_plan(plan_mainloop(s.k, s.d), [&]<int columns, int k_block, bool streamed>() {
    using Mainloop = MainloopSm90<columns>;
    launch(assign_kernel<columns, k_block, streamed>, Mainloop::grid(s.n, s.device_info.multiprocessors),
           Mainloop::block, Mainloop::Ring::bytes + Top3Epilogue<columns, Mainloop::readers>::bytes, s.stream,
           operands.x, operands.c, operands.point, s.label, s.ws.refinement.undecided_pairs, refine_counters, s.n, s.k,
           operands.shape.steps);
  });
#endif
  refine(s, refine_counters);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90<128, 168>(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v29_multicast", .base = "v28_ping_pong",
        .idea = "clusters of two blocks: each stage of centroids is fetched once for both (multicast)",
        .expect =
            "4.9 GB from the L2 cache instead of 9.8 at kmcuda, 0.9 ms: the products, 1.6 ms, are the longer part "
            "again. 1.1 to 1.2 times as fast as v28 where K and D are large, no faster at D = 32, where the "
            "epilogue is the longest part",
        .shows = "assign", .counter = "tensor_percent",
        .source = "NVIDIA's CUTLASS, kernels with ping-pong warpgroups and TMA multicast",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
