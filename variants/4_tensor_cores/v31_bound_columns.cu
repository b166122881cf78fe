// v31: v30's epilogue computes bounds from three numbers per centroid, which come from shared memory, one load for two
// products, with no registers free to load them early. Here nothing is computed: the terms of a bound are four more
// columns of the operands, so that the product itself is the bound (certified/bound_columns.cuh), and the epilogue is
// the argmax alone. The ring has no slot of bounds any more.
//
// for cuda: 90a
#include "../common/certified/bound_columns.cuh"
#include "../common/update/choose_update.cuh"

namespace {
using namespace ladder;

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
  prepare_sm90<T, EpilogueBoundColumns>(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_in_common_unit(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90<128, 168>(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign_bound_columns<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v31_bound_columns", .base = "v30_packed_argmax",
        .idea = "bounds as four more columns of the operands: the product itself is the bound",
        .expect =
            "408 features and four columns need no more steps than 408; the epilogue shrinks to four instructions per "
            "product, none of which waits, 670 cycles a tile against 2,180 of products. Tensor cores busy nine tenths "
            "of the time: 1.6 ms in all iterations at kmcuda; over many iterations less is gained, because power "
            "becomes the limit. At 128 features both parts take as long, and below that little is gained. Rows shorter "
            "than nearly all others by 2^20 and more, and the few that are longer by much, go to the exact kernels. A "
            "new algorithm: another certificate, which is part of the product and needs all rows in one unit",
        .shows = "assign", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .devices = {DeviceKind::cuda},
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
