// v30: v29's epilogue compares each bound with the row's best, and goes through the tile again for each one that
// reaches it. A warp has sixteen rows: in nearly every tile one of them has a new best, and all wait, longer than the
// other consumer multiplies. Here the argmax has no branch: a bound carries its column in its last six bits, and
// minimum and maximum alone keep the two largest of a tile (gemm/argmax_sm90.cuh). Rows that two bounds do not
// prove have up to eight candidates, and are compared with those in double.
//
// for cuda: 90a
#include "../common/gemm/argmax_sm90.cuh"
#include "../common/gemm/mainloop_sm90.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

#ifdef __CUDACC__
template <int columns, int k_block, bool streamed>
__global__ void __cluster_dims__(cluster_size, 1, 1) __launch_bounds__(MainloopSm90<columns>::block, 1)
    assign_kernel(const uint4* __restrict__ x, const unsigned char* __restrict__ c,
                  const PointBound* __restrict__ point, int32_t* __restrict__ label, CandidateRows undecided,
                  RefineCounters* refine_counters, int n, int k, int steps) {
  using Mainloop = MainloopSm90<columns>;
  using Epilogue = Top2Epilogue<columns, Mainloop::readers>;
  Epilogue epilogue{reinterpret_cast<RowSlot*>(dynamic_shared<unsigned char>() + Mainloop::Ring::bytes),
                    steps > 0 ? ~index_mask : 0};
  const auto prologue = [&](int64_t row) {
    epilogue.clear();
    for (int r = 0; r < 2; ++r)
      epilogue.slot(r).point = point[row + accumulator_row(threadIdx.x % warpgroup_threads, 2 * r)];
  };
  const auto length = [&] { return n; };
  const auto number = [](int64_t row) { return int(row); };
  const auto lower = [&](float upper, int64_t row, int j) {
    const unsigned char* const tile = c + j / columns * Mainloop::tile_bytes(steps);
    const auto* const bounds = reinterpret_cast<const CentroidBound*>(tile + bounds_offset<columns>(steps));
    return lower_bound(upper, point[row], bounds[j % columns]);
  };
  Mainloop::template multiply<k_block, streamed>(
      x, c, n, k, steps, prologue,
      [&](int first, const CentroidBound* centroid, float(&product)[columns / 2]) {
        const PointBound y[2] = {epilogue.slot(0).point, epilogue.slot(1).point};
        epilogue(first, [&](int e) {
          return upper_bound(product[e], y[e / 2 % 2], centroid[accumulator_column(threadIdx.x, e)]);
        });
      },
      [&](int64_t row) { epilogue.finish(row, length, number, lower, label, undecided, refine_counters, n); });
}
#endif

/// Operands in the shape of the mainloop's plan.
struct PlannedBounds : SeparateBounds {
  template <class T, class W>
  static void prepare(Run<T, W>& s) {
    prepare_candidate_rows(s);
  }
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
  CandidateRows undecided;
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
           Mainloop::block, Mainloop::Ring::bytes + Top2Epilogue<columns, Mainloop::readers>::bytes, s.stream,
           operands.x, operands.c, operands.point, s.label, s.ws.undecided, refine_counters, s.n, s.k,
           operands.shape.steps);
  });
#endif
  refine_candidates(s, refine_counters);
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
        .id = "v30_packed_argmax", .base = "v29_multicast",
        .idea = "an argmax without branches: bounds carry their column, minimum and maximum keep the two largest",
        .expect =
            "the base's assignment at kmcuda_isotropic on an H200 takes 3.23 ms in the first iteration, where many "
            "bounds reach the best, and 2.25 in later ones; products alone take 1.6. Four instructions per bound for "
            "the argmax, 670 cycles a tile of 168 columns, and three for the bound: some 1,000 cycles in every tile, "
            "hidden behind 2,180 of products. 1.1 to 1.2 times as fast as v29 where K and D are large, in the first "
            "iteration up to 1.5 times; most at few features, where the epilogue is the longest part. A larger step: "
            "rows with up to eight candidates need a list and a kernel that compares them",
        .shows = "assign",
        .source = "this project; cuVS, fused distance and argmin, for the idea of an argmin epilogue",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
