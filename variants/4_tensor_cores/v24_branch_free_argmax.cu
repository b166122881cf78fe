// v24: v23's epilogue computes bounds from three numbers per centroid, which come from shared memory, one load for two
// products, with no registers free to load them early; then it compares each bound with the row's best, and goes
// through the tile again for each one that reaches it. A warp has sixteen rows: in nearly every tile one of them has a
// new best, and all wait, longer than the other consumer multiplies. Here nothing is computed and nothing branches. The
// terms of a bound are four more columns of the operands, so that the product itself is the bound; and the two largest
// of a tile are found by minimum and maximum alone, because a bound carries its column in its last six bits
// (certified/bound_columns.cuh). Rows that two bounds do not prove have up to eight candidates, and are compared with
// those in double.
//
// for cuda: 90a
#include "../common/certified/bound_columns.cuh"
#include "../common/update/lane_private.cuh"

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
  quantize_points_sm90<EpilogueBoundColumns>(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90<168>(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign_bound_columns<T>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v24_branch_free_argmax", .base = "v23_multicast",
        .idea = "bounds as four more columns of the operands, and an argmax of the products without branches",
        .expect =
            "the base's assignment at kmcuda_isotropic on an H200 takes 3.23 ms in the first iteration, 2.25 in later "
            "ones. 408 features and four columns need no more steps than 408; the epilogue shrinks to four "
            "instructions per product, none of which waits, 670 cycles a tile against 2,180 of products. Tensor cores "
            "busy nine tenths of the time: 1.6 ms in all iterations; over many iterations less is gained, because "
            "power "
            "becomes the limit. At 128 features both parts take as long, and below that little is gained. Rows shorter "
            "than the longest by 2^20 and more go to the exact kernels. A new algorithm: another certificate, which is "
            "part of the product and needs all rows in one unit",
        .shows = "assign",
        .source = "this project; cuVS, fused distance and argmin, for the idea of an argmin epilogue",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda}, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
